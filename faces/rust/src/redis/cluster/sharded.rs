//! Sharded channels: their readers, and the subscriptions that the router asks for.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use onetrip_engine::Outcome;

use super::super::published::Family;
use super::super::pushes::{Channel, Reader};
use super::super::sent::Pending;
use super::Cluster;
use crate::{Error, Kind};

impl Cluster {
    /// Subscribes to sharded channels, some of which may be `new` to their reader. Resolves when all
    /// are confirmed. If that fails or the future is dropped, the new ones are not subscribed.
    pub(crate) async fn subscribe_to(
        &self,
        reader: &Arc<Reader>,
        channels: &[Channel],
        new: Vec<Channel>,
    ) -> Result<(), Error> {
        if !self.home.context.is_resp3() {
            return Err(needs_resp3());
        }
        let mut unconfirmed = Unconfirmed { cluster: self, reader, channels: new };
        let mut sent: Vec<Pending> = {
            let _order = self.subscribing.lock().unwrap_or_else(PoisonError::into_inner);
            self.sharded.add(reader, channels);
            channels.iter().map(|channel| Pending::of(self.subscribe(&channel.name))).collect()
        };
        for pending in &mut sent {
            let (_, result) = std::future::poll_fn(|cx| pending.poll(cx)).await;
            result?;
        }
        unconfirmed.channels.clear();
        Ok(())
    }

    /// Unsubscribes from sharded channels that nobody else reads.
    pub(crate) fn unsubscribe_from(&self, reader: &Arc<Reader>, channels: &[Channel]) {
        let _order = self.subscribing.lock().unwrap_or_else(PoisonError::into_inner);
        let unread = self.sharded.remove(reader, channels);
        self.with(|state, _| {
            unread.iter().for_each(|channel| state.router.unsubscribe(&channel.name));
        });
    }

    pub(super) fn resubscribed(&self, name: Bytes) {
        self.sharded.resubscribed(&Channel { family: Family::Sharded, name });
    }
}

/// Channels that are unsubscribed when this is dropped.
struct Unconfirmed<'a> {
    cluster: &'a Cluster,
    reader: &'a Arc<Reader>,
    channels: Vec<Channel>,
}

impl Drop for Unconfirmed<'_> {
    fn drop(&mut self) {
        if !self.channels.is_empty() {
            self.cluster.unsubscribe_from(self.reader, &self.channels);
        }
    }
}

fn needs_resp3() -> Error {
    let message = "sharded channels of a cluster come by RESP3, which the server does not speak or \
                   the configuration forbids (protocol): subscribe to usual ones";
    Error::new(Kind::Misuse, Outcome::NotSent, "sharded_needs_resp3", message)
}
