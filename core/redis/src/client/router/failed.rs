//! How a command ends without a reply, and why a command is refused.

use std::fmt;

use bytes::Bytes;
use onetrip_engine::Outcome;

/// A command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The outcome. For a command that went to several nodes it is [`Outcome::Unknown`] if some
    /// executed it and others did not.
    pub outcome: Outcome,
    /// Why.
    pub why: Why,
    /// The last error of the server, if there was one.
    pub reply: Option<Bytes>,
}

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The connection to its node was lost, or could not be opened.
    Lost,
    /// It was redirected more often than [`Limits::redirects_max`](super::Limits::redirects_max).
    Redirects,
    /// It was redirected to a node that is not in the cluster's topology.
    Outside,
    /// No node had its slot for as long as [`Limits::held_time_max`](super::Limits::held_time_max).
    Unserved,
    /// Some nodes answered with an error.
    Server,
    /// The replies of several nodes do not fit together.
    Mismatch,
    /// Its [deadline](super::How::deadline) passed.
    Deadline,
    /// Its caller [gave it up](super::Router::give_up).
    GivenUp,
    /// There was no memory for its reply.
    NoMemory,
    /// The client was [closed](super::Router::close).
    Closed,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Lost => "the connection to its node was lost or could not be opened",
            Why::Redirects => "it was redirected too often",
            Why::Outside => "it was redirected to a node that is not part of the cluster",
            Why::Unserved => "no node of the cluster took it in time",
            Why::Server => "a node answered with an error",
            Why::Mismatch => "the replies of the nodes do not fit together",
            Why::Deadline => "its deadline passed",
            Why::GivenUp => "its caller gave it up",
            Why::NoMemory => "there is no memory for its reply",
            Why::Closed => "the client is closed",
        })
    }
}

impl Failed {
    pub(super) fn new(outcome: Outcome, why: Why) -> Failed {
        Failed { outcome, why, reply: None }
    }
}

/// Why a command is refused. Nothing of it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its keys belong to different hash slots. Holds two keys, shortened and escaped, with their
    /// slots.
    CrossSlot {
        /// The first key.
        first: (String, u16),
        /// The first key in another slot.
        second: (String, u16),
    },
    /// It is not known which of its arguments are keys. Holds its name. The caller must name the
    /// hash slot.
    KeysUnknown(String),
    /// It makes sense only for a single node. Holds its name.
    NodeByNode(String),
    /// Too many commands wait already.
    Full,
}

impl Refused {
    /// The refusal of two keys in different hash slots, given with these.
    #[must_use]
    pub fn cross_slot(first: (&[u8], u16), second: (&[u8], u16)) -> Refused {
        Refused::CrossSlot { first: (shown(first.0), first.1), second: (shown(second.0), second.1) }
    }
}

/// The most bytes of a key that an error shows.
const SHOWN: usize = 48;

fn shown(key: &[u8]) -> String {
    let more = if key.len() > SHOWN { "…" } else { "" };
    escaped(&key[..key.len().min(SHOWN)]) + more
}

/// The output of `escape_ascii`, in less code.
pub(super) fn escaped(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        for shown in std::ascii::escape_default(*byte) {
            out.push(char::from(shown));
        }
    }
    out
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::CrossSlot { first, second } => write!(
                f,
                "the keys \"{}\" (hash slot {}) and \"{}\" (hash slot {}) may lie on different nodes: \
                 a part in braces that both have, as in {{user}}.name, puts them into one slot",
                first.0, first.1, second.0, second.1
            ),
            Refused::KeysUnknown(name) => {
                write!(f, "which arguments of {name} are keys is not known")
            }
            Refused::NodeByNode(name) => {
                write!(f, "{name} means something on one node only")
            }
            Refused::Full => f.write_str("too many commands wait for nodes of the cluster"),
        }
    }
}

impl std::error::Error for Refused {}
