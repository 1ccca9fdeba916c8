//! The arguments of this program, as they may be shown to everybody.

use onetrip_measure::target;

/// The arguments without user information: a URL keeps its host, a key-value string nothing.
pub(crate) fn command_line(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut shown = vec!["onetrip".to_owned()];
    let mut is_url = false;
    for argument in arguments.skip(1) {
        shown.push(match argument.split_once('=') {
            _ if is_url => without_secrets(&argument),
            Some(("--url", url)) => format!("--url={}", without_secrets(url)),
            _ => argument.clone(),
        });
        is_url = argument == "--url";
    }
    shown
}

fn without_secrets(url: &str) -> String {
    match url.contains("://") {
        // Parameters may hold a password too.
        true => target::without_user(url.split('?').next().unwrap_or_default()),
        false => "…".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_kept_without_user_information() {
        let given = [
            "/bin/onetrip",
            "bench",
            "--url",
            "postgres://u:p@h/d?password=x",
            "--url=host=h password=p",
        ];
        let kept = command_line(given.into_iter().map(str::to_owned));
        assert_eq!(kept, ["onetrip", "bench", "--url", "postgres://h/d", "--url=…"]);
    }
}
