//! Published messages, as a stream.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;
use onetrip_redis::ToArg;

use super::client::Inner;
use super::published::{Family, Message};
use super::pushes::{Channel, Reader};
use crate::Error;
use crate::buffer::Buffer;

/// A stream of the [`Message`]s that are published on channels.
///
/// Redis keeps no messages: one that is published while no connection is subscribed is lost. After
/// a lost connection the channels are subscribed again automatically, and
/// [`reconnects`](Self::reconnects) counts how often that happened, since messages may have been
/// missed.
///
/// Up to 1,024 messages wait for a slow reader; then the oldest are dropped, and
/// [`dropped`](Self::dropped) counts them. (The server has its own limit:
/// `client-output-buffer-limit pubsub`.)
///
/// The stream ends with the client. Dropping it ends the subscriptions that no other reader shares.
pub struct Subscription {
    client: Arc<Inner>,
    buffer: Arc<Buffer<Message>>,
    reader: Arc<Reader>,
    channels: HashSet<Channel>,
    dropped: AtomicU64,
}

/// How many messages wait for their reader.
pub(crate) const MESSAGES_MAX: usize = 1024;

impl Subscription {
    pub(crate) fn new(client: &Arc<Inner>) -> Subscription {
        let buffer = Arc::new(Buffer::new(MESSAGES_MAX));
        if client.node.context.pushes.is_closed() {
            buffer.close();
        }
        Subscription {
            client: client.clone(),
            reader: Arc::new(Reader::new(buffer.clone())),
            buffer,
            channels: HashSet::new(),
            dropped: AtomicU64::new(0),
        }
    }

    /// Adds channels. Resolves when the server has confirmed them all: from then on no message is
    /// missed.
    ///
    /// # Errors
    /// The server refused, no connection came within `wait_timeout`, or the connection was lost
    /// before it confirmed. Then the channels that are new are not subscribed, now or later, and
    /// those that were subscribed before still are. Dropping the future has the same effect.
    pub async fn subscribe<C>(&mut self, channels: C) -> Result<(), Error>
    where
        C: IntoIterator,
        C::Item: ToArg,
    {
        self.add(Family::Channel, channels).await
    }

    /// The same for channels that match patterns, such as `news.*`.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn psubscribe<C>(&mut self, patterns: C) -> Result<(), Error>
    where
        C: IntoIterator,
        C::Item: ToArg,
    {
        self.add(Family::Pattern, patterns).await
    }

    /// The same for sharded channels (Redis 7), whose messages stay with the node of their hash
    /// slot. A client of a cluster subscribes at that node. If the hash slot moves or the node is
    /// lost, it subscribes again at the node that has the slot then, and
    /// [`reconnects`](Self::reconnects) counts that.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe). A client of a cluster needs RESP3 for it
    /// (`sharded_needs_resp3`).
    pub async fn ssubscribe<C>(&mut self, channels: C) -> Result<(), Error>
    where
        C: IntoIterator,
        C::Item: ToArg,
    {
        self.add(Family::Sharded, channels).await
    }

    /// Removes channels or patterns, whichever of the methods above added them.
    pub fn unsubscribe<C>(&mut self, channels: C)
    where
        C: IntoIterator,
        C::Item: ToArg,
    {
        let names = super::subscribing::names(channels);
        let gone: Vec<Channel> =
            self.channels.iter().filter(|it| names.contains(&it.name)).cloned().collect();
        for channel in &gone {
            self.channels.remove(channel);
        }
        super::subscribing::remove(&self.client, &self.reader, &gone);
    }

    async fn add<C>(&mut self, family: Family, channels: C) -> Result<(), Error>
    where
        C: IntoIterator,
        C::Item: ToArg,
    {
        let names = super::subscribing::names(channels);
        let channels = names.into_iter().map(|name| Channel { family, name });
        let (has, new): (Vec<Channel>, Vec<Channel>) =
            channels.partition(|channel| self.channels.contains(channel));
        super::subscribing::add(&self.client, &self.reader, has, new.clone()).await?;
        self.channels.extend(new);
        Ok(())
    }

    /// The next message; `None` once the client was closed. Cancel safe.
    pub async fn next(&mut self) -> Option<Message> {
        std::future::poll_fn(|cx| self.buffer.poll_next(cx)).await
    }

    /// How many messages were dropped so far because the reader was slow.
    pub fn dropped(&self) -> u64 {
        self.dropped.fetch_add(self.buffer.take_lost(), Ordering::Relaxed);
        self.dropped.load(Ordering::Relaxed)
    }

    /// How often channels were subscribed again so far, because the connection was lost or, for
    /// sharded ones, their hash slot moved. Messages that were published in between are missed.
    pub fn reconnects(&self) -> u64 {
        self.reader.reconnects()
    }
}

impl Stream for Subscription {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.buffer.poll_next(cx)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let channels: Vec<Channel> = self.channels.drain().collect();
        super::subscribing::remove(&self.client, &self.reader, &channels);
        self.buffer.close();
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subscription({} channels)", self.channels.len())
    }
}
