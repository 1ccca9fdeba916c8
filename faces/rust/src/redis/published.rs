//! What is published on channels.

use bytes::Bytes;

/// A message that was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The channel that it was published on.
    pub channel: Bytes,
    /// The pattern that matched the channel, where the subscription is by pattern.
    pub pattern: Option<Bytes>,
    /// What was published.
    pub payload: Bytes,
}

/// Which of the three kinds of subscription.
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
