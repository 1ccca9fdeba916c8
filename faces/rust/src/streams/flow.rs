//! The connection of a stream or COPY, which has it to itself: replies that are taken as they come,
//! and requests that are written as there is room.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use onetrip_engine::{Feed, Request, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::copy;
use onetrip_postgres::client::stream::{self, Rest};
use onetrip_postgres::sql::Place;

use super::lease::Lease;
use crate::Error;
use crate::core::{Connection, Core};
use crate::executor::Executor;
use crate::lead::Part;
use crate::replies::{self, Finished, Kept};

/// A request of a stream or COPY.
pub(super) struct Outbound<'a> {
    pub(super) expect: Expect,
    pub(super) bytes: &'a [u8],
    pub(super) feed: Feed,
    /// Whether its reply is taken as it comes.
    pub(super) metered: bool,
}

impl Core {
    /// Adds a part of a reply.
    pub(crate) fn came(&mut self, now: Time, token: Token, part: replies::Part) {
        let Kept { dropped, waker } = self.replies.data(token, part);
        self.wakers.extend(waker);
        if dropped > 0 {
            self.unkept(now, token, dropped);
        }
    }

    /// Counts bytes of a reply that nobody will take. If they are too many, the connection is
    /// closed.
    pub(crate) fn unkept(&mut self, now: Time, token: Token, bytes: usize) {
        if !self.replies.is_flow(token) {
            return self.consumed(now, token, bytes);
        }
        self.taken(bytes);
        if self.rest.came(bytes) {
            let error = self.lost("a stream was dropped long before its end");
            self.close(error);
        }
    }

    /// A reader took bytes, so the driver may read on.
    fn taken(&mut self, bytes: usize) {
        let stopped = !self.engine.wants_bytes();
        self.engine.handle_taken(bytes);
        if stopped && self.engine.wants_bytes() {
            self.notify();
        }
    }

    /// Wakes the writer of a request that can take more now.
    pub(crate) fn wake_feeder(&mut self) {
        if let Some(token) = self.feeder
            && self.engine.can_feed(token)
        {
            self.feeder = None;
            let waker = self.replies.take_waker(token);
            self.wakers.extend(waker);
        }
    }

    /// The reader of a reply is gone. The rest of the reply is read and dropped, unless it is long.
    fn drop_flow(&mut self, now: Time, token: Token, rest: Rest) {
        let bytes = self.replies.clear_flow(token);
        self.taken(bytes);
        self.rest = rest;
        if !self.replies.is_ended(token) {
            let status = self.status();
            rest.begin(&mut self.engine, now, token, status);
        }
        self.drop_reply(now, token);
    }
}

impl Connection {
    /// Submits a request for a stream or a COPY. It has no deadline: the reader decides how long it
    /// takes.
    pub(super) fn submit_flow(
        self: &Arc<Self>,
        executor: &Executor,
        outbound: &Outbound<'_>,
    ) -> Result<(Token, Open), Error> {
        let in_transaction = executor.place == Place::Session { in_transaction: true };
        let refuse = self.context.options.refuse_when_full;
        self.with(|core, now| {
            core.check_not_behind_itself()?;
            let replies = &mut core.replies;
            let token = if outbound.metered { replies.add_flow() } else { replies.add() };
            let Outbound { expect, feed, metered, .. } = *outbound;
            // A request that is fed can be taken back while it waits: without its feeder it would
            // wait for ever.
            let pinned = in_transaction && feed == Feed::Whole;
            let request = Request { pinned, ..stream::request(token, expect, feed, metered) };
            let submitted = match &executor.lead {
                None => core.submit_one(now, request, outbound.bytes, refuse),
                Some(lead) => {
                    lead.submit(core, now, request, outbound.bytes, Part::Statement, refuse)
                }
            };
            submitted.inspect_err(|_| core.replies.remove(token))?;
            core.pipelines.stream_opened();
            Ok((token, Open(self.clone())))
        })
    }

    /// Waits for the next block of a reply that is taken as it comes; `None` at its end, with the
    /// result.
    pub(super) fn poll_block(
        &self,
        token: Token,
        cx: &Context<'_>,
    ) -> Poll<Result<Bytes, Result<Finished, Error>>> {
        let mut core = self.lock();
        if let Some(block) = core.replies.next_block(token) {
            core.taken(block.len());
            return Poll::Ready(Ok(block));
        }
        if core.replies.poll_ended(token, cx) {
            return Poll::Ready(Err(core.replies.take(token).result));
        }
        if core.nothing_to_write() {
            return Poll::Pending;
        }
        drop(core);
        self.with(|core, now| core.write_on_await(now));
        Poll::Pending
    }

    pub(super) fn drop_flow(&self, token: Token, rest: Rest) {
        self.with(|core, now| core.drop_flow(now, token, rest));
    }

    /// Waits until a request takes more. The task is woken through the reply, which must have been
    /// polled before.
    pub(super) fn poll_feedable(&self, token: Token) -> Poll<()> {
        let mut core = self.lock();
        if core.engine.can_feed(token) {
            return Poll::Ready(());
        }
        core.feeder = Some(token);
        Poll::Pending
    }

    /// Writes more of a request; does nothing if the request has ended meanwhile.
    pub(super) fn feed(&self, token: Token, write: impl FnOnce(&mut BytesMut)) {
        self.with(|core, now| {
            core.feed(now, token, write);
            core.write_on_await(now);
        });
    }

    /// The same for the last part.
    pub(super) fn feed_last(&self, token: Token, write: impl FnOnce(&mut BytesMut)) {
        self.with(|core, now| {
            core.feed(now, token, write);
            core.engine.end_feed(now, token);
            core.write_on_await(now);
        });
    }

    /// Gives up a COPY whose data did not end. Returns false if nothing of it was sent, so that it
    /// simply does not run.
    pub(super) fn fail_copy(&self, token: Token, reason: &str) -> bool {
        self.with(|core, now| {
            let sent = core.engine.is_fed(token) || core.replies.is_ended(token);
            if !sent {
                core.drop_reply(now, token);
            }
            copy::fail(&mut core.engine, now, token, None, reason);
            core.write_on_await(now);
            sent
        })
    }

    /// Gives up a request that ends within a message. If a part of it was sent, the connection is
    /// closed.
    pub(super) fn break_off(&self, token: Token) {
        self.with(|core, now| {
            if core.engine.is_fed(token) {
                let error = core.lost("a large value was not sent to its end");
                core.close(error);
            } else {
                core.drop_reply(now, token);
            }
        });
    }

    /// Ends the copy data.
    pub(super) fn finish_copy(&self, token: Token) {
        self.with(|core, now| {
            copy::finish(&mut core.engine, now, token);
            core.write_on_await(now);
        });
    }
}

impl Core {
    fn feed(&mut self, now: Time, token: Token, write: impl FnOnce(&mut BytesMut)) {
        let _ = self.engine.feed(now, token, |out| {
            write(out);
            Ok::<(), std::convert::Infallible>(())
        });
    }
}

/// A stream or COPY that waits for its owner. While there is one, what the owner sends behind it is
/// refused.
pub(super) struct Open(Arc<Connection>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.with_local(|core| core.pipelines.stream_closed());
    }
}

/// A reply that is taken as it comes, as a sequence of bytes: messages one after the other.
pub(super) struct Inflow {
    connection: Arc<Connection>,
    token: Option<Token>,
    open: Option<Open>,
    /// Bytes that were taken and not used yet.
    pub(super) chunk: Bytes,
    /// What happens to the rest that is not taken.
    rest: Rest,
}

impl std::fmt::Debug for Inflow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflow").field("token", &self.token).finish_non_exhaustive()
    }
}

impl Inflow {
    pub(super) fn new(lease: &Lease<'_>, (token, open): (Token, Open)) -> Inflow {
        let connection = lease.connection.clone();
        let rest = match lease.executor.place {
            _ if lease.is_replaceable() => Rest::CLOSE,
            Place::Session { in_transaction: true } => Rest::Read,
            _ => Rest::Cancel,
        };
        Inflow { connection, token: Some(token), open: Some(open), chunk: Bytes::new(), rest }
    }

    /// The reply breaks the protocol, so the connection is closed.
    pub(super) fn broken(&self, how: &'static str) -> Error {
        self.of_broken(Error::malformed(how))
    }

    /// The same with an error that was made already.
    pub(super) fn of_broken(&self, error: Error) -> Error {
        self.connection.broken(error, false)
    }

    /// Whether the reply has ended, and all of it was taken.
    pub(super) fn is_over(&self) -> bool {
        self.token.is_none() && self.chunk.is_empty()
    }

    /// Waits for more bytes, which replace the chunk. False at the end.
    pub(super) fn poll_chunk(&mut self, cx: &Context<'_>) -> Poll<Result<bool, Error>> {
        let Some(token) = self.token else { return Poll::Ready(Ok(false)) };
        match std::task::ready!(self.connection.poll_block(token, cx)) {
            Ok(block) => {
                self.chunk = block;
                Poll::Ready(Ok(true))
            }
            Err(result) => {
                (self.token, self.open) = (None, None);
                Poll::Ready(result.map(|_| false))
            }
        }
    }
}

impl Drop for Inflow {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            self.connection.drop_flow(token, self.rest);
        }
    }
}
