//! Bytes from the server: whose they are, and who has ended.

use bytes::{Bytes, BytesMut};

use super::{Connection, HeadFailure};
use crate::{
    Cause, CloseReason, End, Failure, Outcome, Output, Protocol, Step, SyncPoint, Time, Token,
    Violation,
};

impl<P: Protocol> Connection<P> {
    /// Takes the whole messages at the front of `input` and leaves the rest, to which the host
    /// appends what arrives next. Returns how many bytes have to be there before another call can
    /// make progress.
    pub fn handle_bytes(&mut self, now: Time, input: &mut BytesMut) -> usize {
        self.last_progress = now;
        // Bytes at the front of `input` that belong to the head's reply and were not handed on.
        let mut taken = 0;
        let need = loop {
            if self.is_closed() {
                input.clear();
                return 1;
            }
            let head = self.wire.ring.front_mut();
            match self.protocol.step(&input[taken..], head.map(|slot| &mut slot.expect)) {
                Ok(Step::Need(need)) => break need,
                Ok(Step::Part(len)) => taken += len,
                Ok(Step::Complete(len)) => {
                    taken += len;
                    if self.complete(input, taken) {
                        taken = 0;
                    }
                }
                Ok(Step::Settled(len)) => {
                    let block = input.split_to(taken + len).freeze();
                    taken = 0;
                    self.settle(block);
                }
                Ok(Step::Failed { len, outcome, never_started }) => {
                    self.deliver(input, taken);
                    taken = 0;
                    let block = input.split_to(len).freeze();
                    self.fail_head(block, outcome, never_started);
                }
                Ok(Step::Event(len, event)) => {
                    self.deliver(input, taken);
                    taken = 0;
                    let block = input.split_to(len).freeze();
                    self.outputs.push_back(Output::Event { event, block });
                }
                Ok(Step::Fatal(len)) => {
                    self.deliver(input, taken);
                    taken = 0;
                    let block = input.split_to(len).freeze();
                    self.close(CloseReason::Server(block));
                }
                Err(violation) => self.close(CloseReason::Violation(violation)),
            }
        };
        self.deliver(input, taken);
        self.fill(now);
        need.max(1)
    }

    /// Hands on a part of the head's reply.
    fn deliver(&mut self, input: &mut BytesMut, len: usize) {
        if len == 0 {
            return;
        }
        let block = input.split_to(len).freeze();
        if let Some(slot) = self.wire.ring.front()
            && slot.token != Token::DISCARD
        {
            let (token, grouped) = (slot.token, slot.grouped);
            self.charge(grouped, block.len());
            self.outputs.push_back(Output::Data { token, block });
        }
    }

    /// Replies to the group that holds the floor count against the window until its reader takes
    /// them. Others' don't: a slow caller must not stop its neighbours.
    fn charge(&mut self, grouped: bool, bytes: usize) {
        if grouped && self.floor.is_some() {
            self.undelivered += bytes;
        }
    }

    /// The head's own reply is complete. A member ends here; one with a sync point waits for it.
    /// Returns whether the bytes were handed on.
    fn complete(&mut self, input: &mut BytesMut, len: usize) -> bool {
        match self.wire.ring.front() {
            Some(slot) if slot.sync == SyncPoint::Member => {}
            _ => return false,
        }
        let block = input.split_to(len).freeze();
        self.end_head(block, End::Provisional);
        self.update_window();
        true
    }

    /// Ends the head with the last part of its reply.
    fn end_head(&mut self, block: Bytes, end: End) {
        if let Some(slot) = self.wire.answered()
            && slot.token != Token::DISCARD
        {
            self.charge(slot.grouped, block.len());
            self.end(slot.token, block, end);
        }
    }

    /// The head failed: what follows in its segment is skipped.
    fn fail_head(&mut self, block: Bytes, outcome: Outcome, never_started: bool) {
        let failure = Failure { outcome, cause: Cause::Server };
        match self.wire.ring.front() {
            Some(slot) if slot.sync == SyncPoint::Member => {
                if let Some(slot) = self.wire.answered() {
                    self.end(slot.token, block, End::Failed(failure));
                }
                self.skipping = Some(outcome);
                self.skip_members();
                self.update_window();
            }
            _ => self.head_failure = Some(HeadFailure { failure, block, never_started }),
        }
    }

    /// Ends the members that the server skips without a word, up to the request that carries the
    /// segment's sync point.
    pub(super) fn skip_members(&mut self) {
        let Some(outcome) = self.skipping else { return };
        while let Some(slot) = self.wire.ring.front_mut() {
            if slot.sync != SyncPoint::Member {
                if self.head_failure.is_none() {
                    self.protocol.skip(&mut slot.expect);
                    let failure = Failure { outcome, cause: Cause::Aborted };
                    let block = Bytes::new();
                    self.head_failure = Some(HeadFailure { failure, block, never_started: false });
                }
                return;
            }
            if let Some(slot) = self.wire.answered() {
                self.fail(slot.token, Outcome::Rejected, Cause::Aborted);
            }
        }
    }

    /// The head's sync point was answered: its segment is over, and so is the request.
    fn settle(&mut self, block: Bytes) {
        let failed = self.head_failure.take();
        self.skipping = None;
        let Some(slot) = self.wire.ring.front() else {
            return self.close(CloseReason::Violation(Violation(
                "the server answered a sync point that was not sent",
            )));
        };
        if slot.sync == SyncPoint::Member {
            return self.close(CloseReason::Violation(Violation(
                "the server answered a sync point before the requests in front of it",
            )));
        }
        match failed {
            Some(failed) if failed.never_started && slot.again => self.prepare_again(),
            Some(HeadFailure { failure, block, .. }) => {
                if let Some(slot) = self.wire.answered() {
                    self.end(slot.token, block, End::Failed(failure));
                }
            }
            None => self.end_head(block, End::Complete),
        }
        self.update_window();
    }

    /// Takes the head off the wire to send it again, this once.
    fn prepare_again(&mut self) {
        let bytes = Bytes::copy_from_slice(self.wire.front_bytes());
        if let Some(mut slot) = self.wire.answered() {
            slot.again = false;
            self.healing.push_back((slot, bytes));
        }
    }
}
