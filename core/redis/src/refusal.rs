//! Errors with which a server refuses a command before it begins. A script can answer with any
//! text, so for scripts the whole text is compared. For other commands the first word is enough.

use crate::redirect::{Address, Redirect};

/// Whether this is, word for word, an error with which a server refuses a command before it begins.
///
/// A script that answers with exactly the same text can't be told from the server.
pub(crate) fn came_before(error: &[u8]) -> bool {
    !came_from_within(error)
        && (TEXTS.iter().any(|text| error.starts_with(text))
            || is_of_server(error, b"LOADING ", b" is loading the dataset in memory")
            || is_of_server(error, b"BUSY ", b" is busy running a ")
            || (error.starts_with(b"NOPERM ") && contains(error, b"ermissions to "))
            || is_redirect(error))
}

/// Whether the server says with this error, word for word, that it does not know a script.
pub(crate) fn is_no_script(error: &[u8]) -> bool {
    error.starts_with(NO_SCRIPT) && !came_from_within(error)
}

/// Whether this error of EXEC says that the connection is no longer between MULTI and EXEC. Any
/// other error leaves it there, for example if EXEC was renamed on the server.
pub(crate) fn ended_multi(error: &[u8]) -> bool {
    let texts: [&[u8]; 5] =
        [b"EXECABORT ", b"ERR EXEC without MULTI", b"CLUSTERDOWN ", b"CROSSSLOT ", b"TRYAGAIN "];
    texts.iter().any(|text| error.starts_with(text))
        || is_redirect(error)
        // Servers before 6.0, for a transaction that writes to a replica (`execCommand` in
        // multi.c).
        || contains(error, b"EXEC aborted")
}

/// Whether the error says that a command must be sent elsewhere, or later.
pub(crate) fn is_elsewhere(error: &[u8]) -> bool {
    let words: [&[u8]; 6] =
        [b"MOVED ", b"ASK ", b"TRYAGAIN", b"CLUSTERDOWN", b"LOADING", b"MASTERDOWN"];
    words.iter().any(|word| error.starts_with(word))
}

const NO_SCRIPT: &[u8] = b"NOSCRIPT No matching script";

/// The beginnings of such texts, as in Redis 7.0.15. If a server has other texts, its refusal
/// counts as an error of the script: the command is not sent again, and its outcome is unknown.
const TEXTS: [&[u8]; 7] = [
    NO_SCRIPT,
    b"TRYAGAIN Multiple keys request during rehashing of slot",
    b"CROSSSLOT Keys in request don't hash to the same slot",
    b"CLUSTERDOWN The cluster is down",
    b"CLUSTERDOWN Hash slot not served",
    b"MASTERDOWN Link with MASTER is down",
    b"NOAUTH Authentication required",
];

/// Whether the error was raised by a command inside a script: the server adds the place in the
/// script, or whose permissions were missing.
fn came_from_within(error: &[u8]) -> bool {
    contains(error, b" script: ") || contains(error, b"ACL failure in script")
}

/// Between the code and the text comes the name of the server, which forks change.
fn is_of_server(error: &[u8], code: &[u8], text: &[u8]) -> bool {
    let Some(rest) = error.strip_prefix(code) else { return false };
    let name = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    name > 0 && rest[name..].starts_with(text)
}

fn is_redirect(error: &[u8]) -> bool {
    let here = Address { host: "here".into(), port: 1 };
    Redirect::parse(error.strip_suffix(b"\r\n").unwrap_or(error), &here).is_some()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_before_a_command_begins_are_known() {
        for text in [
            "NOSCRIPT No matching script. Please use EVAL.",
            "LOADING Redis is loading the dataset in memory",
            "LOADING Valkey is loading the dataset in memory\r\n",
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "CLUSTERDOWN The cluster is down and only accepts read commands",
            "NOPERM this user has no permissions to run the 'eval' command",
            "NOPERM No permissions to access a key",
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 :6381\r\n",
        ] {
            assert!(came_before(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_script_that_imitates_a_refusal_is_not_taken_for_the_server() {
        for text in [
            "NOSCRIPT is what I say",
            "LOADING the truck",
            "LOADING  is loading the dataset in memory",
            "BUSY bees",
            "TRYAGAIN tomorrow",
            "CLUSTERDOWN",
            "MOVED 1 mountain",
            "MOVED 1 h:1 and more",
            "ASK 16384 h:1",
            "NOPERM no",
            "NOPERM ACL failure in script: No permissions to access a key",
            "MASTERDOWN Link with MASTER is down. script: f00, on @user_script:1.",
        ] {
            assert!(!came_before(text.as_bytes()), "{text}");
        }
        assert!(!is_no_script(b"NOSCRIPT is what I say"));
    }
}
