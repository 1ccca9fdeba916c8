//! Handles the engine's outputs: how requests ended, and the connection.

use bytes::Bytes;
use onetrip_engine::{Cause, CloseReason, End, Failure, Outcome, Output, Time, Token};
use onetrip_postgres::client::said;
use onetrip_redis::Event;
use onetrip_redis::client::router::{FlightId, unsubscribed};
use onetrip_redis::client::sentinel::lost_its_role;

use super::{Core, Landed, closed};
use crate::error::{CLOSED, CONNECTION_LOST};
use crate::redis::error;
use crate::redis::error::too_large;
use crate::redis::frames::Frames;
use crate::redis::replies::Taken;
use crate::redis::script::has_error;
use crate::{Error, Kind};

impl Core {
    /// Handles the outputs of the engine.
    pub(crate) fn settle(&mut self, now: Time) {
        while let Some(output) = self.engine.poll_output() {
            self.take(now, output);
        }
        if self.engine.poll_deadline().is_some_and(|deadline| deadline < self.armed) {
            self.transport.notify();
        }
    }

    fn take(&mut self, now: Time, output: Output<Event>) {
        match output {
            Output::Data { token, block } | Output::Piece { token, block, .. } => {
                let bytes = block.len();
                self.reply_begins(token);
                self.replies.came(token, block);
                match self.replies.has_part(token) {
                    // A reader that takes the reply as it comes is woken.
                    true if self.engine.untaken_bytes() > 0 => {
                        let waker = self.replies.waker_of(token);
                        self.wakers.extend(waker);
                    }
                    true => {}
                    false => self.engine.handle_taken(bytes),
                }
            }
            Output::Ended { token, block, end, .. } => self.end(token, block, end),
            Output::Event { event: Event::Push, block } => {
                if self.context.cached.as_ref().is_some_and(|cached| cached.pushed(&block)) {
                    return;
                }
                let wakers = self.context.pushes.take(&block);
                self.wakers.extend(wakers);
                self.landed.unsubscribed.extend(self.unsubscribed(&block));
            }
            Output::Event { event: Event::ScriptLoaded, .. } => {}
            Output::Room { token } => {
                if let Some(call) = self.replies.take_awaiting(token) {
                    self.submit_reserved(now, token, &call);
                    self.transport.notify();
                }
                self.engine.end_turn(now);
            }
            Output::Full => self.full = true,
            Output::Drained => {
                self.full = false;
                self.wakers.append(&mut self.drained);
            }
            Output::Closed(reason) => {
                // Whoever closed it, only the driver lets go of the socket.
                self.transport.notify();
                self.full = false;
                self.wakers.append(&mut self.drained);
                if let (Some(cached), Some(number)) = (&self.context.cached, self.tracked) {
                    cached.closed(number);
                }
                self.note_end(reason);
            }
            // No groups are opened on these connections, and nothing is cancelled at the server.
            Output::Granted { .. }
            | Output::Restarted { .. }
            | Output::Cancel
            | Output::NotCancelled { .. }
            | Output::Astray
            | Output::Leaving => {}
        }
    }

    /// The sharded channel that the node of a cluster unsubscribed, if this push says so.
    fn unsubscribed(&self, push: &[u8]) -> Option<Bytes> {
        let channel = self.context.in_cluster.then(|| unsubscribed(push)).flatten();
        channel.map(Bytes::copy_from_slice)
    }

    fn end(&mut self, token: Token, mut block: Bytes, end: End) {
        self.count(&end);
        // A node may end another channel while it confirms that one is unsubscribed.
        self.landed.unsubscribed.extend(self.unsubscribed(&block));
        if !matches!(end, End::Failed(_)) {
            self.replies.came(token, std::mem::take(&mut block));
        }
        self.doubt_scripts(token, &end);
        self.tell_cache(token, !matches!(end, End::Failed(_)));
        if let Some(flight) = self.replies.entry(token).and_then(|entry| entry.flight) {
            return self.land(flight, token, block, end);
        }
        let result = match end {
            End::Complete | End::Provisional => Ok(()),
            End::Failed(failure) => {
                let by_server = failure.cause == Cause::Server;
                let error = self.error_of(failure, &block);
                if by_server {
                    self.note_demotion(&error);
                }
                Err(error)
            }
        };
        let waker = self.replies.end(token, result);
        self.wakers.extend(waker);
    }

    /// A part of a reply has come, and its reader may take it: what the commands have changed is
    /// not true any more.
    fn reply_begins(&mut self, token: Token) {
        if let Some(cached) = &self.context.cached
            && let Some(entry) = self.replies.entry(token)
        {
            cached.wrote(&entry.writes);
        }
    }

    /// A request has ended: tells the cache what it has changed, or what came of its fetch.
    pub(super) fn tell_cache(&mut self, token: Token, is_answered: bool) {
        let (Some(cached), Some(entry)) = (&self.context.cached, self.replies.entry(token)) else {
            return;
        };
        cached.wrote(&entry.writes);
        let Some(fetch) = entry.fetch.take() else { return };
        let reply = if is_answered { self.replies.received(token) } else { Bytes::new() };
        self.wakers.extend(match reply.is_empty() {
            true => cached.failed(fetch),
            false => cached.answered(fetch, self.tracked, &reply),
        });
    }

    /// Whether others wait for this reply, although its caller is gone.
    pub(super) fn serves_others(&mut self, token: Token) -> bool {
        let (Some(cached), Some(entry)) = (&self.context.cached, self.replies.entry(token)) else {
            return false;
        };
        let serves = entry.fetch.is_some_and(|fetch| !cached.left(fetch));
        if !serves {
            entry.fetch = None;
        }
        serves
    }

    /// If the server is no master any more, this connection takes nothing new: it says goodbye when
    /// all is answered, and the pool opens another one.
    fn note_demotion(&mut self, error: &Error) {
        if self.is_seated && error.redis_code().is_some_and(lost_its_role) {
            self.demoted.get_or_insert_with(|| error.clone());
            self.released = true;
            self.transport.notify();
        }
    }

    fn count(&mut self, end: &End) {
        let counts = &mut self.transport.counts;
        match end {
            End::Complete | End::Provisional => counts.completed += 1,
            End::Failed(failure) => counts.failed(failure.outcome),
        }
    }

    /// The reply to a call with scripts may say that the server has forgotten them, or never had
    /// them.
    fn doubt_scripts(&mut self, token: Token, end: &End) {
        let Some(entry) = self.replies.entry(token).filter(|entry| entry.has_scripts) else {
            return;
        };
        let lists = entry.lists_scripts;
        let doubtful = match end {
            End::Failed(_) => true,
            End::Complete | End::Provisional => lists && has_error(self.replies.received(token)),
        };
        if doubtful {
            self.scripts.doubt();
        }
    }

    /// A command of a cluster has ended: notes its result for the router.
    fn land(&mut self, flight: FlightId, token: Token, block: Bytes, end: End) {
        let asks = self.replies.entry(token).is_some_and(|entry| entry.asks);
        let landed = match end {
            End::Failed(Failure { cause: Cause::Server, .. }) => Landed::Reply(block),
            End::Failed(failure) => Landed::Failed(self.error_of(failure, &block)),
            End::Complete | End::Provisional => {
                self.replies.end(token, Ok(()));
                match self.replies.take(token) {
                    Some(Taken { too_large: true, .. }) => Landed::Failed(too_large()),
                    Some(taken) if asks => Landed::Reply(Frames::behind_first(taken.block)),
                    Some(taken) => Landed::Reply(taken.block),
                    None => return,
                }
            }
        };
        self.replies.remove(token);
        self.landed.flights.push((flight, landed));
    }

    fn error_of(&self, Failure { outcome, cause }: Failure, block: &[u8]) -> Error {
        match cause {
            Cause::Server | Cause::Unconfirmed | Cause::Aborted => {
                error::from_frame(block, outcome, self.context.in_cluster)
            }
            Cause::Deadline => error::deadline(outcome),
            Cause::Cancelled => {
                Error::new(Kind::Cancelled, outcome, "cancelled", "taken back before it was sent")
            }
            Cause::Closed => self
                .ended
                .clone()
                .or_else(|| self.refusal())
                .unwrap_or_else(|| self.lost("the connection ended"))
                .with_outcome(outcome),
        }
    }

    // --- the end ---

    /// The peer closed the connection or the socket failed.
    pub(crate) fn close(&mut self, error: Error) {
        self.ended.get_or_insert(error);
        self.engine.handle_closed();
    }

    fn note_end(&mut self, reason: CloseReason) {
        let error = match reason {
            CloseReason::Host => return,
            CloseReason::Server(block) => {
                error::from_frame(&block, Outcome::Unknown, self.context.in_cluster)
                    .about(format_args!("{} ended the connection", self.route))
                    .with_code(CONNECTION_LOST)
            }
            CloseReason::Violation(violation) => Error::new(
                Kind::Protocol,
                Outcome::Unknown,
                CONNECTION_LOST,
                format!(
                    "{} broke the protocol ({violation}), so the connection was closed",
                    self.route
                ),
            ),
            CloseReason::Unusable(why) => self.lost(why),
            CloseReason::Stalled => self.lost("the peer has taken no bytes for too long"),
            CloseReason::Silent => self.lost(said::SILENT),
            CloseReason::NoMemory => self.lost("there is no memory for the requests that wait"),
        };
        self.ended.get_or_insert(error);
    }

    pub(crate) fn lost(&self, why: &str) -> Error {
        let message = format!("the connection to {} was lost: {why}", self.route);
        Error::new(Kind::Transport, Outcome::Unknown, CONNECTION_LOST, message)
    }

    /// Why the connection takes no more requests; `None` while it does.
    pub(crate) fn refusal(&self) -> Option<Error> {
        if self.engine.is_open() {
            return None;
        }
        let ended = self.ended.clone().unwrap_or_else(closed);
        Some(ended.with_outcome(Outcome::NotSent))
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.ended.is_some()
    }

    /// Why the connection ended, unless it ended with a goodbye.
    pub(crate) fn why_lost(&self) -> Option<Error> {
        self.ended.clone().filter(|error| error.code() != CLOSED)
    }
}
