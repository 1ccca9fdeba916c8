//! A request at the head that takes long is taken away from those behind it.
//!
//! A connection answers in order, so whatever is behind a request that waits for a lock waits as
//! long. If the one who holds the lock awaits an answer from behind it, nothing ends that: the
//! server sees no cycle, since one edge of it is the client's own. So the head has a bound
//! ([`Limits::yield_after`](crate::Limits::yield_after)). After that it is cancelled at the server,
//! those behind it are answered, and it is sent again.
//!
//! That is right only for a request that stood alone in its implicit transaction, so that the
//! server's word that it was cancelled says that it had no effect: one that may be sent
//! [again](crate::Request::resend). Its caller hears nothing but the time. If its deadline has
//! passed, it does not come again.
//!
//! Those behind it have waited for as long as it ran. So what stood behind a request that was taken
//! away, and would be the next to hold them up, gets an eighth of the bound, and each further one half
//! of that, down to a sixty-fourth: who waits for the last of many waits for the bound and little more.
//!
//! Who holds the lock may need more than one answer. So the request is put aside for a while, and
//! what comes meanwhile or is queued goes in front of it, unless there is nobody any more who may hold
//! one. Each time it is put aside for twice as long, up to a bound. If several were put aside, they
//! come back one at a time: whoever comes meanwhile waits for one of them, and not for all in turn.
//! From the seventeenth time on, which is after about a minute, one may also run for twice as long:
//! however long it takes, it ends some day, even if others never stop to come.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Connection;
use super::state::{HeadFailure, Stage};
use super::wire::{Slot, Want};
use crate::{Holders, Outcome, Output, Protocol, Time, Token};

/// Up to so many times the pause doubles.
const PAUSES: u32 = 3;

/// So many times it runs for no longer than the first time. What runs longer holds up all others
/// that have only this connection, and most of those that are taken away wait for a lock, where more
/// time gains nothing.
const EQUAL: u32 = 16;

/// What is taken away next, when those behind it have waited for another one that was, gets this
/// fraction of the bound: it is shifted to the right by so much, and by one more each time.
const HURRY: u32 = 3;

/// By no more than so much. Each time costs the server a connection.
const HURRY_MAX: u32 = 6;

/// So often a request is sent again that a cancel hit by mistake. A server may say of a statement
/// that it was cancelled for a reason of its own, and must not be asked for ever.
pub(super) const HITS_MAX: u8 = 8;

/// How long until it is looked again whether there are holders: where a head is late while there are
/// none, and where one was put aside while there were some.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// After this part of [`Limits::yield_after`](crate::Limits::yield_after) nothing that a cancel must
/// not hit is sent behind a head, also while nobody holds a lock.
const LATE: u32 = 16;

/// Which requests have waited behind one that was taken away.
#[derive(Clone, Copy, Default)]
pub(super) struct Hurry {
    /// Those in front of this number.
    until: u64,
    /// How many of them were taken away, too.
    taken: u32,
}

/// Whether the server's answer proves that the request had no effect.
pub(super) fn is_undone(failed: &HeadFailure) -> bool {
    failed.failure.outcome == Outcome::Rejected
}

/// Whether it may be taken away once it is the head.
fn is_takeable<X>(slot: &Slot<X>) -> bool {
    let may_go = match slot.token {
        Token::DISCARD => slot.gives_way,
        _ => slot.resend,
    };
    may_go && !(slot.pinned || slot.in_order)
}

impl<P: Protocol> Connection<P> {
    /// Sets [`Limits::yield_after`](crate::Limits::yield_after) and
    /// [`Limits::wait_behind_max`](crate::Limits::wait_behind_max).
    pub fn set_yield_after(&mut self, yield_after: Duration, wait_behind_max: Duration) {
        self.limits.yield_after = yield_after;
        self.limits.wait_behind_max = wait_behind_max;
    }

    /// From now on heads are taken away only while these holders are there: nobody else who holds a
    /// lock can be waiting for those behind the head.
    pub fn yield_to(&mut self, holders: Arc<Holders>) {
        self.holders = Some(holders);
    }

    /// Reports a round trip that took this long, as the login's: no head counts as late
    /// before that.
    pub fn see_trip(&mut self, trip: Duration) {
        self.trip = self.trip.min(trip);
    }

    /// When the head is taken away from those behind it, or they are given up if it must stay;
    /// [`Time::NEVER`] while nobody waits behind it.
    #[inline]
    pub(super) fn yield_deadline(&self) -> Time {
        // It is asked several times for each request, most of which are alone.
        if self.wire.len() < 2 && !self.someone_is_queued() && self.yielded.is_empty() {
            return Time::NEVER;
        }
        match self.wire.at(0) {
            Some(slot) if self.may_yield(slot) && self.somebody_waits_behind() => {
                let doublings = slot.yields.saturating_sub(EQUAL).min(u32::BITS - 1);
                let patience = self.patience().saturating_mul(1 << doublings);
                self.head_since.after(patience).max(self.next_yield)
            }
            Some(slot)
                if !is_takeable(slot) && (self.someone_is_queued() || !self.yielded.is_empty()) =>
            {
                self.head_since.after(self.limits.wait_behind_max).max(self.next_yield)
            }
            _ => Time::NEVER,
        }
    }

    /// How long the head may hold up those behind it, if it wasn't taken away too often.
    fn patience(&self) -> Duration {
        let whole = self.limits.yield_after;
        if self.wire.front_number() >= self.hurry.until {
            return whole;
        }
        let part = whole / (1 << (HURRY + self.hurry.taken).min(HURRY_MAX));
        // Nothing that a distant server has just been sent is late yet.
        part.max(self.trip).min(whole)
    }

    /// How many requests are behind the head that was just answered, in the order in which they are
    /// on the wire or will be.
    fn waiting_behind(&self) -> u64 {
        let queued = self.healing.len() + self.queue.live() + self.group_queue.live();
        (self.wire.len() + queued) as u64
    }

    /// Whether anybody waits for a request behind the head, on the wire, or not sent yet or again.
    fn somebody_waits_behind(&self) -> bool {
        let is_awaited = |slot: &Slot<P::Expect>| slot.token != Token::DISCARD;
        let mut behind = 1..self.wire.len();
        self.someone_is_queued()
            || behind.any(|at| self.wire.at(at).is_some_and(is_awaited))
            || self.yielded.iter().any(|(slot, _)| slot.behind.is_some())
    }

    /// How often a request may be hit by mistake. Where heads are taken away, one may stand behind
    /// several that are, and each cancel may come as two signals.
    pub(super) fn hits_max(&self) -> u8 {
        if self.limits.yield_after == Duration::MAX { 1 } else { HITS_MAX }
    }

    fn may_yield(&self, slot: &Slot<P::Expect>) -> bool {
        // If a cancel was wanted, it could not be sent.
        let is_open = !matches!(slot.want, Want::No | Want::Over);
        is_takeable(slot)
            && !is_open
            && !self.wire.in_shared_sync()
            && self.head_failure.is_none()
            && self.cancelling.stage == Stage::Idle
            && !self.cancelling.astray
            && !self.is_closed()
    }

    pub(super) fn head_is_late(&mut self, now: Time) {
        if self.holders.as_ref().is_some_and(|holders| !holders.any()) {
            self.next_yield = now.after(LOOK_AGAIN);
            return;
        }
        match self.wire.at(0).is_some_and(is_takeable) {
            true => self.take_head_away(now),
            false => self.let_go(now),
        }
    }

    fn take_head_away(&mut self, now: Time) {
        // If it can't be cancelled now, it is tried again after the same time. Its answer is no trip
        // from then on.
        self.head_since = now;
        self.is_head_first = false;
        let is_awaited = self.wire.at(0).is_some_and(|slot| slot.token != Token::DISCARD);
        self.wire.want(0, if is_awaited { Want::Yield } else { Want::Gently });
        self.look_for_victim(now);
    }

    /// Gives up what stands alone and was put aside, or is not sent yet: it has no effect.
    #[cold]
    fn let_go(&mut self, now: Time) {
        self.next_yield = now.after(LOOK_AGAIN);
        for (slot, _) in self.healing.iter_mut().chain(&mut self.yielded) {
            if !slot.in_order {
                slot.deadline = slot.deadline.min(now);
            }
        }
        self.queue.hurry(now);
        self.expire(now);
        self.fill(now);
    }

    /// Whether something on the wire may have to be taken away, so that what a cancel must not hit is
    /// better not sent behind it: it could never be cancelled then. While somebody may hold a lock
    /// that is so from the first moment on, since he may be the one who awaits what is to be sent.
    /// Otherwise only a late head counts, because somebody may come to hold one. It ends with the
    /// answers to those on the wire: a late one is taken away, since what is kept back waits for it.
    #[inline]
    pub(super) fn keeps_back(&self, now: Time) -> bool {
        if self.limits.yield_after == Duration::MAX || self.wire.mid_segment {
            return false;
        }
        if self.holders.as_ref().is_some_and(|holders| holders.any()) {
            return self.wire.slots().any(is_takeable);
        }
        // A distant server makes no head late.
        let late = (self.limits.yield_after / LATE).max(self.trip);
        now.since(self.head_since) > late
            && self.wire.at(0).is_some_and(|slot| self.may_yield(slot))
    }

    /// Bytes are about to be put on the wire.
    #[inline]
    pub(super) fn begin_sending(&mut self, now: Time) {
        if self.wire.is_empty() {
            (self.head_number, self.head_since) = (self.wire.front_number(), now);
            self.is_head_first = true;
        }
        self.wire.begin(now, &mut self.last_progress);
    }

    /// To be called after each read.
    #[inline]
    pub(super) fn note_head(&mut self, now: Time) {
        let number = self.wire.front_number();
        if self.head_number != number {
            if std::mem::take(&mut self.is_head_first) {
                self.see_trip(now.since(self.head_since));
            }
            (self.head_number, self.head_since) = (number, now);
        }
    }

    /// Puts the head aside: it was cancelled so that others go on.
    pub(super) fn put_aside(&mut self, now: Time, bytes: Bytes) {
        let number = self.wire.front_number();
        let Some(mut slot) = self.wire.answered() else { return };
        slot.want = Want::No;
        let pause = self.limits.yield_after.saturating_mul(1 << slot.yields.min(PAUSES));
        slot.paused_until = now.after(pause);
        slot.yields = slot.yields.saturating_add(1);
        self.void(&mut slot);
        self.yielded.push_back((slot, bytes));
        self.next_resume = self.next_look_for_holders(now);
        self.hurry = match self.hurry {
            Hurry { until, taken } if number < until => Hurry { until, taken: taken + 1 },
            _ => Hurry { until: number + 1 + self.waiting_behind(), taken: 0 },
        };
    }

    /// When it is looked again whether there are holders, if anybody says that.
    fn next_look_for_holders(&self, now: Time) -> Time {
        if self.holders.is_some() { now.after(LOOK_AGAIN) } else { Time::NEVER }
    }

    /// The reply so far of a request that will be sent again is void.
    pub(super) fn void(&mut self, slot: &mut Slot<P::Expect>) {
        slot.joins = false;
        slot.healed = true;
        self.healed += 1;
        self.protocol.restart(&mut slot.expect);
        if slot.token != Token::DISCARD {
            self.outputs.push_back(Output::Restarted { token: slot.token });
        }
    }

    /// When the next request that was put aside is to be sent again, or may be.
    #[inline]
    pub(super) fn resume_deadline(&self) -> Time {
        let paused = self.yielded.iter().map(|(slot, _)| slot.paused_until);
        match paused.min() {
            Some(until) if until != Time::NEVER => until.min(self.next_resume),
            _ => Time::NEVER,
        }
    }

    /// Sends again what was put aside for long enough, behind what is in the queue by then. If nobody
    /// holds a lock any more, that is all of it.
    pub(super) fn resume(&mut self, now: Time) {
        let is_free = self.holders.as_ref().is_some_and(|holders| !holders.any());
        self.next_resume = self.next_look_for_holders(now);
        for (slot, _) in &mut self.yielded {
            if slot.paused_until <= now || is_free && slot.paused_until != Time::NEVER {
                slot.paused_until = Time::NEVER;
                slot.behind = Some(self.queue.next_number());
            }
        }
        self.fill(now);
    }

    /// Whether something on the wire is never taken away, and may wait for a lock: whatever is sent
    /// behind it now might wait for ever.
    fn stays_for_long(&self) -> bool {
        self.holders.as_ref().is_some_and(|holders| holders.any())
            && self.wire.slots().any(|slot| !is_takeable(slot))
    }

    /// The first of those that were put aside and whose turn has come is next, unless another one is
    /// back.
    #[inline]
    pub(super) fn return_yielded(&mut self) {
        if !self.yielded.is_empty() {
            self.return_one();
        }
    }

    #[cold]
    fn return_one(&mut self) {
        let healing = self.healing.iter().map(|(slot, _)| slot);
        let is_one_back = healing.chain(self.wire.slots()).any(|slot| slot.yields > 0);
        if is_one_back || self.stays_for_long() {
            return;
        }
        let mut is_due = |slot: &Slot<P::Expect>| {
            slot.behind.is_some_and(|number| self.queue.has_passed(number))
        };
        let Some(at) = self.yielded.iter().position(|(slot, _)| is_due(slot)) else { return };
        if let Some(mut next) = self.yielded.remove(at) {
            next.0.behind = None;
            self.healing.push_back(next);
        }
    }
}
