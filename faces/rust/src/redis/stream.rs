//! Any number of commands: as many in flight as a window takes, and their replies in order.

mod spread;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use onetrip_engine::{Time, Token};
use onetrip_redis::client::cache::Writes;
use onetrip_redis::{Command, Spec};

use super::FromReply;
use super::call::{Body, Call};
use super::client::{Client, check, misplaced, name_of};
use super::commands_from::CommandSource;
use super::decode::decode;
use super::error::too_large;
use super::frames::Frames;
use super::node::{Lease, Waiting};
use super::pipeline::checked;
use super::sent::Pending;
use crate::{Error, Outcome};

/// How many commands share a slot of the engine, and how many bytes.
const SHARE_MAX: usize = 64;
const SHARE_BYTES_MAX: usize = 16 << 10;

/// Sends commands from an iterator or a stream as the window takes them; a stream of their replies,
/// in order.
///
/// It has a connection of its own, so no other caller waits behind it. If its reader is slow, the
/// server stops sending, and memory does not grow. Commands are taken from the iterator when there
/// is room for them and the stream is polled.
///
/// Each reply is an item. A command that fails is an `Err`, and the stream goes on. If the
/// connection is lost, each command that was submitted is an `Err` (`NotSent` if no byte of it was
/// sent, else `Unknown`), and then the stream ends: nothing more is taken from the iterator. In a
/// cluster the commands go to the nodes on their shared connections; if one of these is lost,
/// commands to other nodes go on.
///
/// A deadline ([`timeout`](Client::timeout), `request_timeout`) applies to the wait for the
/// connection. If it passes, the stream is a single `Err` of the kind `Timeout`, and nothing was
/// taken or sent. After that, the time of a command is not limited: its reply comes when earlier
/// ones are taken, so a reader that pauses would make it fail. Put a limit of your own around
/// [`next`](Self::next), which is cancel safe. In a cluster the deadline applies to each command,
/// from when it is taken from the iterator to its reply, which arrives there whether or not its
/// reader takes it.
///
/// Dropping the stream takes back commands that were not sent, and closes the connection unless all
/// replies were taken.
#[must_use = "a stream does nothing unless it is polled"]
pub struct CommandStream<T, I> {
    client: Client,
    commands: I,
    window: usize,
    window_bytes: usize,
    stage: Stage,
    share: Share,
    /// In flight, oldest first.
    shares: VecDeque<Sent>,
    in_flight: usize,
    in_flight_bytes: usize,
    /// Whether no more commands come.
    is_over: bool,
    /// The error of a command that can't be sent, behind those that were.
    fault: Option<Error>,
    frames: Frames,
    sent: u64,
    answered: u64,
    result: PhantomData<fn() -> T>,
}

enum Stage {
    New,
    Borrowing(Waiting),
    Open(Lease),
    /// In a cluster: commands that are routed one by one, oldest first. Each has its length, and
    /// whether its error may leave effects behind.
    Spread(VecDeque<(Pending, usize, bool)>),
    Over,
}

/// Commands that are collected to share a slot.
#[derive(Default)]
struct Share {
    bytes: BytesMut,
    leaves: Vec<bool>,
    /// What they may change, if replies are cached.
    writes: Writes,
}

/// Commands that share a slot and were sent.
struct Sent {
    token: Token,
    len: usize,
    /// For each command, whether its error may leave effects behind.
    leaves: VecDeque<bool>,
    /// The result, once it has ended.
    ended: Option<Result<(), Error>>,
}

/// The progress of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Commands that were taken from the iterator and sent.
    pub sent: u64,
    /// Commands whose replies were taken.
    pub answered: u64,
}

impl<T, I> CommandStream<T, I> {
    pub(crate) fn new(client: Client, commands: I) -> CommandStream<T, I> {
        let reply_max = client.inner.config.limits.reply_bytes_max;
        CommandStream {
            client,
            commands,
            window: 10_000,
            window_bytes: 4 << 20,
            stage: Stage::New,
            share: Share::default(),
            shares: VecDeque::new(),
            in_flight: 0,
            in_flight_bytes: 0,
            is_over: false,
            fault: None,
            frames: Frames::up_to(reply_max),
            sent: 0,
            answered: 0,
            result: PhantomData,
        }
    }

    /// How many commands may be unanswered. Default 10,000, as Redis' documentation on pipelining
    /// advises: with a round trip of 10 ms that allows a million commands a second.
    pub fn window(mut self, commands: usize) -> Self {
        self.window = commands.max(1);
        self
    }

    /// How many bytes of commands may be unanswered. Default 4 MiB; a single command may be longer.
    pub fn window_bytes(mut self, bytes: usize) -> Self {
        self.window_bytes = bytes.max(1);
        self
    }

    /// The progress of the stream.
    pub fn progress(&self) -> Progress {
        Progress { sent: self.sent, answered: self.answered }
    }

    /// Whether another share fits into the window.
    fn has_room(&self) -> bool {
        let share = SHARE_MAX.min(self.window);
        self.in_flight == 0
            || (self.in_flight + share <= self.window && self.in_flight_bytes < self.window_bytes)
    }
}

impl<T, I: CommandSource> CommandStream<T, I> {
    /// Sends as many commands as the window takes.
    fn fill(&mut self, cx: &mut Context<'_>) {
        let mut pending = false;
        while !self.is_over && !pending && self.has_room() {
            let share_max = SHARE_MAX.min(self.window);
            while self.share.leaves.len() < share_max && self.share.bytes.len() < SHARE_BYTES_MAX {
                let command = match self.commands.poll_command(cx) {
                    Poll::Ready(Some(command)) => command,
                    Poll::Ready(None) => {
                        self.is_over = true;
                        break;
                    }
                    Poll::Pending => {
                        pending = true;
                        break;
                    }
                };
                let spec = Spec::of(&command);
                if let Err(error) = self.fits(&command, spec) {
                    (self.is_over, self.fault) = (true, Some(error));
                    break;
                }
                if let (None, Stage::Open(lease)) = (spec, &mut self.stage) {
                    // It is not known what the command does to its connection.
                    lease.is_spoiled = true;
                }
                if self.client.inner.node.context.cached.is_some() {
                    self.share.writes.add(&command);
                }
                command.encode(&mut self.share.bytes);
                self.share.leaves.push(spec.is_none_or(Spec::may_leave_effects));
            }
            self.send_share();
        }
    }

    fn fits(&self, command: &Command, spec: Option<&'static Spec>) -> Result<(), Error> {
        check(command, &self.client.inner.config)?;
        match spec.map(|spec| spec.place(command)) {
            Some(onetrip_redis::Place::Session(advice) | onetrip_redis::Place::Refused(advice)) => {
                Err(misplaced(&name_of(spec, command), advice))
            }
            // In a cluster it would block the shared connection of its node.
            Some(onetrip_redis::Place::Own) if self.client.inner.cluster.is_some() => {
                let advice = "in a cluster a stream may not block; send it with the client";
                Err(misplaced(&name_of(spec, command), advice))
            }
            _ => Ok(()),
        }
    }

    fn send_share(&mut self) {
        let (Stage::Open(lease), false) = (&self.stage, self.share.leaves.is_empty()) else {
            return;
        };
        let leaves: VecDeque<bool> = self.share.leaves.drain(..).collect();
        let bytes = self.share.bytes.split().freeze();
        let (count, len) = (leaves.len(), bytes.len());
        let writes = std::mem::take(&mut self.share.writes);
        let body = Body::Encoded(bytes, count as u32, writes);
        let (token, ended) =
            match lease.link.submit(Call { metered: true, ..Call::of(body, Time::NEVER) }) {
                Ok(token) => (token, None),
                Err((_, error)) => {
                    self.is_over = true;
                    (Token::DISCARD, Some(Err(error)))
                }
            };
        self.sent += count as u64;
        self.in_flight += count;
        self.in_flight_bytes += len;
        self.shares.push_back(Sent { token, len, leaves, ended });
    }

    /// The next reply; `None` when all are answered.
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            let Some(share) = self.shares.front_mut() else {
                return self.poll_over();
            };
            let Some(&leaves) = share.leaves.front() else {
                // All its replies were taken; its end has come with the last one, or comes at once.
                if share.ended.is_none() {
                    std::task::ready!(self.poll_front(cx));
                    continue;
                }
                self.in_flight_bytes -= share.len;
                self.shares.pop_front();
                continue;
            };
            if let Some(frame) = self.frames.next() {
                share.leaves.pop_front();
                return Poll::Ready(Some(self.answered(frame, leaves)));
            }
            match &share.ended {
                Some(Err(error)) => {
                    let error = error.clone();
                    share.leaves.pop_front();
                    self.is_over = true;
                    self.in_flight -= 1;
                    self.answered += 1;
                    return Poll::Ready(Some(Err(error)));
                }
                Some(Ok(())) => {
                    let message = "the server answered fewer commands than there were";
                    let error = Error::new(
                        crate::Kind::Protocol,
                        Outcome::Unknown,
                        "malformed_reply",
                        message,
                    );
                    share.ended = Some(Err(error));
                }
                None => std::task::ready!(self.poll_front(cx)),
            }
        }
    }

    /// Everything that was sent is answered: the stream is over, unless more commands may come.
    fn poll_over(&mut self) -> Poll<Option<Result<Bytes, Error>>> {
        match self.is_over {
            true => Poll::Ready(self.fault.take().map(Err)),
            false => Poll::Pending,
        }
    }

    fn answered(&mut self, frame: Bytes, leaves: bool) -> Result<Bytes, Error> {
        self.in_flight -= 1;
        self.answered += 1;
        match frame.is_empty() {
            true => Err(too_large()),
            false => checked(frame, leaves, false),
        }
    }

    /// Takes the part of the oldest share's replies that has come.
    fn poll_front(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (Some(share), Stage::Open(lease)) = (self.shares.front_mut(), &self.stage) else {
            return Poll::Ready(());
        };
        let (bytes, ended) = std::task::ready!(lease.link.poll_part(share.token, cx));
        share.ended = ended;
        if !bytes.is_empty() {
            self.frames.add(bytes);
        }
        Poll::Ready(())
    }
}

impl<T: FromReply, I: CommandSource + Unpin> CommandStream<T, I> {
    /// The next reply; `None` when all are answered. Cancel safe: dropping the future loses no
    /// reply.
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl<T: FromReply, I: CommandSource + Unpin> Stream for CommandStream<T, I> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let in_cluster = self.client.inner.cluster.is_some();
        loop {
            match &mut self.stage {
                Stage::New if in_cluster => {
                    self.stage = Stage::Spread(VecDeque::new());
                }
                Stage::New => {
                    self.stage = Stage::Borrowing(
                        self.client.inner.node.wait_for_own(self.client.deadline()),
                    );
                }
                Stage::Borrowing(waiting) => match std::task::ready!(waiting.poll(cx)) {
                    Ok(lease) => self.stage = Stage::Open(lease),
                    Err(error) => {
                        self.stage = Stage::Over;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
                Stage::Open(_) | Stage::Spread(_) => break,
                Stage::Over => return Poll::Ready(None),
            }
        }
        let reply = std::task::ready!(match &self.stage {
            Stage::Spread(_) => self.poll_cluster(cx),
            _ => {
                self.fill(cx);
                self.poll_reply(cx)
            }
        });
        if reply.is_none() {
            // The connection goes back to the pool.
            self.stage = Stage::Over;
        }
        Poll::Ready(
            reply.map(|reply| reply.and_then(|block| decode(&block, "a command of a stream"))),
        )
    }
}

impl<T, I> Drop for CommandStream<T, I> {
    fn drop(&mut self) {
        if let Stage::Open(lease) = &mut self.stage
            && !self.shares.is_empty()
        {
            lease.has_blocked();
            // Bytes that came and were not taken still count against the connection's meter.
            lease.is_spoiled = true;
        }
    }
}

impl<T, I> std::fmt::Debug for CommandStream<T, I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandStream").field("progress", &self.progress()).finish_non_exhaustive()
    }
}
