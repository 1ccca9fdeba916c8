//! Bytes from the server: which request they belong to, and which requests have ended.

use bytes::{Buf, Bytes, BytesMut};

use super::Connection;
use super::state::{Feeding, HeadFailure, NOT_SENT_AGAIN};
use super::wire::{Slot, Want};
use super::yielding::{HITS_MAX, is_undone};
use crate::{
    Cause, CloseReason, End, Failure, Group, Outcome, Output, Protocol, Step, SyncPoint, Time,
    Token, Violation, memory,
};

impl<P: Protocol> Connection<P> {
    /// Takes the whole messages at the front of `input` and leaves the rest. The host appends to it
    /// what arrives next. Returns how many bytes must be there before another call can make
    /// progress.
    pub fn handle_bytes(&mut self, now: Time, input: &mut BytesMut) -> usize {
        self.last_progress = now;
        // Bytes at the front of `input` that belong to the head's reply and were not handed on yet.
        let mut taken = 0;
        let need = loop {
            if self.is_closed() {
                input.clear();
                return 1;
            }
            // Bytes that come before anything of the head was written can't be its reply.
            let due = self.wire.reply_is_due();
            let head = if due { self.wire.front_mut() } else { None };
            match self.protocol.step(&input[taken..], head.map(|slot| &mut slot.expect)) {
                Ok(Step::Need(need)) => break need,
                Ok(Step::Event(len, event)) => {
                    self.deliver(input, &mut taken);
                    let block = input.split_to(len).freeze();
                    self.outputs.push_back(Output::Event { event, block });
                }
                Ok(Step::Own(len)) if due => {
                    self.deliver(input, &mut taken);
                    input.advance(len);
                }
                Ok(Step::Unusable(why)) => self.close(CloseReason::Unusable(why)),
                Ok(Step::Fatal(len)) => {
                    self.deliver(input, &mut taken);
                    let block = input.split_to(len).freeze();
                    self.close(CloseReason::Server(block));
                }
                Ok(Step::Piece { len, left }) if due => {
                    self.deliver(input, &mut taken);
                    self.deliver_piece(input.split_to(len).freeze(), left);
                }
                Ok(step) if due => self.take_reply(input, &mut taken, step),
                Ok(_) => self.violated("the server answered a request that was not sent"),
                Err(violation) => self.close(CloseReason::Violation(violation)),
            }
        };
        self.deliver(input, &mut taken);
        if !self.leaving && self.protocol.is_leaving() {
            self.leaving = true;
            self.outputs.push_back(Output::Leaving);
        }
        self.note_head(now);
        self.fill(now);
        self.break_silence(now);
        need.max(1)
    }

    /// Takes a part of the head's reply.
    #[inline]
    fn take_reply(&mut self, input: &mut BytesMut, taken: &mut usize, step: Step<P::Event>) {
        match step {
            Step::Part(len) => *taken += len,
            Step::Complete(len) => {
                *taken += len;
                if self.head_is_member() {
                    let block = input.split_to(std::mem::take(taken)).freeze();
                    self.end_head(block, End::Provisional);
                    self.update_window();
                } else {
                    self.wire.bar_joining();
                    if self.wire.in_shared_sync() {
                        self.complete_in_shared_sync(input, taken);
                    }
                }
            }
            Step::Settled(len) => {
                let block = input.split_to(std::mem::take(taken) + len).freeze();
                self.settle(block);
            }
            Step::Unconfirmed(len) => {
                let block = input.split_to(std::mem::take(taken) + len).freeze();
                self.doubt();
                self.settle(block);
            }
            Step::Failed { len, outcome, never_started, cancelled } => {
                self.deliver(input, taken);
                let block = input.split_to(len).freeze();
                let failure = Failure { outcome, cause: Cause::Server };
                let skipped = false;
                self.fail_head(HeadFailure { failure, block, never_started, skipped, cancelled });
            }
            Step::Skipped(len) => {
                self.deliver(input, taken);
                let block = self.protocol.reason_to_skip(input.split_to(len).freeze());
                let failure = Failure { outcome: Outcome::Rejected, cause: Cause::Server };
                let (never_started, skipped, cancelled) = (true, true, false);
                self.fail_head(HeadFailure { failure, block, never_started, skipped, cancelled });
            }
            // The caller of this function has dealt with these.
            Step::Need(_)
            | Step::Event(..)
            | Step::Own(_)
            | Step::Fatal(_)
            | Step::Unusable(_)
            | Step::Piece { .. } => {}
        }
    }

    /// Hands on the bytes taken so far of the head's reply.
    #[inline]
    fn deliver(&mut self, input: &mut BytesMut, taken: &mut usize) {
        if *taken == 0 {
            return;
        }
        let block = input.split_to(std::mem::take(taken)).freeze();
        if let Some(slot) = self.wire.front()
            && slot.token != Token::DISCARD
        {
            let token = slot.token;
            self.charge((slot.group, slot.metered), block.len());
            self.outputs.push_back(Output::Data { token, block });
        }
    }

    fn deliver_piece(&mut self, block: Bytes, left: usize) {
        if let Some(slot) = self.wire.front()
            && slot.token != Token::DISCARD
        {
            let token = slot.token;
            self.charge((slot.group, slot.metered), block.len());
            self.outputs.push_back(Output::Piece { token, block, left });
        }
    }

    /// Replies to the open group count against the window until its reader takes them. Replies to
    /// other requests don't, since a slow caller must not stop its neighbours. Metered replies stop
    /// reading.
    #[inline]
    fn charge(&mut self, (group, metered): (Option<Group>, bool), bytes: usize) {
        if metered {
            self.meter.add(bytes, self.limits.untaken_bytes_max);
        }
        if let Some(group) = group
            && self.counts(group)
        {
            self.undelivered += bytes;
        }
    }

    pub(super) fn violated(&mut self, how: &'static str) {
        self.close(CloseReason::Violation(Violation(how)));
    }

    #[inline]
    fn head_is_member(&self) -> bool {
        self.wire.front().is_some_and(|slot| slot.sync == SyncPoint::Member)
    }

    /// Ends the head with the last part of its reply, or with the message that came in its place.
    #[inline]
    pub(super) fn end_head(&mut self, block: Bytes, end: End) {
        if let Some(slot) = self.wire.answered()
            && slot.token != Token::DISCARD
        {
            self.charge((slot.group, slot.metered), block.len());
            self.end(slot.token, block, end);
        }
        if self.wire.is_empty() {
            // A request that was being fed is over, even if more of it was to come.
            self.feeding = None;
        }
    }

    /// The head failed, so the server skips the rest of its segment.
    fn fail_head(&mut self, failed: HeadFailure) {
        if self.head_is_member() {
            self.end_head(failed.block, End::Failed(failed.failure));
            self.skipping = Some(failed.failure.outcome);
            self.skip_members();
            self.update_window();
            return;
        }
        self.wire.bar_joining();
        if self.wire.in_shared_sync() {
            self.fail_shared_sync(failed);
        } else if self.head_failure.is_some() {
            self.violated("a second error for one request");
        } else {
            self.head_failure = Some(failed);
        }
    }

    /// What the head's sync point was answered with is not to be relied on.
    fn doubt(&mut self) {
        let failure = Failure { outcome: Outcome::Unknown, cause: Cause::Unconfirmed };
        let (never_started, skipped, cancelled) = (false, false, false);
        match &mut self.head_failure {
            // The error is kept. Of what stands in front of it, nothing is certain.
            Some(failed) => {
                failed.failure.outcome = Outcome::Unknown;
                (failed.never_started, failed.skipped, failed.cancelled) = (false, false, false);
            }
            None if self.wire.in_shared_sync() && self.shared_sync_failure.is_some() => {}
            None => {
                let block = Bytes::new();
                self.fail_head(HeadFailure { failure, block, never_started, skipped, cancelled });
            }
        }
    }

    /// Ends the members that the server skips without an answer, up to the request that carries the
    /// segment's sync point.
    #[inline]
    pub(super) fn skip_members(&mut self) {
        let Some(outcome) = self.skipping else { return };
        while self.head_is_member() {
            let failure = Failure { outcome: Outcome::Rejected, cause: Cause::Aborted };
            self.end_head(Bytes::new(), End::Failed(failure));
        }
        if let Some(slot) = self.wire.front_mut()
            && self.head_failure.is_none()
        {
            self.protocol.skip(&mut slot.expect);
            let failure = Failure { outcome, cause: Cause::Aborted };
            self.head_failure = Some(HeadFailure {
                failure,
                block: Bytes::new(),
                never_started: false,
                skipped: false,
                cancelled: false,
            });
        }
    }

    /// The head's sync point was answered, so its segment and the head are over.
    #[inline]
    fn settle(&mut self, block: Bytes) {
        let Some(slot) = self.wire.front() else { return };
        if slot.sync == SyncPoint::Member {
            return self.violated("a sync point was answered before a request in front of it");
        }
        if self.wire.len() == 1 && self.feeding.as_ref().is_some_and(Feeding::is_mid_message) {
            return self.violated("a request was answered before its end");
        }
        if self.wire.in_shared_sync() {
            return self.settle_shared_sync(block);
        }
        let order_stays = !slot.in_order || self.wire.len() == 1;
        let (again, unwanted) = (slot.again > 0 && order_stays, slot.want.is_of_caller());
        let yields = slot.want == Want::Yielding && slot.token != Token::DISCARD;
        // If requests behind it may run, it is sent again only if its place in the order doesn't
        // matter.
        let anew = slot.anew && (order_stays || self.protocol.is_skipped(&slot.expect));
        let is_sent_again = again || anew;
        self.skipping = None;
        match self.head_failure.take() {
            None => self.end_head(block, End::Complete),
            Some(failed) if failed.never_started && is_sent_again && unwanted => {
                self.end_head(Bytes::new(), End::Failed(NOT_SENT_AGAIN));
            }
            // Requests that were sent behind it were skipped, too.
            Some(failed) if failed.skipped && anew => match self.front_copied() {
                Some(bytes) => self.prepare_anew(bytes),
                None => self.end_head(failed.block, End::Failed(failed.failure)),
            },
            Some(failed) if failed.never_started && again => match self.front_copied() {
                Some(bytes) => self.prepare_again(bytes),
                None => self.end_head(failed.block, End::Failed(failed.failure)),
            },
            Some(failed) if yields && failed.cancelled && is_undone(&failed) => {
                match self.front_copied() {
                    Some(bytes) => self.put_aside(self.last_progress, bytes),
                    None => self.end_head(failed.block, End::Failed(failed.failure)),
                }
            }
            Some(failed) if order_stays && self.is_head_hit(&failed) => match self.front_copied() {
                Some(bytes) => self.prepare_restart(bytes),
                None => self.end_head(failed.block, End::Failed(failed.failure)),
            },
            Some(failed) => self.end_head(failed.block, End::Failed(failed.failure)),
        }
        self.update_window();
    }

    /// A copy of the head's bytes to send again, if there is memory for it.
    fn front_copied(&self) -> Option<Bytes> {
        memory::copy(self.wire.front_bytes())
    }

    /// Takes the head off the wire to send it again without the previous repair, if any, and behind
    /// a new one.
    fn prepare_again(&mut self, mut bytes: Bytes) {
        if let Some(mut slot) = self.wire.answered() {
            slot.again -= 1;
            slot.joins = false;
            let heal_len = std::mem::take(&mut slot.heal_len);
            bytes.advance(heal_len);
            if heal_len > 0 && slot.token != Token::DISCARD {
                self.outputs.push_back(Output::Restarted { token: slot.token });
            }
            (slot.healed, slot.heals) = (true, true);
            slot.stay();
            self.healed += 1;
            self.healing.push_back((slot, bytes));
        }
    }

    /// Takes the head off the wire to send it as it was submitted. Nothing of it has run.
    fn prepare_anew(&mut self, bytes: Bytes) {
        if let Some(mut slot) = self.wire.answered() {
            slot.healed = true;
            slot.stay();
            self.protocol.restart(&mut slot.expect);
            self.healed += 1;
            self.healing.push_back((slot, bytes));
        }
    }

    /// Takes the head off the wire to send it again unchanged.
    fn prepare_restart(&mut self, bytes: Bytes) {
        if let Some(slot) = self.wire.answered() {
            self.restart(slot, bytes);
        }
    }

    /// Has a request sent again that was undone together with another, or that a cancel hit by
    /// mistake. Its reply so far is void.
    pub(super) fn restart(&mut self, mut slot: Slot<P::Expect>, bytes: Bytes) {
        // Of a cancel that is astray nobody ever knows whether it has come.
        slot.hits = if self.is_astray() { HITS_MAX } else { slot.hits.saturating_add(1) };
        slot.stay();
        self.void(&mut slot);
        self.healing.push_back((slot, bytes));
    }
}
