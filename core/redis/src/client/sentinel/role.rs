//! What a server says of itself: the reply to ROLE.

use std::fmt;

use crate::fields::{items, text};
use crate::reply::Reply;

/// The role that a connection to a server needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The server takes writes.
    Master,
    /// It is a replica whose link to its master stands.
    Replica,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Master => "the master",
            Role::Replica => "a replica",
        })
    }
}

/// Why a server is not what was looked for; `None` if it is. `reply` is its reply to ROLE, on the
/// connection that is to be used.
#[must_use]
pub fn unfit(wanted: Role, reply: &Reply<'_>) -> Option<String> {
    if let Reply::Error(error) = reply {
        let code = shown(error.code());
        return Some(format!("it refused ROLE ({code}): its user needs the permission +role"));
    }
    let mut fields = items(reply).into_iter().flatten();
    let said = fields.next().and_then(|role| text(&role));
    match (wanted, said.as_deref()) {
        (Role::Master, Some("master")) => None,
        (Role::Replica, Some("slave")) => {
            let state = fields.nth(2).and_then(|state| text(&state)).unwrap_or_default();
            let shown = shown(state.as_bytes());
            (state != "connected").then(|| format!("its link to its master is {shown}"))
        }
        (_, Some("master")) => Some("it is a master".into()),
        (_, Some("slave")) => Some("it is a replica".into()),
        (_, Some("sentinel")) => Some("it is a Sentinel".into()),
        _ => Some("it does not say which role it has".into()),
    }
}

/// The beginning of a word of a server's, without what must not be shown.
fn shown(word: &[u8]) -> String {
    let graphic = |&byte: &u8| if byte.is_ascii_graphic() { char::from(byte) } else { '?' };
    word.iter().take(SHOWN_MAX).map(graphic).collect()
}

const SHOWN_MAX: usize = 20;

/// Whether an error with this code says that the server has lost its role. Its connection should
/// take nothing new, and its loss is reported: [`Sentinels::handle_lost`](super::Sentinels::handle_lost).
#[must_use]
pub fn lost_its_role(code: &str) -> bool {
    matches!(code, "READONLY" | "MASTERDOWN" | "UNBLOCKED")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why_not(wanted: Role, reply: &[u8]) -> Option<String> {
        unfit(wanted, &Reply::read(reply).expect("a reply").0)
    }

    const MASTER: &[u8] = b"*3\r\n$6\r\nmaster\r\n:10\r\n*0\r\n";
    const REPLICA: &[u8] = b"*5\r\n$5\r\nslave\r\n$1\r\na\r\n:6379\r\n$9\r\nconnected\r\n:10\r\n";
    const BEHIND: &[u8] = b"*5\r\n$5\r\nslave\r\n$1\r\na\r\n:6379\r\n$7\r\nconnect\r\n:-1\r\n";

    #[test]
    fn only_a_master_is_written_to_and_only_a_linked_replica_is_read_from() {
        assert_eq!(why_not(Role::Master, MASTER), None);
        assert_eq!(why_not(Role::Replica, REPLICA), None);
        assert_eq!(why_not(Role::Master, REPLICA).as_deref(), Some("it is a replica"));
        assert_eq!(why_not(Role::Replica, MASTER).as_deref(), Some("it is a master"));
        assert!(why_not(Role::Replica, BEHIND).is_some_and(|why| why.contains("connect")));
        let sentinel = b"*2\r\n$8\r\nsentinel\r\n*0\r\n";
        assert_eq!(why_not(Role::Master, sentinel).as_deref(), Some("it is a Sentinel"));
    }

    #[test]
    fn a_server_that_does_not_tell_its_role_is_not_used() {
        let refused = why_not(Role::Master, b"-NOPERM no permissions for secret\r\n");
        assert!(refused.is_some_and(|why| why.contains("+role") && !why.contains("secret")));
        for reply in [&b"+OK\r\n"[..], b"*0\r\n", b"_\r\n", b"*1\r\n:1\r\n"] {
            assert!(
                why_not(Role::Master, reply).is_some() && why_not(Role::Replica, reply).is_some()
            );
        }
    }

    #[test]
    fn errors_of_a_server_that_was_demoted_are_known() {
        assert!(["READONLY", "MASTERDOWN", "UNBLOCKED"].into_iter().all(lost_its_role));
        assert!(!["NOREPLICAS", "ERR", ""].into_iter().any(lost_its_role));
    }
}
