//! The state machine of one connection.

mod deadlines;
mod inbound;
mod outbound;
mod queue;
mod wire;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::{
    Cause, CloseReason, End, Failure, Group, Limits, Outcome, Output, Protocol, Request,
    SubmitError, SyncPoint, Ticket, Time, Token,
};
use queue::{Entry, Queue, Waiting};
use wire::{Slot, Wire};

/// One connection: its requests in order, its window, its queue.
///
/// The methods are of four kinds:
///
/// * *getters*;
/// * *what happened*, named `handle_…`: bytes, time, an end, what was written or consumed;
/// * *commands*: [`submit`](Self::submit), [`wait`](Self::wait), [`cancel`](Self::cancel),
///   [`open_group`](Self::open_group), [`close_group`](Self::close_group),
///   [`flush`](Self::flush), [`terminate`](Self::terminate);
/// * *drains*: [`transmit`](Self::transmit) shows the bytes to write, and
///   [`poll_output`](Self::poll_output) what became of whom.
///
/// After each call that changes something the host drains both and asks
/// [`poll_deadline`](Self::poll_deadline) anew. Time must not go backwards.
#[derive(Debug)]
pub struct Connection<P: Protocol> {
    protocol: P,
    limits: Limits,
    wire: Wire<P::Expect>,
    /// Requests that wait for the window, in issue order.
    queue: Queue<P::Expect>,
    /// Requests of the group that holds the floor, when they wait for the window.
    group_queue: Queue<P::Expect>,
    /// Requests to be sent again, with their bytes; they go before everything in the queue.
    healing: VecDeque<(Slot<P::Expect>, Bytes)>,
    /// Callers that wait for room in the queue.
    waiting: Waiting,
    /// Room announced to callers that have not submitted yet.
    rooms_reserved: usize,
    /// The group between whose requests nothing else may be sent.
    floor: Option<Group>,
    next_group: u64,
    /// Bytes of replies to the floor's group that its reader has not taken.
    undelivered: usize,
    /// Whether the window takes more; once full it opens again at half.
    refilling: bool,
    /// `Full` was announced and `Drained` not yet.
    full: bool,
    head_failure: Option<HeadFailure>,
    /// A request of the segment at the head failed: the server skips the rest of the segment.
    /// Holds what is known of the effect of the segment as a whole.
    skipping: Option<Outcome>,
    outputs: VecDeque<Output<P::Event>>,
    /// No deadline of a request lies before this moment.
    earliest_deadline: Time,
    /// When bytes last moved in either direction, or began to wait.
    last_progress: Time,
    life: Life,
}

/// How the request at the head of the ring failed, until its sync point is answered.
#[derive(Debug)]
struct HeadFailure {
    failure: Failure,
    block: Bytes,
    never_started: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    /// Takes no new requests; says goodbye once the last was answered.
    Terminating,
    Closed,
}

impl<P: Protocol> Connection<P> {
    /// A connection whose peer is ready for requests.
    pub fn new(now: Time, protocol: P, limits: Limits) -> Connection<P> {
        Connection {
            protocol,
            limits,
            wire: Wire::new(),
            queue: Queue::new(),
            group_queue: Queue::new(),
            healing: VecDeque::new(),
            waiting: Waiting::new(),
            rooms_reserved: 0,
            floor: None,
            next_group: 0,
            undelivered: 0,
            refilling: true,
            full: false,
            head_failure: None,
            skipping: None,
            outputs: VecDeque::new(),
            earliest_deadline: Time::NEVER,
            last_progress: now,
            life: Life::Open,
        }
    }

    // --- getters ---

    /// The protocol's own state.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// The protocol's own state, to change it: to register a prepared statement, for instance.
    pub fn protocol_mut(&mut self) -> &mut P {
        &mut self.protocol
    }

    /// Requests on their way: sent, or handed to the host to send, and unanswered.
    pub fn in_flight(&self) -> usize {
        self.wire.ring.len()
    }

    /// Bytes of the requests on their way.
    pub fn in_flight_bytes(&self) -> usize {
        self.wire.in_flight_bytes
    }

    /// Bytes of replies to the open group that its reader has not taken.
    pub fn undelivered_bytes(&self) -> usize {
        self.undelivered
    }

    /// Requests in the queue, including those of the open group.
    pub fn queued(&self) -> usize {
        self.queue.live() + self.group_queue.live()
    }

    /// Bytes in the queue.
    pub fn queued_bytes(&self) -> usize {
        self.queue.bytes_len() + self.group_queue.bytes_len()
    }

    /// Callers that wait for room in the queue.
    pub fn waiting(&self) -> usize {
        self.waiting.live()
    }

    /// Whether nothing is on its way, queued or waiting.
    pub fn is_idle(&self) -> bool {
        self.in_flight() == 0
            && self.queued() == 0
            && self.waiting() == 0
            && self.healing.is_empty()
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.life == Life::Closed
    }

    /// Whether so many requests of so many bytes may be submitted now, all of them, as
    /// [`reserved`](Request::reserved). Any number may when the queue is empty.
    pub fn has_room(&self, requests: usize, bytes: usize) -> bool {
        self.life == Life::Open
            && !self.someone_waits()
            && (self.queue.is_empty()
                || self.queue.live() + requests <= self.limits.queue_max
                    && self.queue.bytes_len() + bytes <= self.limits.queue_bytes_max)
    }

    /// Whether the open group's next request would be sent at once rather than queued.
    pub fn group_has_room(&self) -> bool {
        self.life == Life::Open && self.group_queue.is_empty() && self.window_open()
    }

    // --- commands ---

    /// Takes a request: writes its bytes with `encode` and gives it a slot, or neither.
    ///
    /// It is sent at once where the window is open, and queued otherwise. Members without a group
    /// must be followed by the rest of their segment before anything else is submitted.
    ///
    /// # Errors
    /// See [`SubmitError`]; nothing of the request is kept then.
    pub fn submit<E>(
        &mut self,
        now: Time,
        request: Request<P::Expect>,
        encode: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<Ticket, SubmitError<E>> {
        let continues = request.reserved || request.group.is_some();
        if !(self.life == Life::Open || self.life == Life::Terminating && continues) {
            return Err(SubmitError::Closed);
        }
        let direct = self.admit(&request)?;
        let deadline = request.deadline;
        let in_group = request.group.is_some();
        let mut slot = Slot::new(request);
        let ticket = if direct {
            self.send_now(now, slot, encode)?;
            Ticket::Sent
        } else {
            let queue = if in_group { &mut self.group_queue } else { &mut self.queue };
            slot.len = queue.encode(encode).map_err(SubmitError::Encode)?;
            let number = queue.push(Entry::Request(slot));
            self.announce_full();
            if in_group { Ticket::Sent } else { Ticket::Queued(number) }
        };
        self.earliest_deadline = self.earliest_deadline.min(deadline);
        Ok(ticket)
    }

    /// Keeps a caller's place in line for room in the queue, after `submit` answered
    /// [`SubmitError::QueueFull`]. [`Output::Room`] says when it is its turn; until then the host
    /// keeps the request. If `deadline` passes first, it ends as [`Outcome::NotSent`].
    pub fn wait(&mut self, token: Token, deadline: Time) -> Option<Ticket> {
        if self.life != Life::Open {
            return None;
        }
        self.earliest_deadline = self.earliest_deadline.min(deadline);
        Some(Ticket::Waiting(self.waiting.push(token, deadline)))
    }

    /// The caller whose turn [`Output::Room`] announced has submitted what it had, or no longer
    /// wants to. The host says so before it does anything else with the connection.
    pub fn end_turn(&mut self, now: Time) {
        self.rooms_reserved -= 1;
        self.fill(now);
    }

    /// Takes a request back if it has not been sent: it then ends as [`Outcome::NotSent`] and the
    /// answer is true. One on its way keeps its slot, and its reply is still announced.
    pub fn cancel(&mut self, now: Time, ticket: Ticket) -> bool {
        let token = match ticket {
            Ticket::Sent => None,
            Ticket::Queued(number) => {
                self.queue.remove(number, self.wire.mid_segment && self.floor.is_none())
            }
            Ticket::Waiting(number) => self.waiting.remove(number),
        };
        let Some(token) = token else { return false };
        self.fail(token, Outcome::NotSent, Cause::Cancelled);
        self.fill(now);
        true
    }

    /// Asks for the floor: from [`Output::Granted`] on, requests of this group are sent and
    /// nothing else, until [`close_group`](Self::close_group). Its turn comes in issue order.
    ///
    /// If the connection ends first, the token ends as [`Outcome::NotSent`]. None is returned
    /// when the connection takes no new requests.
    pub fn open_group(&mut self, now: Time, token: Token) -> Option<Group> {
        if self.life != Life::Open {
            return None;
        }
        self.next_group += 1;
        let group = Group(self.next_group);
        self.queue.push(Entry::Group(token, group));
        self.fill(now);
        Some(group)
    }

    /// Gives the floor back, or the wish for it. A group that has sent members must have sent the
    /// request that ends their segment.
    pub fn close_group(&mut self, now: Time, group: Group) {
        if self.floor == Some(group) {
            if self.group_queue.is_empty() {
                self.free_floor();
            } else {
                self.group_queue.push(Entry::Group(Token::DISCARD, group));
            }
        } else {
            self.queue.remove_group(group);
        }
        self.fill(now);
    }

    /// Asks the server for the replies so far to the open group, behind what it has submitted.
    pub fn flush(&mut self, now: Time, group: Group) {
        if self.floor != Some(group) || P::FLUSH.is_empty() {
            return;
        }
        if !self.group_queue.append_to_last(P::FLUSH) {
            self.wire.begin(now, &mut self.last_progress);
            self.wire.append_to_last(P::FLUSH);
        }
    }

    /// Takes no new requests from now on, and says goodbye when the last one was answered.
    pub fn terminate(&mut self, now: Time) {
        if self.life == Life::Open {
            self.life = Life::Terminating;
            self.say_goodbye(now);
        }
    }

    // --- drains ---

    /// The bytes to write next; empty when there are none. Report with
    /// [`handle_written`](Self::handle_written) how many were handed to TLS or the system.
    pub fn transmit(&self) -> &[u8] {
        self.wire.unwritten()
    }

    /// What happened, oldest first.
    pub fn poll_output(&mut self) -> Option<Output<P::Event>> {
        self.outputs.pop_front()
    }

    /// When to call [`handle_time`](Self::handle_time) next, unless something else happens first.
    pub fn poll_deadline(&self) -> Option<Time> {
        let next = self.earliest_deadline.min(self.stall_deadline());
        (next != Time::NEVER).then_some(next)
    }

    // --- what happened ---

    /// The host handed this many bytes of [`transmit`](Self::transmit) to TLS or the system.
    pub fn handle_written(&mut self, now: Time, bytes: usize) {
        if bytes > 0 {
            self.last_progress = now;
            self.wire.written(bytes);
        }
    }

    /// The reader of the open group took (or dropped) this many bytes of its replies.
    pub fn handle_consumed(&mut self, now: Time, group: Group, bytes: usize) {
        if self.floor == Some(group) {
            self.undelivered = self.undelivered.saturating_sub(bytes);
            self.update_window();
            self.fill(now);
        }
    }

    /// The connection ended: the peer closed it, the transport failed, or the host wants it so.
    pub fn handle_closed(&mut self) {
        self.close(CloseReason::Host);
    }

    // --- private ---

    fn someone_waits(&self) -> bool {
        self.waiting.live() > 0 || self.rooms_reserved > 0
    }

    fn fail(&mut self, token: Token, outcome: Outcome, cause: Cause) {
        self.end(token, Bytes::new(), End::Failed(Failure { outcome, cause }));
    }

    fn end(&mut self, token: Token, block: Bytes, end: End) {
        if token != Token::DISCARD {
            self.outputs.push_back(Output::Ended { token, block, end });
        }
    }

    fn free_floor(&mut self) {
        self.floor = None;
        self.undelivered = 0;
    }

    /// Ends everything. What is known of each request's effect follows from how far its bytes got.
    fn close(&mut self, reason: CloseReason) {
        if self.life == Life::Closed {
            return;
        }
        self.life = Life::Closed;
        self.outputs.push_back(Output::Closed(reason));
        self.close_wire();
        while let Some((slot, _)) = self.healing.pop_front() {
            // The server said that it never started.
            self.fail(slot.token, Outcome::Rejected, Cause::Closed);
        }
        for token in self.group_queue.drain_tokens().chain(self.queue.drain_tokens()) {
            if token != Token::DISCARD {
                self.outputs.push_back(not_sent(token));
            }
        }
        while let Some((token, _)) = self.waiting.pop() {
            self.outputs.push_back(not_sent(token));
        }
        self.floor = None;
        self.earliest_deadline = Time::NEVER;
    }

    fn close_wire(&mut self) {
        if let Some(HeadFailure { failure, block, .. }) = self.head_failure.take()
            && let Some(slot) = self.wire.answered()
        {
            self.end(slot.token, block, End::Failed(failure));
            self.skipping = None;
        }
        while let Some(slot) = self.wire.ring.front() {
            let outcome = match self.skipping {
                Some(outcome) => outcome,
                None if self.wire.front_touched() => Outcome::Unknown,
                None => Outcome::NotSent,
            };
            if slot.sync != SyncPoint::Member {
                self.skipping = None;
            }
            if let Some(slot) = self.wire.answered() {
                self.fail(slot.token, outcome, Cause::Closed);
            }
        }
        self.wire.clear();
    }
}

fn not_sent<E>(token: Token) -> Output<E> {
    let failure = Failure { outcome: Outcome::NotSent, cause: Cause::Closed };
    Output::Ended { token, block: Bytes::new(), end: End::Failed(failure) }
}
