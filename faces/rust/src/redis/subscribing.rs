//! Subscribing and unsubscribing: on the shared connection with RESP3, on one that is there for that with
//! RESP2.

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

/// Arguments as they go onto the wire.
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
    (count > 0).then_some(Call { body, deadline: Time::NEVER, metered: false, flight: None })
}

/// Subscribes to channels that are `new` to their reader, and to those that it `has`. Resolves when all is
/// confirmed; otherwise, be it that the future is dropped, nothing is left of those that are new.
pub(crate) async fn add(
    client: &Arc<Inner>,
    reader: &Arc<Reader>,
    has: Vec<Channel>,
    new: Vec<Channel>,
) -> Result<(), Error> {
    let node = &client.node;
    let channels = [&has[..], &new[..]].concat();
    let mut unconfirmed = Unconfirmed { client, reader, channels: new };
    // What was not sent is taken back before the channels are.
    let mut sent: Vec<Pending> = {
        // Others' order on the wire is that of the list.
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

/// Unsubscribes from what nobody else reads.
pub(crate) fn remove(client: &Arc<Inner>, reader: &Arc<Reader>, channels: &[Channel]) {
    let context = &client.node.context;
    let subscribed = context.subscribing();
    let unread = context.pushes.remove(reader, channels);
    // It need not be one that calls find: they may wait in line while it is there. Without one there is nothing to
    // end.
    let Some(link) = subscribed.upgrade() else { return };
    for family in Family::ALL {
        if let Some(call) = call(family.unsubscribe(), &unread, family) {
            link.say(call).into_iter().for_each(|token| link.forget(token));
        }
    }
}

/// From now on this connection is the one that is subscribed: to all that is read, unless it is the first of its
/// pool, where whoever reads waits for it to subscribe.
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
            // The next one tries again.
            let error = link.lock().lost("its channels could not be subscribed again");
            link.abort(error);
        }
    }
}

/// Where the server refuses one channel of many, as when the user's rights have changed, the others must not stay
/// away with it: each is asked for by itself.
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
