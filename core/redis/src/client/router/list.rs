//! What the replies say of a list of commands that runs as a whole.

use super::gather::{error_text, items};
use crate::refusal;

/// Among the replies to MULTI, a list and EXEC, the one that says that nothing of it ran where it
/// was sent, if there is one.
///
/// If MULTI itself is refused, each command runs on its own as it comes, so all of them must have
/// been refused.
#[must_use]
pub fn refusal_of_list(replies: &[u8]) -> Option<&[u8]> {
    let is_refusal = |frame: &&[u8]| error_text(frame).is_some_and(refusal::is_elsewhere);
    let last = items(replies).last().and_then(error_text);
    let ran_each = items(replies).next().and_then(error_text).is_some();
    let commands = || items(replies).take(items(replies).count() - 1);
    if last.is_none() || (ran_each && !commands().all(|frame| is_refusal(&frame))) {
        return None;
    }
    items(replies).find(is_refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_refused_if_none_of_it_ran() {
        let whole = b"+OK\r\n-MOVED 1 h:1\r\n+QUEUED\r\n-EXECABORT no\r\n";
        assert_eq!(refusal_of_list(whole), Some(&b"-MOVED 1 h:1\r\n"[..]));
        let ran = b"+OK\r\n+QUEUED\r\n*1\r\n-MOVED 1 h:1\r\n";
        assert_eq!(refusal_of_list(ran), None);
        assert_eq!(refusal_of_list(b"+OK\r\n-ERR no\r\n-EXECABORT no\r\n"), None);
    }

    #[test]
    fn where_multi_is_refused_each_command_has_to_be() {
        let none_ran = b"-LOADING no\r\n-LOADING no\r\n-ERR EXEC without MULTI\r\n";
        assert_eq!(refusal_of_list(none_ran), Some(&b"-LOADING no\r\n"[..]));
        let one_ran = b"-LOADING no\r\n:1\r\n-ERR EXEC without MULTI\r\n";
        assert_eq!(refusal_of_list(one_ran), None);
        let moved = b"-NOPERM no\r\n-ASK 1 h:1\r\n+OK\r\n-ERR EXEC without MULTI\r\n";
        assert_eq!(refusal_of_list(moved), None);
    }
}
