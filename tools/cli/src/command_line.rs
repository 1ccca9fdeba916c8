//! The arguments of this program without secrets, to be shown and stored.

use std::ffi::OsString;

use onetrip::Config;
use onetrip_measure::{redis, target};

/// The arguments without user information: a URL or key-value string is reduced to its host, port
/// and database.
pub(crate) fn command_line(arguments: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut shown = vec!["onetrip".to_owned()];
    let mut is_url = false;
    // A path need not be valid UTF-8.
    for argument in arguments.skip(1).map(|it| it.to_string_lossy().into_owned()) {
        shown.push(match argument.split_once('=') {
            _ if is_url => place(&argument),
            Some(("--url", url)) => format!("--url={}", place(url)),
            _ => argument.clone(),
        });
        is_url = argument == "--url";
    }
    shown
}

/// The place in a URL. Only a full parser can tell a password from a host; `…` if it can't be
/// parsed.
fn place(url: &str) -> String {
    if let Some(place) = redis::shown(url) {
        return place;
    }
    let read = url.parse::<Config>();
    read.map_or_else(|_| "…".to_owned(), |it| target::without_user(&it.redacted_url()))
}

/// An error line about an argument, without user information, in case the argument is a misplaced
/// URL.
pub(crate) fn concealed(line: &str) -> String {
    let mut line = line.to_owned();
    if let Some((scheme, rest)) = line.split_once("://")
        && let Some(at) = rest.rfind('@')
    {
        line = format!("{scheme}://{}", &rest[at + 1..]);
    }
    if let Some((front, rest)) = line.split_once("unix:")
        && let Some(at) = rest.rfind("@/")
    {
        line = format!("{front}unix:{}", &rest[at + 1..]);
    }
    let Some((front, value)) = line.split_once("password=") else { return line };
    let end = value.find([' ', '&', '\'']).unwrap_or(value.len());
    format!("{front}password=…{}", &value[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_kept_without_user_information() {
        let given = ["/bin/onetrip", "bench", "--url"];
        for (url, shown) in [
            ("postgres://u:p@h/d?password=x", "postgres://h/d"),
            ("postgres://u:p?secret@h/d", "postgres://h/d"),
            ("postgres://u:p/secret@h/d", "…"),
            ("host=h password=p", "postgres://h"),
            ("host=h password=secret://p@x", "postgres://h"),
            ("nonsense", "…"),
            ("rediss://u:p@h/1", "rediss://h:6379/1"),
            ("unix:u:p@/run/r.sock", "unix:/run/r.sock"),
        ] {
            let whole = format!("--url={url}");
            let one = [&given[..2], &[&whole]].concat().into_iter();
            let kept = command_line(one.map(OsString::from));
            assert_eq!(kept[1..], ["bench".to_owned(), format!("--url={shown}")]);
            let two = [&given[..], &[url]].concat().into_iter();
            assert_eq!(command_line(two.map(OsString::from))[3], shown);
        }
    }

    #[test]
    fn an_argument_that_is_no_text_is_kept_as_well_as_can_be() {
        use std::os::unix::ffi::OsStringExt;
        let given = ["onetrip".into(), OsString::from_vec(b"a\xff".to_vec())].into_iter();
        assert_eq!(command_line(given), ["onetrip", "a\u{fffd}"]);
    }

    #[test]
    fn a_url_in_the_wrong_place_is_told_without_user_information() {
        for (line, shown) in [
            ("unknown 'postgres://u:p@h/d'", "unknown 'postgres://h/d'"),
            ("unknown 'postgres://h/d?password=p&a=b'", "unknown 'postgres://h/d?password=…&a=b'"),
            ("unknown 'host=h password=p'", "unknown 'host=h password=…'"),
            ("unknown 'x@y'", "unknown 'x@y'"),
            ("unknown 'unix:u:p@/r.sock'", "unknown 'unix:/r.sock'"),
        ] {
            assert_eq!(concealed(line), shown);
        }
    }
}
