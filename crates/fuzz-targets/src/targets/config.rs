//! Connection strings: URLs, `keyword=value` pairs, environment variables. None is ever quoted.

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
    let has_password = config.redacted_url().contains(":***@");
    assert!(!has_password || config.redacted_url() == other.redacted_url());
    // A password may stand in any other place, for whoever writes it there; not because it is one.
    if has_password {
        assert_eq!(format!("{config:?}"), format!("{other:?}"));
    }
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
