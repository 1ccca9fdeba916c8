//! Publishing, and information about subscriptions. Subscriptions are made with
//! [`subscribe`](crate::redis::Client::subscribe).

use onetrip_redis::{Command, ToArg};

use crate::redis::{FromReply, Sends};

/// Publishing, and information about subscriptions. Subscriptions are made with
/// [`subscribe`](crate::redis::Client::subscribe).
///
/// Implemented for everything that [`Sends`].
pub trait PubSubCommands: Sends {
    /// `PUBLISH`: sends a message to the subscribers of a channel. Replies with how many received
    /// it (in a cluster: from the node that was asked).
    fn publish(&self, channel: impl ToArg, message: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("PUBLISH").arg(channel).arg(message))
    }

    /// `PUBSUB CHANNELS`: the channels with subscribers that match a pattern.
    fn pubsub_channels<T: FromReply>(&self, pattern: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("PUBSUB CHANNELS").arg(pattern))
    }

    /// `PUBSUB NUMPAT`: how many patterns have subscribers.
    fn pubsub_numpat(&self) -> Self::Answer<u64> {
        self.send(Command::new("PUBSUB NUMPAT"))
    }

    /// `PUBSUB NUMSUB`: how many subscribers each of these channels has, as a map.
    fn pubsub_numsub<T: FromReply>(
        &self,
        channels: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<T> {
        self.send(Command::new("PUBSUB NUMSUB").args(channels))
    }

    /// `PUBSUB SHARDCHANNELS`: as [`pubsub_channels`](Self::pubsub_channels), of a shard. Since
    /// Redis 7.0.
    fn pubsub_shardchannels<T: FromReply>(&self, pattern: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("PUBSUB SHARDCHANNELS").arg(pattern))
    }

    /// `PUBSUB SHARDNUMSUB`: as [`pubsub_numsub`](Self::pubsub_numsub), of a shard. Since Redis
    /// 7.0.
    fn pubsub_shardnumsub<T: FromReply>(
        &self,
        channels: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<T> {
        self.send(Command::new("PUBSUB SHARDNUMSUB").args(channels))
    }

    /// `SPUBLISH`: sends a message to the subscribers of a channel of a shard. Replies with how
    /// many received it. Since Redis 7.0.
    fn spublish(&self, channel: impl ToArg, message: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("SPUBLISH").arg(channel).arg(message))
    }
}

impl<S: Sends + ?Sized> PubSubCommands for S {}
