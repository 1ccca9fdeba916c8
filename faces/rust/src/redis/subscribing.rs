//! Subscribing and unsubscribing: on the shared connection with RESP3, on the connection for
//! subscriptions with RESP2.

use std::sync::Arc;

use bytes::Bytes;
use onetrip_engine::Time;
use onetrip_redis::{Command, ToArg};

use super::call::{Body, Call};
use super::client::Inner;
use super::link::Link;
use super::published::Family;
use super::pushes::{Channel, Reader};
use super::sent::Pending;
use crate::{Error, Kind};

/// The encoded names of channels.
pub(crate) fn names<C>(channels: C) -> Vec<Bytes>
where
    C: IntoIterator,
    C::Item: ToArg,
{
    let command = Command::new("").args(channels);
    command.iter().map(Bytes::copy_from_slice).collect()
}

fn call(name: &str, channels: &[Channel], family: Family) -> Option<Call> {
    let of_it = || channels.iter().filter(|channel| channel.family == family);
    let count = of_it().count() as u32;
    let command = of_it().fold(Command::new(name), |command, channel| command.arg(&channel.name));
    let body = Body::Confirmed(command, count);
    (count > 0).then_some(Call::of(body, Time::NEVER))
}

/// Subscribes to channels that are `new` to their reader, and to those that it `has`. Resolves when
/// all are confirmed. If that fails or the future is dropped, the new channels are not subscribed.
pub(crate) async fn add(
    client: &Arc<Inner>,
    reader: &Arc<Reader>,
    has: Vec<Channel>,
    new: Vec<Channel>,
) -> Result<(), Error> {
    let node = &client.node;
    let channels = [&has[..], &new[..]].concat();
    if let Some(cluster) = client.cluster.as_ref().filter(|_| are_sharded(&channels)) {
        return cluster.subscribe_to(reader, &channels, new).await;
    }
    let mut unconfirmed = Unconfirmed { client, reader, channels: new };
    // Requests that were not sent are taken back before the channels are removed.
    let mut sent: Vec<Pending> = {
        // All callers subscribe in one order, on the wire and in the list.
        let _order = node.context.subscribing();
        node.context.pushes.add(reader, &channels);
        let calls = Family::ALL
            .into_iter()
            .filter_map(|family| call(family.subscribe(), &channels, family));
        calls.map(|call| Pending::of(node.send_subscribing(call))).collect()
    };
    for pending in &mut sent {
        let (_, result) = std::future::poll_fn(|cx| pending.poll(cx)).await;
        result?;
    }
    unconfirmed.channels.clear();
    Ok(())
}

/// Whether these are sharded channels; all of one call are of one family.
fn are_sharded(channels: &[Channel]) -> bool {
    channels.first().is_some_and(|channel| channel.family == Family::Sharded)
}

/// Channels that are unsubscribed when this is dropped.
struct Unconfirmed<'a> {
    client: &'a Arc<Inner>,
    reader: &'a Arc<Reader>,
    channels: Vec<Channel>,
}

impl Drop for Unconfirmed<'_> {
    fn drop(&mut self) {
        remove(self.client, self.reader, &self.channels);
    }
}

/// Unsubscribes from channels that nobody else reads.
pub(crate) fn remove(client: &Arc<Inner>, reader: &Arc<Reader>, channels: &[Channel]) {
    let (sharded, channels) = match &client.cluster {
        Some(_) => channels.iter().cloned().partition(|it| it.family == Family::Sharded),
        None => (Vec::new(), channels.to_vec()),
    };
    if let Some(cluster) = client.cluster.as_ref().filter(|_| !sharded.is_empty()) {
        cluster.unsubscribe_from(reader, &sharded);
    }
    let context = &client.node.context;
    let subscribed = context.subscribing();
    let unread = context.pushes.remove(reader, &channels);
    // It may be a connection that calls can't find: they may wait in line while it exists. Without
    // one there is nothing to unsubscribe.
    let Some(link) = subscribed.upgrade() else { return };
    for family in Family::ALL {
        if let Some(call) = call(family.unsubscribe(), &unread, family) {
            link.say(call).into_iter().for_each(|token| link.forget(token));
        }
    }
}

/// From now on subscriptions are on this connection. All channels that are read are subscribed on
/// it. If it is the first of its pool, the readers wait for it to subscribe them.
pub(crate) fn moved_to(link: &Arc<Link>, is_first: bool) {
    let mut subscribed = link.context.subscribing();
    *subscribed = Arc::downgrade(link);
    let pushes = &link.context.pushes;
    let channels = pushes.all();
    if is_first || channels.is_empty() {
        return;
    }
    pushes.reconnected();
    let calls =
        Family::ALL.into_iter().filter_map(|family| call(family.subscribe(), &channels, family));
    let sent: Option<Vec<Pending>> =
        calls.map(|call| Some(Pending::Here(link.clone(), link.say(call)?))).collect();
    drop(subscribed);
    match sent {
        Some(sent) => drop(tokio::spawn(see_to(link.clone(), sent))),
        None => {
            // The next connection tries again.
            let error = link.lock().lost("its channels could not be subscribed again");
            link.abort(error);
        }
    }
}

/// If the server refuses one channel of many, for example since the user's rights have changed, the
/// others must not be lost with it: each is subscribed by itself.
async fn see_to(link: Arc<Link>, sent: Vec<Pending>) {
    let mut is_refused = false;
    for mut pending in sent {
        let (_, result) = std::future::poll_fn(|cx| pending.poll(cx)).await;
        is_refused |= result.is_err_and(|error| error.kind() == Kind::Server);
    }
    if !is_refused {
        return;
    }
    let _subscribed = link.context.subscribing();
    for channel in link.context.pushes.all() {
        let family = channel.family;
        if let Some(call) = call(family.subscribe(), &[channel], family)
            && let Some(token) = link.say(call)
        {
            link.forget(token);
        }
    }
}
