//! The value of a call: a future that resolves to its reply.

use std::borrow::Cow;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use onetrip_engine::{Outcome, Time, Token};
use onetrip_redis::client::repeat::Repeat;
use onetrip_redis::client::sentinel::Role;
use tokio::time::Sleep;

use super::FromReply;
use super::cached::Joined;
use super::call::Call;
use super::client::Inner;
use super::cluster::{self, Next, Roaming};
use super::decode::decode;
use super::error::{deadline, too_large};
use super::link::Link;
use super::node::{Lease, Sent};
use super::pipeline::checked;
use super::place::{Cell, Placed};
use super::replies::Taken;
use super::trace::Span;
use crate::{Error, Kind};

/// The reply to a command. The command was sent when this was made; await it for the value.
///
/// Dropping it disturbs nobody: a command that was sent runs, and its reply is read and dropped;
/// one that still waits in the queue is taken back and never sent. If the reply of a blocking
/// command is dropped, its connection is closed.
#[must_use = "a reply does nothing by itself: await it, or drop it where the result doesn't matter"]
pub struct Reply<T> {
    stage: Stage,
    name: Cow<'static, str>,
    /// How it is sent again after its connection was lost, if that is allowed.
    again: Option<Box<Again>>,
    /// In a cluster, how a command on a connection of its own finds its node.
    roaming: Option<Box<Roaming>>,
    span: Span,
    result: PhantomData<fn() -> T>,
}

enum Stage {
    /// Refused before anything was sent.
    Refused(Error),
    Here(Arc<Link>, Token),
    /// It waits for the shared connection.
    Later(Arc<Cell>),
    /// It waits for a connection of its own.
    Borrowing(Arc<Cell>),
    Lent(Lease, Token),
    /// It is in the cache.
    Cached(Bytes),
    /// Another caller has sent the same command.
    Joined(Arc<Joined>, Box<Unsent>),
    /// Sent somewhere in a cluster. The flag: whether an error may leave effects behind.
    Cluster(Arc<cluster::Cell>, bool),
    /// Its connection was lost, or no node took it, and it is sent again after this pause.
    Pausing(Pin<Box<Sleep>>),
    Taken,
}

impl Stage {
    fn sent(sent: Sent, leaves: bool) -> Stage {
        match sent {
            Sent::Refused(error) => Stage::Refused(error),
            Sent::Here(link, token) => Stage::Here(link, token),
            Sent::Later(cell) => Stage::Later(cell),
            Sent::Cluster(cell) => Stage::Cluster(cell, leaves),
        }
    }

    fn here(link: Arc<Link>, token: Option<Token>) -> Stage {
        token.map_or(Stage::Taken, |token| Stage::Here(link, token))
    }

    fn lent(link: Arc<Link>, token: Option<Token>) -> Stage {
        let lease = Lease::new(link);
        lease.has_blocked();
        token.map_or(Stage::Taken, |token| Stage::Lent(lease, token))
    }

    /// A connection came for it, or none will. Without a token nothing was to be sent.
    fn placed(
        placed: Result<Placed, Error>,
        on: impl FnOnce(Arc<Link>, Option<Token>) -> Stage,
    ) -> Stage {
        placed.map_or_else(Stage::Refused, |Placed { link, token }| on(link, token))
    }
}

/// A call that was not sent, since another caller has sent the same.
pub(crate) struct Unsent {
    client: Arc<Inner>,
    call: Call,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Unsent {
    pub(crate) fn new(client: &Arc<Inner>, call: Call) -> Box<Unsent> {
        Box::new(Unsent { client: client.clone(), call, deadline: None })
    }

    /// Where it is next: in the cache, as the other caller has its reply, or sent.
    fn poll(&mut self, joined: &Joined, cx: &mut Context<'_>) -> Poll<Stage> {
        match joined.poll(cx) {
            Poll::Ready(Some(block)) => Poll::Ready(Stage::Cached(block)),
            Poll::Ready(None) => {
                Poll::Ready(Stage::sent(self.client.send(self.call.clone()), false))
            }
            Poll::Pending if self.is_late(cx) => {
                Poll::Ready(Stage::Refused(deadline(Outcome::NotSent)))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Whether its deadline has passed; otherwise registers the task to be woken then.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        if self.call.deadline == Time::NEVER {
            return false;
        }
        let at = self.client.node.context.instant(self.call.deadline);
        let sleep =
            self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at.into())));
        sleep.as_mut().poll(cx).is_ready()
    }
}

/// A task that is answered from the cache again and again lets the driver have its turn, which reads
/// that what is kept is not true any more.
fn have_a_turn(cx: &mut Context<'_>) -> Poll<()> {
    std::pin::pin!(tokio::task::coop::consume_budget()).poll(cx)
}

/// What is needed to send a call again.
pub(crate) struct Again {
    client: Arc<Inner>,
    call: Call,
    role: Role,
    repeat: Repeat,
}

impl Again {
    pub(crate) fn new(
        client: &Arc<Inner>,
        call: &Call,
        role: Role,
        attempts_max: u32,
    ) -> Box<Again> {
        Again::with(client, call, role, |seed| Repeat::new(attempts_max, seed))
    }

    /// For a call that is sent again only if nothing of it was sent.
    pub(crate) fn unsent(client: &Arc<Inner>, call: &Call, role: Role) -> Box<Again> {
        Again::with(client, call, role, Repeat::unsent)
    }

    fn with(
        client: &Arc<Inner>,
        call: &Call,
        role: Role,
        repeat: impl FnOnce(u64) -> Repeat,
    ) -> Box<Again> {
        // Replies made one after the other have different addresses, which is random enough for the
        // pauses.
        let repeat = repeat(std::ptr::from_ref(call) as u64);
        Box::new(Again { client: client.clone(), call: call.clone(), role, repeat })
    }

    /// Its last error, with what is known by all attempts.
    fn last(&self, error: Error) -> Error {
        let known = self.repeat.outcome(error.outcome());
        if known == error.outcome() { error } else { error.with_outcome(known) }
    }
}

impl<T: FromReply> Reply<T> {
    pub(crate) fn new(
        sent: Sent,
        name: Cow<'static, str>,
        leaves: bool,
        again: Option<Box<Again>>,
    ) -> Reply<T> {
        Reply::at(Stage::sent(sent, leaves), name, again)
    }

    pub(crate) fn cached(block: Bytes, name: Cow<'static, str>) -> Reply<T> {
        Reply::at(Stage::Cached(block), name, None)
    }

    pub(crate) fn joined(
        joined: Arc<Joined>,
        unsent: Box<Unsent>,
        name: Cow<'static, str>,
        again: Option<Box<Again>>,
    ) -> Reply<T> {
        Reply::at(Stage::Joined(joined, unsent), name, again)
    }

    fn at(stage: Stage, name: Cow<'static, str>, again: Option<Box<Again>>) -> Reply<T> {
        let span = Span::of(&name);
        Reply { stage, name, again, roaming: None, span, result: PhantomData }
    }

    pub(crate) fn borrowing(
        cell: Arc<Cell>,
        name: Cow<'static, str>,
        roaming: Option<Box<Roaming>>,
    ) -> Reply<T> {
        let span = Span::of(&name);
        let stage = Stage::Borrowing(cell);
        Reply { stage, name, again: None, roaming, span, result: PhantomData }
    }

    pub(crate) fn refused(error: Error, name: Cow<'static, str>) -> Reply<T> {
        Reply::at(Stage::Refused(error), name, None)
    }

    fn poll_block(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Error>> {
        loop {
            let taken = match &mut self.stage {
                Stage::Here(link, token) => {
                    let taken = std::task::ready!(link.poll_reply(*token, cx));
                    self.span.on(link);
                    self.stage = Stage::Taken;
                    taken
                }
                Stage::Lent(lease, token) => {
                    let taken = std::task::ready!(lease.link.poll_reply(*token, cx));
                    self.span.on(&lease.link);
                    self.stage = Stage::Taken;
                    if let Some(roaming) = &mut self.roaming {
                        let block = block_of(taken)?;
                        match roaming.next(block) {
                            Ok(next) => self.stage = stage_of(next, roaming),
                            Err(end) => return Poll::Ready(end),
                        }
                        continue;
                    }
                    taken
                }
                Stage::Refused(error) => {
                    let error = error.clone();
                    self.stage = Stage::Taken;
                    return Poll::Ready(Err(error));
                }
                Stage::Later(cell) => {
                    let placed = std::task::ready!(cell.poll(cx));
                    self.stage = Stage::placed(placed, Stage::here);
                    continue;
                }
                Stage::Borrowing(cell) => {
                    let placed = std::task::ready!(cell.poll(cx));
                    self.stage = Stage::placed(placed, Stage::lent);
                    continue;
                }
                Stage::Cached(block) => {
                    std::task::ready!(have_a_turn(cx));
                    let block = std::mem::take(block);
                    self.stage = Stage::Taken;
                    return Poll::Ready(Ok(block));
                }
                Stage::Joined(joined, unsent) => {
                    self.stage = std::task::ready!(unsent.poll(joined, cx));
                    continue;
                }
                Stage::Cluster(cell, leaves) => {
                    let block = std::task::ready!(cell.poll(cx));
                    let leaves = *leaves;
                    self.stage = Stage::Taken;
                    return Poll::Ready(block.and_then(|block| checked(block, leaves, true)));
                }
                Stage::Pausing(sleep) => {
                    std::task::ready!(sleep.as_mut().poll(cx));
                    self.resend();
                    continue;
                }
                Stage::Taken => panic!("a reply was polled after it had resolved"),
            };
            match block_of(taken) {
                Ok(block) => return Poll::Ready(Ok(block)),
                Err(error) => match self.pause(&error) {
                    Some(pausing) => self.stage = pausing,
                    None => return Poll::Ready(Err(error)),
                },
            }
        }
    }

    /// The pause before it is sent again, if it may be.
    fn pause(&mut self, error: &Error) -> Option<Stage> {
        let again = self.again.as_mut().filter(|_| error.is_connection_lost())?;
        let pause = again.repeat.lost(error.outcome())?;
        // It fails at its deadline, not after a pause that ends later.
        let left = again.call.deadline.since(again.client.node.context.now());
        let pause = pause.min(left);
        Some(Stage::Pausing(Box::pin(tokio::time::sleep(pause))))
    }

    fn resend(&mut self) {
        if let Some(roaming) = &mut self.roaming {
            let next = roaming.resend();
            self.stage = stage_of(next, roaming);
            return;
        }
        let Some(again) = &self.again else { return };
        let sent = again.client.send_to(again.role, again.call.clone());
        self.stage = Stage::sent(sent, true);
    }
}

fn stage_of(next: Next, roaming: &Roaming) -> Stage {
    match next {
        Next::Sent(cell) => Stage::Borrowing(cell),
        Next::Pause(pause) => {
            Stage::Pausing(Box::pin(tokio::time::sleep(roaming.until_deadline(pause))))
        }
        Next::Failed(error) => Stage::Refused(error),
    }
}

/// The block of a reply, or its error.
fn block_of(taken: Taken) -> Result<Bytes, Error> {
    taken.result?;
    match taken.too_large {
        true => Err(too_large()),
        false => Ok(taken.block),
    }
}

impl<T: FromReply> Future for Reply<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, Error>> {
        let block = std::task::ready!(self.poll_block(cx));
        let block = block.map_err(|error| match &self.again {
            Some(again) => again.last(error),
            None => error,
        });
        let result = match block {
            Ok(block) => decode(&block, &self.name),
            Err(error) if error.kind() == Kind::Server => Err(error.about(&self.name)),
            Err(error) => Err(error),
        };
        if let Err(error) = &result {
            self.span.failed(error);
        }
        Poll::Ready(result)
    }
}

impl<T> Unpin for Reply<T> {}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Taken) {
            Stage::Here(link, token) => link.abandon(token),
            Stage::Later(cell) => {
                if let Some(placed) = cell.give_up()
                    && let Some(token) = placed.token
                {
                    placed.link.abandon(token);
                }
            }
            Stage::Borrowing(cell) => {
                if let Some(placed) = cell.give_up() {
                    let lease = Lease::new(placed.link);
                    lease.has_blocked();
                    give_back(&lease, placed.token);
                }
            }
            Stage::Lent(lease, token) => give_back(&lease, Some(token)),
            _ => {}
        }
    }
}

/// Nobody takes this reply. Dropping the lease gives the connection back, or closes it if it is
/// still blocked.
fn give_back(lease: &Lease, token: Option<Token>) {
    if let Some(token) = token {
        lease.link.abandon(token);
    }
}

impl<T> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reply({})", self.name)
    }
}
