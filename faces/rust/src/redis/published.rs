//! Messages that are published on channels.

use bytes::Bytes;

/// A published message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The channel that it was published on.
    pub channel: Bytes,
    /// The pattern that matched the channel, if the subscription is by pattern.
    pub pattern: Option<Bytes>,
    /// What was published.
    pub payload: Bytes,
}

/// The three kinds of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    Channel,
    Pattern,
    Sharded,
}

impl Family {
    pub(super) const ALL: [Family; 3] = [Family::Channel, Family::Pattern, Family::Sharded];

    pub(super) fn subscribe(self) -> &'static str {
        match self {
            Family::Channel => "SUBSCRIBE",
            Family::Pattern => "PSUBSCRIBE",
            Family::Sharded => "SSUBSCRIBE",
        }
    }

    pub(super) fn unsubscribe(self) -> &'static str {
        match self {
            Family::Channel => "UNSUBSCRIBE",
            Family::Pattern => "PUNSUBSCRIBE",
            Family::Sharded => "SUNSUBSCRIBE",
        }
    }
}
