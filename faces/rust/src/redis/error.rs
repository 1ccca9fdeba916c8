//! Errors of Redis as errors of this crate.

use onetrip_engine::Outcome;

use crate::error::{RESULT_TOO_LARGE, SERVER_ERROR};
use crate::{Error, Kind};

/// The error in a frame: its code, a space, a message. `in_cluster`: the configuration says that
/// the server is a node of a cluster.
pub(crate) fn from_frame(frame: &[u8], outcome: Outcome, in_cluster: bool) -> Error {
    let text = match frame {
        [b'!', rest @ ..] => {
            let at = rest.windows(2).position(|pair| pair == b"\r\n").map_or(0, |at| at + 2);
            &rest[at..]
        }
        [_, rest @ ..] => rest,
        [] => &[],
    };
    from_text(text.strip_suffix(b"\r\n").unwrap_or(text), outcome, in_cluster)
}

/// The error of a text from the server. Quoted arguments are left out, since they are values.
pub(crate) fn from_text(text: &[u8], outcome: Outcome, in_cluster: bool) -> Error {
    let text = String::from_utf8_lossy(text);
    let text = text.split(", with args beginning with").next().unwrap_or_default();
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let code = text.split(' ').next().unwrap_or_default().to_owned();
    let message = match advice(&code, in_cluster) {
        Some(advice) => format!("{text}: {advice}"),
        None => text,
    };
    Error::new(Kind::Server, outcome, SERVER_ERROR, message).with_redis_code(code)
}

/// What to do about an error whose text does not say it.
fn advice(code: &str, in_cluster: bool) -> Option<&'static str> {
    Some(match code {
        "NOAUTH" => "give a password in the configuration",
        "WRONGPASS" => "check the user and the password in the configuration",
        "NOPERM" => "the ACL of the user does not allow it",
        "MOVED" | "ASK" if in_cluster => {
            "another node has the key by now, and this was sent on a connection to one node: begin another session for the key (session_for)"
        }
        "CROSSSLOT" if in_cluster => "give keys of one command the same hash tag",
        "READONLY" if in_cluster => {
            "this node is a replica by now: begin another session for the key (session_for)"
        }
        "READONLY" => "this is a replica: connect to its master, or switch `cluster` on",
        "MOVED" | "ASK" | "CROSSSLOT" => {
            "this is a node of a cluster: switch `cluster` on in the configuration, and give keys of one command the same hash tag"
        }
        "OOM" => "the server is at its maxmemory",
        _ => return None,
    })
}

/// The error of a deadline.
pub(crate) fn deadline(outcome: Outcome) -> Error {
    let message = match outcome {
        Outcome::NotSent => "the deadline passed before the command was sent",
        Outcome::Rejected => "the deadline passed while no node of the cluster took the command",
        _ => "the deadline passed before the server answered; the command may have run",
    };
    Error::new(Kind::Timeout, outcome, "timeout", message)
}

/// The error of a reply that was too long to be kept.
pub(crate) fn too_large() -> Error {
    let message =
        "the reply is larger than reply_bytes_max, and was dropped as it came: the command has run";
    Error::new(Kind::Misuse, Outcome::Applied, RESULT_TOO_LARGE, message)
}
