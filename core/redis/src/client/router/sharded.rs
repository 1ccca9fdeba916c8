//! Sharded channels: which node each is subscribed at, and when it has to be subscribed again.
//!
//! A node has the sharded channels of its hash slots. SSUBSCRIBE is routed like a command with a
//! key, so it follows redirects and waits for a node. What is subscribed ends there when the
//! connection is lost, when the node says so because the slot moved (`sunsubscribe`), and when the
//! topology gives the slot to another node, since the node may be dead. Then the router subscribes
//! again by itself, for as long as the channel is read: with pauses while that fails.

use std::time::Duration;

use bytes::Bytes;
use onetrip_engine::{Retry, Time, Token};

use super::nodes::NodeId;

/// The token of subscriptions that the router makes again. No caller waits for them.
pub const SUBSCRIBES_AGAIN: Token = Token(u64::MAX);

/// The sharded channel that a node has unsubscribed, if this push says so.
#[must_use]
pub fn unsubscribed(push: &[u8]) -> Option<&[u8]> {
    let name = push.strip_prefix(b">3\r\n$12\r\nsunsubscribe\r\n$")?;
    let end = name.iter().position(|byte| *byte == b'\r')?;
    let (len, name) = (std::str::from_utf8(&name[..end]).ok()?, name.get(end + 2..)?);
    name.get(..len.parse().ok()?)
}

/// The channels that are read, in the order of their names.
#[derive(Default)]
pub(super) struct Sharded {
    pub(super) channels: Vec<Channel>,
    /// No channel has to be subscribed again before this moment.
    pub(super) due: Time,
}

pub(super) struct Channel {
    pub(super) name: Bytes,
    /// Where it is subscribed.
    pub(super) at: Option<At>,
    /// Subscriptions of it that are not answered.
    pub(super) asked: u32,
    /// It was subscribed, so messages may have been missed since.
    pub(super) was_lost: bool,
    /// The pause since the last failure, whose end is not known yet.
    pub(super) pause: Option<Duration>,
    /// It is not subscribed again before this moment.
    pub(super) until: Time,
    pub(super) retry: Option<Box<Retry>>,
}

/// A connection of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub(super) node: NodeId,
    /// How many connections the node had had by then.
    pub(super) connection: u32,
}

impl Sharded {
    pub(super) fn place(&self, name: &[u8]) -> Result<usize, usize> {
        self.channels.binary_search_by(|channel| channel.name[..].cmp(name))
    }

    pub(super) fn get(&mut self, name: &[u8]) -> Option<&mut Channel> {
        let at = self.place(name).ok()?;
        self.channels.get_mut(at)
    }
}

impl Channel {
    pub(super) fn lose(&mut self) {
        (self.at, self.was_lost, self.until) = (None, true, Time::ZERO);
    }
}
