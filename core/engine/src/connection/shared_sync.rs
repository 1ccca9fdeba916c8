//! Shared-Sync groups: requests that each asked for a sync point of their own, and share one.
//!
//! A request that [joins](crate::Request::joins) others shares the sync point of the one before it,
//! if that was still unwritten. So no request ever waits for a group to grow. The wire puts
//! requests into groups. This file gives their replies a meaning: an answer is final when the sync
//! point is answered, and if one request fails, all others are sent again, each by itself.

use bytes::{Bytes, BytesMut};

use super::Connection;
use super::state::{HeadFailure, NOT_SENT_AGAIN, SharedSyncFailure};
use super::wire::{Slot, Want};
use crate::{Cause, End, Outcome, Output, Protocol, Token};

impl<P: Protocol> Connection<P> {
    /// The head was answered. Its shared-Sync group goes on, or ends with it.
    #[inline]
    pub(super) fn complete_in_shared_sync(&mut self, input: &mut BytesMut, taken: &mut usize) {
        match self.wire.front() {
            Some(slot) if slot.joined => {
                let block = input.split_to(std::mem::take(taken)).freeze();
                self.wire.hold(block);
            }
            _ => self.shared_sync_complete = true,
        }
    }

    /// The head failed, so the server skips the rest of its shared-Sync group.
    pub(super) fn fail_shared_sync(&mut self, failed: HeadFailure) {
        if self.shared_sync_failure.is_some() {
            return self.violated("a second error for one sync point");
        }
        // An error behind the last answer belongs to the sync point, and to no request.
        let at = (!self.shared_sync_complete).then_some(self.wire.done());
        self.wire.pass_shared_sync();
        if let Some(end) = self.wire.front_mut() {
            self.protocol.skip(&mut end.expect);
        }
        self.shared_sync_failure = Some(SharedSyncFailure { at, failed });
    }

    /// The sync point of the shared-Sync group at the front was answered.
    pub(super) fn settle_shared_sync(&mut self, block: Bytes) {
        if self.wire.front().is_some_and(|slot| slot.joined) {
            return self.violated("a sync point was answered before a request in front of it");
        }
        self.shared_sync_complete = false;
        match self.shared_sync_failure.take() {
            Some(failed) => self.dissolve(failed),
            None => {
                let before = self.outputs.len();
                while let Some((slot, block)) = self.wire.next_done() {
                    self.end(slot.token, block, End::Complete);
                }
                self.end_head(block, End::Complete);
                for output in self.outputs.range_mut(before..) {
                    if let Output::Ended { together, .. } = output {
                        *together = true;
                    }
                }
            }
        }
        self.update_window();
    }

    /// Ends the request that failed, and has the others sent again.
    fn dissolve(&mut self, SharedSyncFailure { at, failed }: SharedSyncFailure) {
        let last = self.wire.done();
        self.wire.rewind();
        for index in 0..=last {
            let number = self.wire.front_number();
            let bytes = Bytes::copy_from_slice(self.wire.front_bytes());
            let Some(mut slot) = self.wire.answered() else { break };
            let is_failed = at == Some(index);
            slot.heals = is_failed && failed.never_started && slot.again > 0;
            slot.again -= u8::from(slot.heals);
            match is_failed && !slot.heals && !self.is_hit(&failed, &slot, number) {
                true => self.end(slot.token, failed.block.clone(), End::Failed(failed.failure)),
                false => self.send_apart(slot, bytes),
            }
        }
    }

    /// Has a request of a shared-Sync group sent again with a sync point of its own. A request
    /// whose deadline has passed is dropped, since nobody would hear of it.
    fn send_apart(&mut self, mut slot: Slot<P::Expect>, bytes: Bytes) {
        if slot.token == Token::DISCARD {
            return;
        }
        if slot.want != Want::No {
            return self.end(slot.token, Bytes::new(), End::Failed(NOT_SENT_AGAIN));
        }
        let bytes = match std::mem::take(&mut slot.joined) {
            true => [&bytes[..], P::SYNC].concat().into(),
            false => bytes,
        };
        self.restart(slot, bytes);
    }

    /// The connection ends within a shared-Sync group. The request that failed ends with its own
    /// failure, and the others end like the requests behind them.
    pub(super) fn close_shared_sync(&mut self) {
        self.wire.rewind();
        let Some(SharedSyncFailure { at, failed }) = self.shared_sync_failure.take() else {
            return;
        };
        let Some(at) = at else { return };
        for _ in 0..at {
            let Some(slot) = self.wire.answered() else { return };
            self.fail(slot.token, Outcome::Unknown, Cause::Closed);
        }
        let number = self.wire.front_number();
        let Some(slot) = self.wire.answered() else { return };
        let hit = self.is_hit(&failed, &slot, number);
        self.end_failed(slot.token, failed, hit);
    }
}
