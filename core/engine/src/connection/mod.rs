//! The state machine of one connection.

mod buffer;
mod cancelling;
mod deadlines;
mod feed;
mod inbound;
mod meter;
mod outbound;
mod queue;
mod shared_sync;
mod silence;
mod state;
mod wire;
mod yielding;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::{
    Cause, CloseReason, End, Failure, Group, Holders, Limits, Outcome, Output, Protocol, Request,
    SubmitError, SyncPoint, Ticket, Time, Token, Unsent, Violation,
};
use queue::{Queue, Waiting};
use state::{Admission, Cancelling, Feeding, HeadFailure, Life, Meter, Sender, SharedSyncFailure};
pub use state::{CancelEnd, Wanted};
use wire::{Slot, Wire};
use yielding::Hurry;

/// One connection: its requests in order, its window, its queue.
///
/// The methods are of four kinds:
///
/// * *getters*;
/// * *what happened*, named `handle_…`: bytes, time, an end, what was written or consumed;
/// * *commands*: [`submit`](Self::submit), [`wait`](Self::wait), [`cancel`](Self::cancel),
///   [`open_group`](Self::open_group), [`close_group`](Self::close_group),
///   [`flush`](Self::flush), [`feed`](Self::feed), [`end_feed`](Self::end_feed),
///   [`terminate`](Self::terminate), and those about cancelling at the server:
///   [`want_cancel`](Self::want_cancel), [`begin_cancel`](Self::begin_cancel);
/// * *drains*: [`transmit`](Self::transmit) shows the bytes to write, and
///   [`poll_output`](Self::poll_output) says what happened to each request.
///
/// After each call that changes something the host drains both and asks
/// [`poll_deadline`](Self::poll_deadline) anew. Time must not go backwards.
pub struct Connection<P: Protocol> {
    protocol: P,
    limits: Limits,
    wire: Wire<P::Expect>,
    /// Requests that wait for the window, in issue order.
    queue: Queue<P::Expect>,
    /// Requests of the group with the exclusive right to send that wait for the window.
    group_queue: Queue<P::Expect>,
    /// Requests to be sent again, with their bytes; they go before everything in the queue.
    healing: VecDeque<(Slot<P::Expect>, Bytes)>,
    /// Requests that were taken away from those behind them, until they are sent again.
    yielded: VecDeque<(Slot<P::Expect>, Bytes)>,
    /// Since when the request at the head has been there, as of the last read.
    head_since: Time,
    /// The number of the request at the head then.
    head_number: u64,
    /// Nothing was on the wire when it was sent.
    is_head_first: bool,
    /// The shortest time that such a head took: no more than a round trip and some work.
    trip: Duration,
    /// For whom heads are taken away; for anybody if that is not said.
    holders: Option<Arc<Holders>>,
    /// No head is taken away before this moment.
    next_yield: Time,
    /// Heads that are taken away earlier.
    hurry: Hurry,
    /// When it is looked again whether what was put aside may come back.
    next_resume: Time,
    /// Callers that wait for room in the queue.
    waiting: Waiting,
    /// Room was announced to a caller that has not yet submitted or declined.
    turn: bool,
    /// The last request outside any group was a member: its segment goes on with the next one.
    segment_open: bool,
    sender: Option<Sender>,
    /// Bytes of replies to the sending group that its reader has not taken.
    undelivered: usize,
    /// The last request on the wire, while more of it is to come.
    feeding: Option<Feeding>,
    meter: Meter,
    /// Whether the window takes more. Once full, it opens again at half.
    refilling: bool,
    /// `Full` was announced and `Drained` not yet.
    full: bool,
    /// How the request at the head failed, until its sync point is answered.
    head_failure: Option<HeadFailure>,
    /// How the shared-Sync group at the front failed, until its sync point is answered.
    shared_sync_failure: Option<SharedSyncFailure>,
    /// The last request of the shared-Sync group at the front was answered, but not its sync point.
    shared_sync_complete: bool,
    /// A member of the segment at the head failed, so the server skips the rest of the segment.
    /// Holds what is known of the effect of the segment as a whole. Invariant: the head is then the
    /// segment's end, and there is a `head_failure` too, unless the ring is empty.
    skipping: Option<Outcome>,
    cancelling: Cancelling,
    outputs: VecDeque<Output<P::Event>>,
    /// What may be sent on another connection, once this one has ended.
    unsent: VecDeque<(Token, Unsent<P::Expect>)>,
    /// No deadline of a request lies before this moment.
    earliest_deadline: Time,
    /// The deadlines are not looked at before this moment.
    next_look: Time,
    /// When bytes last moved in either direction, or began to wait.
    last_progress: Time,
    /// Since when the server has said nothing to what was given up.
    silence: Option<Time>,
    /// Requests that were sent again so far.
    healed: u64,
    /// [`Output::Leaving`] was announced.
    leaving: bool,
    life: Life,
}

impl<P: Protocol> Connection<P> {
    /// A connection whose peer is ready for requests.
    pub fn new(now: Time, protocol: P, limits: Limits) -> Connection<P> {
        Connection {
            protocol,
            wire: Wire::new(&limits, P::SYNC),
            limits,
            queue: Queue::new(),
            group_queue: Queue::new(),
            healing: VecDeque::new(),
            yielded: VecDeque::new(),
            head_since: now,
            head_number: 0,
            is_head_first: false,
            trip: Duration::MAX,
            holders: None,
            next_yield: Time::ZERO,
            hurry: Hurry::default(),
            next_resume: Time::NEVER,
            waiting: Waiting::new(),
            turn: false,
            segment_open: false,
            sender: None,
            undelivered: 0,
            feeding: None,
            meter: Meter::new(),
            refilling: true,
            full: false,
            head_failure: None,
            shared_sync_failure: None,
            shared_sync_complete: false,
            skipping: None,
            cancelling: Cancelling::default(),
            outputs: VecDeque::new(),
            unsent: VecDeque::new(),
            earliest_deadline: Time::NEVER,
            next_look: now,
            last_progress: now,
            silence: None,
            healed: 0,
            leaving: false,
            life: Life::Open,
        }
    }

    // --- getters ---

    /// The protocol's own state.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// The protocol's own state, for changes such as registering a prepared statement.
    pub fn protocol_mut(&mut self) -> &mut P {
        &mut self.protocol
    }

    /// Requests in flight: handed to the host to send, or sent, and unanswered. Requests of the
    /// protocol itself are not counted, and take no place in the window.
    pub fn in_flight(&self) -> usize {
        self.wire.callers()
    }

    /// How many of them carry no sync point. The server may keep their replies back until the sync
    /// point of their segment, or a Flush, arrives. So nobody may wait for such a reply while
    /// anything is unwritten.
    pub fn in_flight_members(&self) -> usize {
        self.wire.members()
    }

    /// Whether the first request in flight was written to its end. The server then answers it at
    /// once, unless it is a [member](Self::in_flight_members).
    pub fn is_reply_due(&self) -> bool {
        self.wire.front_is_written()
    }

    /// Requests of the open group that wait for the window.
    pub fn group_queued(&self) -> usize {
        self.group_queue.live()
    }

    /// Bytes of the requests in flight.
    pub fn in_flight_bytes(&self) -> usize {
        self.wire.in_flight_bytes()
    }

    /// Bytes of replies to the open group that its reader has not taken.
    pub fn undelivered_bytes(&self) -> usize {
        self.undelivered
    }

    /// Requests in the queue, including those of the open group and those that are to be sent again.
    pub fn queued(&self) -> usize {
        let again = self.healing.len() + self.yielded.len();
        self.queue.live() + self.group_queue.live() + again
    }

    /// Those of them that were taken away from others ([`Limits::yield_after`]) and are not sent
    /// again yet.
    pub fn paused(&self) -> usize {
        self.yielded.len()
    }

    /// Bytes in the queue.
    pub fn queued_bytes(&self) -> usize {
        self.queue.bytes_len() + self.group_queue.bytes_len()
    }

    /// Callers that wait for room in the queue.
    pub fn waiting(&self) -> usize {
        self.waiting.live()
    }

    /// Requests that the engine has sent again so far: the server said that they never started, or
    /// a cancel hit them by mistake.
    pub fn healed(&self) -> u64 {
        self.healed
    }

    /// Whether nothing is in flight, queued or waiting. An open group may still have the exclusive
    /// right to send.
    pub fn is_idle(&self) -> bool {
        self.wire.is_empty()
            && self.queued() == 0
            && !self.someone_waits()
            && self.healing.is_empty()
            && self.yielded.is_empty()
    }

    /// Whether the connection takes new requests.
    pub fn is_open(&self) -> bool {
        self.life == Life::Open
    }

    /// Whether the connection must be closed once it has finished what it has: after
    /// [`Output::Astray`] or [`Output::Leaving`].
    pub fn is_leaving(&self) -> bool {
        self.leaving || self.is_astray()
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.life == Life::Closed
    }

    /// Whether this many requests of this many bytes in all may be submitted now as
    /// [`reserved`](Request::reserved). When the queue is empty, any number may.
    pub fn has_room(&self, requests: usize, bytes: usize) -> bool {
        let fits = self.queue.live().saturating_add(requests) <= self.limits.queue_max
            && self.queue.bytes_len().saturating_add(bytes) <= self.limits.queue_bytes_max;
        self.life == Life::Open
            && !self.someone_waits()
            && (fits || self.queue.is_empty() && self.has_place())
    }

    /// How many more requests are taken, by their number: into the window, unless others wait for
    /// it to open, and into the queue. None while the queue is full by its bytes.
    pub fn room(&self) -> usize {
        if self.queue.bytes_len() >= self.limits.queue_bytes_max {
            return 0;
        }
        let Limits { in_flight_max, queue_max, .. } = self.limits;
        let goes_on = self.queue.is_empty() && self.refilling;
        let window = if goes_on { in_flight_max.saturating_sub(self.in_flight()) } else { 0 };
        window.saturating_add(queue_max.saturating_sub(self.queue.live()))
    }

    /// Whether the open group's next request would be sent at once rather than queued.
    pub fn group_has_room(&self) -> bool {
        self.life != Life::Closed && self.group_queue.is_empty() && self.window_open()
    }

    // --- commands ---

    /// Takes a request: writes its bytes with `encode`, which must only append, and gives it a
    /// slot. It does both or neither.
    ///
    /// The request is sent at once if the window is open, and queued otherwise. If it is a member
    /// without a group, the rest of its segment must be submitted before anything else. That rest
    /// is never refused for lack of room.
    ///
    /// # Errors
    /// See [`SubmitError`]; nothing of the request is kept. If a request of an open segment is
    /// refused, the segment must still be ended, at least by a [`SyncPoint::Only`].
    pub fn submit<E>(
        &mut self,
        now: Time,
        request: Request<P::Expect>,
        encode: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<Ticket, SubmitError<E>> {
        let (deadline, group, sync) = (request.deadline, request.group, request.sync);
        // The host may use a sync point for itself, and send nothing of it.
        if sync != SyncPoint::Only {
            self.send_owed_before(now, &request);
        }
        let direct = match self.admit(now, &request)? {
            Admission::Direct => true,
            Admission::Queued => false,
            Admission::Full => {
                self.announce_full();
                return Err(SubmitError::QueueFull);
            }
        };
        let ticket = if direct {
            self.send_now(now, request, encode).map_err(SubmitError::Encode)?;
            Ticket::Sent
        } else {
            let queue = if group.is_some() { &mut self.group_queue } else { &mut self.queue };
            let number = queue.push(request, encode).map_err(SubmitError::Encode)?;
            self.announce_full();
            if group.is_some() { Ticket::Sent } else { Ticket::Queued(number) }
        };
        self.earliest_deadline = self.earliest_deadline.min(deadline);
        match &mut self.sender {
            Some(sender) if group.is_some() => sender.segment_open = sync == SyncPoint::Member,
            _ => self.segment_open = sync == SyncPoint::Member,
        }
        Ok(ticket)
    }

    /// Keeps a caller's place in the line for room in the queue, after `submit` answered
    /// [`SubmitError::QueueFull`] or [`has_room`](Self::has_room) was false. [`Output::Room`]
    /// announces its turn; until then the host keeps the request. If `deadline` passes first, the
    /// token ends as [`Outcome::NotSent`]. Returns `None` when the connection takes no new requests
    /// or the line is full ([`Limits::waiting_max`]).
    pub fn wait(&mut self, token: Token, deadline: Time) -> Option<Ticket> {
        if self.life != Life::Open || self.waiting.live() >= self.limits.waiting_max {
            return None;
        }
        self.earliest_deadline = self.earliest_deadline.min(deadline);
        let number = self.waiting.push(token, deadline);
        self.offer_room();
        Some(Ticket::Waiting(number))
    }

    /// The caller whose turn [`Output::Room`] announced has submitted its request, or no longer
    /// wants to. Only then does the next caller get its turn.
    pub fn end_turn(&mut self, now: Time) {
        self.turn = false;
        self.fill(now);
    }

    /// Takes back a request that has not been sent: it ends as [`Outcome::NotSent`], and the answer
    /// is true. A request in flight, one that shares a sync point with others, and a
    /// [`pinned`](Request::pinned) one keep their slot, and their replies are still announced.
    pub fn cancel(&mut self, now: Time, ticket: Ticket) -> bool {
        let token = match ticket {
            Ticket::Sent => None,
            Ticket::Queued(number) => {
                self.queue.remove(number, self.wire.mid_segment && self.sender.is_none())
            }
            Ticket::Waiting(number) => self.waiting.remove(number),
        };
        let Some(token) = token else { return false };
        self.fail(token, Outcome::NotSent, Cause::Cancelled);
        self.fill(now);
        true
    }

    /// Its caller waits for a request until this moment at the latest, as if it had been submitted
    /// with this deadline.
    pub fn wait_until(&mut self, token: Token, deadline: Time) {
        let slot = match self.wire.find(token) {
            Some(slot) => Some(slot),
            None => self.queue.find(token),
        };
        if let Some(slot) = slot {
            slot.deadline = slot.deadline.min(deadline);
            self.earliest_deadline = self.earliest_deadline.min(deadline);
        }
    }

    /// Asks for the exclusive right to send. From [`Output::Granted`] until
    /// [`close_group`](Self::close_group), only requests of this group are sent. Its turn comes in
    /// issue order.
    ///
    /// If the connection ends first, the token ends as [`Outcome::NotSent`]. Returns `None` when
    /// the connection takes no new requests, or a segment outside any group is still open.
    pub fn open_group(&mut self, now: Time, token: Token) -> Option<Group> {
        if self.life != Life::Open || self.segment_open {
            return None;
        }
        let group = self.queue.push_group(token);
        self.fill(now);
        Some(group)
    }

    /// Gives back the exclusive right to send, or withdraws the wish for it; the wish's token then
    /// has no end of its own. Requests that were submitted are still sent, and no more are taken.
    ///
    /// A group that has sent members must first send the request that ends their segment. If it has
    /// not, the connection is closed, because later requests would become part of that segment.
    pub fn close_group(&mut self, now: Time, group: Group) {
        match &mut self.sender {
            Some(sender) if sender.group == group => {
                if sender.segment_open {
                    return self.close(CloseReason::Violation(Violation(
                        "a group was closed within a segment",
                    )));
                }
                sender.closing = true;
            }
            _ => self.queue.remove_group(group),
        }
        self.fill(now);
    }

    /// Takes back what the group with the right to send has submitted and what was not sent: it ends
    /// as [`Outcome::NotSent`]. The group goes on as if it had not been submitted, even if it was
    /// closed. Returns whether a segment of it is open on the wire, which the host then ends; `None`,
    /// and nothing is taken back, if everything was sent or another has the right to send.
    pub fn take_back(&mut self, group: Group) -> Option<bool> {
        let sender = self.sender.as_mut().filter(|sender| sender.group == group)?;
        if self.group_queue.is_empty() {
            return None;
        }
        let is_open = self.wire.mid_segment;
        (sender.segment_open, sender.closing) = (is_open, false);
        let mut left = Vec::new();
        self.group_queue.drain(is_open, |token, _| left.push(token));
        left.into_iter().for_each(|token| self.fail(token, Outcome::NotSent, Cause::Cancelled));
        Some(is_open)
    }

    /// Sends what the group with the right to send has submitted, even if the window is closed: for
    /// the few bytes that end a segment which was given up, so that the server hears of it.
    pub fn send_all(&mut self, now: Time, group: Group) {
        let is_free = self.holds_floor(group) && !self.is_held() && self.feeding.is_none();
        while is_free && self.send_next(now) {}
        self.fill(now);
    }

    /// From now on, replies to the open group don't count against the window. It is for a reader
    /// that takes the replies only when all have come: a closed window would never open again.
    pub fn stop_counting(&mut self, now: Time, group: Group) {
        if let Some(sender) = &mut self.sender
            && sender.group == group
        {
            sender.uncounted = true;
            self.undelivered = 0;
            self.update_window();
            self.fill(now);
        }
    }

    /// Asks the server for the replies so far to the open group. The Flush goes behind what the
    /// group has submitted. Nothing is sent if a sync point or another Flush already asks for them.
    pub fn flush(&mut self, now: Time, group: Group) {
        if !self.holds_floor(group) || P::FLUSH.is_empty() {
            return;
        }
        if !self.group_queue.is_empty() {
            self.group_queue.flush_last(P::FLUSH);
        } else if self.wire.unflushed > 0 {
            self.begin_sending(now);
            self.wire.flush(P::FLUSH);
        }
    }

    /// Sends the protocol's own request ([`Protocol::owes`]) now, and not with the next request. A
    /// [`SyncPoint::Only`] does not send it by itself.
    pub fn settle_debts(&mut self, now: Time) {
        self.send_owed(now);
    }

    /// The host is about to write: what the protocol sends behind a flight
    /// ([`Protocol::owes_behind`]) joins it. Also to be called when the connection comes to rest,
    /// for what could not be sent before.
    #[inline]
    pub fn end_flight(&mut self, now: Time) {
        self.send_owed_behind(now);
    }

    /// Takes no new requests from now on. When the last request was answered and no group holds the
    /// right to send, the connection says goodbye: [`Output::Closed`] announces that, and
    /// [`transmit`](Self::transmit) shows the goodbye, which the host writes before it closes the
    /// transport.
    ///
    /// Everything accepted before goes on: requests in the queue, callers that wait for room, and
    /// groups that have the exclusive right to send or wait for it.
    pub fn terminate(&mut self, now: Time) {
        if self.life == Life::Open {
            self.life = Life::Terminating;
            self.say_goodbye(now);
        }
    }

    // --- drains ---

    /// The bytes to write next; empty when there are none. Before the next command, the host
    /// reports with [`handle_written`](Self::handle_written) how many it handed to TLS or the
    /// system. Unwritten bytes may change with each command.
    pub fn transmit(&self) -> &[u8] {
        self.wire.unwritten()
    }

    /// What happened, oldest first.
    pub fn poll_output(&mut self) -> Option<Output<P::Event>> {
        self.outputs.pop_front()
    }

    /// When to call [`handle_time`](Self::handle_time) next, unless something else happens first.
    pub fn poll_deadline(&self) -> Option<Time> {
        let next = self.next_expiry().min(self.stall_deadline()).min(self.cancel_deadline());
        let next = next.min(self.yield_deadline()).min(self.resume_deadline());
        let next = next.min(self.silence_deadline());
        (next != Time::NEVER).then_some(next)
    }

    // --- what happened ---

    /// The host handed this many bytes of [`transmit`](Self::transmit) to TLS or the system. It
    /// reports that before it hands over what the server answered to them.
    ///
    /// # Panics
    /// If that is more than `transmit` showed. Once the connection has ended, the excess is
    /// ignored, since a write may have been under way.
    pub fn handle_written(&mut self, now: Time, bytes: usize) {
        let bytes = if self.is_closed() { bytes.min(self.transmit().len()) } else { bytes };
        if bytes > 0 {
            self.last_progress = now;
            self.wire.written(bytes);
            self.look_for_victim(now);
        }
    }

    /// The host has kept back until now what is unwritten, as [`Pace`](crate::Pace) allows. That it
    /// has not left says nothing of the peer, so the stall timeout begins anew.
    pub fn handle_held(&mut self, now: Time) {
        if !self.transmit().is_empty() {
            self.last_progress = now;
        }
    }

    /// The reader of the open group took (or dropped) this many bytes of its blocks, those of
    /// [`Output::Data`] and of [`Output::Ended`] alike.
    pub fn handle_consumed(&mut self, now: Time, group: Group, bytes: usize) {
        if self.counts(group) {
            self.undelivered = self.undelivered.saturating_sub(bytes);
            self.update_window();
            self.fill(now);
        }
    }

    /// The connection ended: the peer closed it, the transport failed, or the host closes it.
    pub fn handle_closed(&mut self) {
        self.close(CloseReason::Host);
    }

    /// The request with this token, if it ended as [`Outcome::NotSent`] because the connection
    /// ended, and nothing ties it to this connection: it carries its own sync point, is in no
    /// group, is neither [`pinned`](Request::pinned) nor [`in_order`](Request::in_order), does not
    /// go its [`own_way`](Request::own_way), and nobody wanted it cancelled. The host may submit it
    /// to another connection. Quick if the host asks as soon as it hears of the end; what nobody
    /// takes goes with the connection.
    pub fn take_unsent(&mut self, token: Token) -> Option<Unsent<P::Expect>> {
        let at = self.unsent.iter().position(|(of, _)| *of == token)?;
        self.unsent.remove(at).map(|(_, unsent)| unsent)
    }

    /// A reader of replies found that the content of a message, such as the values of a row, breaks
    /// the protocol. Nothing that came with it or comes after it can be trusted.
    pub fn handle_violation(&mut self, violation: Violation) {
        self.close(CloseReason::Violation(violation));
    }

    // --- private ---

    fn someone_waits(&self) -> bool {
        self.turn || self.waiting.live() > 0
    }

    fn holds_floor(&self, group: Group) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.group == group)
    }

    fn counts(&self, group: Group) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.group == group && !sender.uncounted)
    }

    fn fail(&mut self, token: Token, outcome: Outcome, cause: Cause) {
        self.end(token, Bytes::new(), End::Failed(Failure { outcome, cause }));
    }

    #[inline]
    fn end(&mut self, token: Token, block: Bytes, end: End) {
        if token != Token::DISCARD {
            self.outputs.push_back(Output::Ended { token, block, end, together: false });
        }
    }

    /// Ends the connection and everything in it. The outcome of each request follows from how far
    /// its bytes got.
    fn close(&mut self, reason: CloseReason) {
        if self.life == Life::Closed {
            return;
        }
        self.enter_closed(reason);
        self.close_wire();
        self.healing.append(&mut self.yielded);
        while let Some((slot, _)) = self.healing.pop_front() {
            // The server said that it never started, or its effect was undone.
            self.fail(slot.token, Outcome::Rejected, Cause::Closed);
        }
        let mut left = Vec::new();
        self.group_queue.drain(false, |token, _| left.push(token));
        let (continues, movable) = (self.wire.mid_segment, &mut self.unsent);
        self.queue.drain(continues, |token, unsent| {
            left.push(token);
            movable.extend(unsent.map(|unsent| (token, unsent)));
        });
        left.extend(std::iter::from_fn(|| self.waiting.pop()));
        for token in left {
            self.fail(token, Outcome::NotSent, Cause::Closed);
        }
        self.sender = None;
        self.undelivered = 0;
        self.feeding = None;
        self.meter = Meter::new();
        self.turn = false;
        self.cancelling = Cancelling::default();
    }

    fn enter_closed(&mut self, reason: CloseReason) {
        self.life = Life::Closed;
        self.earliest_deadline = Time::NEVER;
        self.silence = None;
        self.outputs.push_back(Output::Closed(reason));
    }

    /// Ends a request that failed just before the connection ended. If it was `hit` by a cancel
    /// that was meant for another, and would have been sent again, the server's error is not its
    /// own.
    fn end_failed(&mut self, token: Token, failed: HeadFailure, hit: bool) {
        match hit {
            true => self.fail(token, failed.failure.outcome, Cause::Closed),
            false => self.end(token, failed.block, End::Failed(failed.failure)),
        }
    }

    fn close_wire(&mut self) {
        if let Some(failed) = self.head_failure.take() {
            let hit = self.is_head_hit(&failed);
            if let Some(slot) = self.wire.answered() {
                self.end_failed(slot.token, failed, hit);
            }
        }
        self.skipping = None;
        self.close_shared_sync();
        loop {
            let touched = self.wire.front_touched();
            let unsent = if touched { None } else { self.wire.unsent_bytes() };
            let bytes = unsent.map(Bytes::copy_from_slice);
            let Some(slot) = self.wire.answered() else { break };
            let outcome = match touched {
                true if self.protocol.is_skipped(&slot.expect) => Outcome::Rejected,
                true => Outcome::Unknown,
                false if slot.healed => Outcome::Rejected,
                false => Outcome::NotSent,
            };
            self.fail(slot.token, outcome, Cause::Closed);
            if let Some(bytes) = bytes {
                self.unsent.push_back((slot.token, Unsent { expect: slot.expect, bytes }));
            }
        }
        self.wire.clear();
    }
}

/// Shows counts only: the bytes may hold secrets.
impl<P: Protocol> fmt::Debug for Connection<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("life", &self.life)
            .field("in_flight", &self.in_flight())
            .field("in_flight_bytes", &self.in_flight_bytes())
            .field("undelivered_bytes", &self.undelivered)
            .field("queued", &self.queued())
            .field("queued_bytes", &self.queued_bytes())
            .field("waiting", &self.waiting())
            .field("unwritten_bytes", &self.transmit().len())
            .finish_non_exhaustive()
    }
}
