//! The router's refusals and failures as errors of this crate.

use onetrip_redis::client::router::{Failed, Refused, Why};

use crate::error::CONNECTION_LOST;
use crate::{Error, Kind};

pub(super) fn refusal(refused: &Refused) -> Error {
    let code = match refused {
        Refused::CrossSlot { .. } => "cross_slot",
        Refused::KeysUnknown(_) => "keys_unknown",
        Refused::NodeByNode(_) => "node_by_node",
        Refused::Full => "queue_full",
    };
    let advice = match refused {
        Refused::KeysUnknown(_) | Refused::NodeByNode(_) => ": send it on a session (session_for)",
        Refused::CrossSlot { .. } | Refused::Full => "",
    };
    Error::misuse(code, format!("{refused}{advice}"))
}

pub(super) fn error_of(failed: Failed, last: Option<&Error>) -> Error {
    let Failed { outcome, why, reply } = failed;
    match (why, reply, last) {
        (_, Some(reply), _) => super::super::error::from_frame(&reply, outcome, true).about(why),
        (Why::Lost | Why::Unserved, None, Some(last)) => last.clone().with_outcome(outcome),
        (Why::Deadline, ..) => super::super::error::deadline(outcome),
        (Why::Lost, None, None) => {
            Error::new(Kind::Transport, outcome, CONNECTION_LOST, why.to_string())
        }
        _ => Error::new(Kind::Transport, outcome, "cluster", why.to_string()),
    }
}
