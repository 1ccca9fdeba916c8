//! Connection strings: URLs, `keyword=value` pairs, environment variables. No error may quote one.

use onetrip::Config;
use onetrip::config::ConfigError;

use crate::input::{Input, show, show_debug, text};

/// What stands for a password.
const PASSWORD: &str = "hunter2-hunter2";

/// A byte that says where the password goes, and a text with the places before and behind it.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = input.u8() % 6;
    let (before, behind) = match kind {
        0 => (text(input.rest()), ""),
        _ => (text(input.piece()), text(input.rest())),
    };
    let written = match kind {
        0 => before.to_owned(),
        1 => format!("postgres://user:{PASSWORD}{before}@{behind}"),
        2 => format!("{before} password={PASSWORD}{behind}"),
        3 => format!("postgresql://{before}?password={PASSWORD}{behind}"),
        4 => format!("postgres://{before}:{PASSWORD}{behind}"),
        _ => return variables(before, behind),
    };
    look_at(written.parse());
}

fn look_at(config: Result<Config, ConfigError>) {
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            let said = format!("{error} {error:?}");
            assert!(!said.contains(PASSWORD), "{said}");
            return show_debug(error.kind());
        }
    };
    show_debug(config.settings());
    let other = config.clone().password("an other one");
    // The text may also stand in another place if the input puts it there, but not as the password.
    if has_password(&config.redacted_url()) {
        assert_eq!(config.redacted_url(), other.redacted_url());
        assert_eq!(format!("{config:?}"), format!("{other:?}"));
    }
}

/// A host may look like a password as well, but not in front of everything.
fn has_password(url: &str) -> bool {
    let rest = url.trim_start_matches("postgres://");
    rest.find([':', '[', '@', '/', ',']).is_some_and(|at| rest[at..].starts_with(":***@"))
}

/// Each variable has this value or none.
fn variables(which: &str, value: &str) {
    let value = format!("{value}{PASSWORD}");
    let config = which.parse().unwrap_or_else(|_| Config::new());
    let has = |name: &str| {
        let sum = name.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
        which.bytes().any(|byte| byte == sum)
    };
    let config = config.or_variables(|name| has(name).then(|| value.clone()));
    if let Err(error) = &config {
        show(error);
    }
    look_at(config);
}
