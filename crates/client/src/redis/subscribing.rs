//! Subscribing and unsubscribing: on the shared connection with RESP3, on one that is there for that with
//! RESP2.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use onetrip_engine::Time;
use onetrip_redis::{Command, ToArg};

use super::call::{Body, Call};
use super::client::Inner;
use super::link::Link;
use super::pushes::{Channel, Reader};
use super::sent::Pending;
use crate::Error;

/// Which of the three kinds of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    Channel,
    Pattern,
    Sharded,
}

impl Family {
    const ALL: [Family; 3] = [Family::Channel, Family::Pattern, Family::Sharded];

    fn subscribe(self) -> &'static str {
        match self {
            Family::Channel => "SUBSCRIBE",
            Family::Pattern => "PSUBSCRIBE",
            Family::Sharded => "SSUBSCRIBE",
        }
    }

    fn unsubscribe(self) -> &'static str {
        match self {
            Family::Channel => "UNSUBSCRIBE",
            Family::Pattern => "PUNSUBSCRIBE",
            Family::Sharded => "SUNSUBSCRIBE",
        }
    }
}

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

/// Subscribes, and resolves when all is confirmed.
pub(crate) async fn add(
    client: &Arc<Inner>,
    reader: &Arc<Reader>,
    channels: Vec<Channel>,
) -> Result<(), Error> {
    let node = &client.node;
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
        std::future::poll_fn(|cx| match pending.poll(cx) {
            Poll::Ready((_, result)) => Poll::Ready(result),
            Poll::Pending => Poll::Pending,
        })
        .await?;
    }
    Ok(())
}

/// Unsubscribes from what nobody else reads.
pub(crate) fn remove(client: &Arc<Inner>, reader: &Arc<Reader>, channels: Vec<Channel>) {
    let node = &client.node;
    let _order = node.context.subscribing();
    let unread = node.context.pushes.remove(reader, &channels);
    for family in Family::ALL {
        if let Some(call) = call(family.unsubscribe(), &unread, family) {
            // Nobody waits for it, and without a connection there is nothing to end.
            node.send_unsubscribing(call);
        }
    }
}

/// A connection is there instead of one that was lost: subscribes on it to all that is read.
pub(crate) fn again(link: &Arc<Link>) {
    let _order = link.context.subscribing();
    let pushes = &link.context.pushes;
    let channels = pushes.all();
    if channels.is_empty() {
        return;
    }
    pushes.reconnected();
    for family in Family::ALL {
        if let Some(call) = call(family.subscribe(), &channels, family)
            && let Ok(token) = link.submit(call)
        {
            link.forget(token);
        }
    }
}
