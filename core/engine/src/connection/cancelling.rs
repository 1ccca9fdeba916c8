//! Cancelling at the server, without harm to other requests.
//!
//! A cancel hits whatever the server runs when it arrives. So the *victim* is cancelled only when
//! its reply is due and a hit on any request behind it does no harm: such a request is sent again,
//! once (where heads are [taken away](super::yielding), a few times), if the server says that it was
//! cancelled. On a connection of one caller nothing is sent again, and nothing more is put behind
//! the victim.
//!
//! From the moment at which the cancel is sent nothing goes onto the wire (the *hold*), until the
//! victim was answered and the cancel has ended. A request sent after both can't be hit. If the
//! rules above don't allow a cancel, the victim runs on, and its reply is drained. A shared-Sync
//! group is one victim: it is cancelled only when every caller that still waits for one of its
//! requests wants that.
//!
//! A server forgets a cancel that comes before the request has begun (PostgresMain in
//! src/backend/tcop/postgres.c, where it reads the next command). So a victim that still runs is
//! cancelled again, up to twice: 100 ms later, and 1 s after that.

use bytes::BytesMut;

use super::Connection;
use super::state::{CancelEnd, Cancelling, HeadFailure, NOT_SENT_AGAIN, Sent, Stage, Wanted};
use super::wire::{Slot, Want};
use crate::{
    Cause, CloseReason, Group, Outcome, Output, Protocol, Request, SyncPoint, Time, Token,
};

/// Whether the request at the head may be cancelled.
enum Verdict {
    Now {
        end: usize,
    },
    /// Not yet, or no cancel is wanted.
    Later,
    Never {
        victim: usize,
    },
}

impl<P: Protocol> Connection<P> {
    // --- getters ---

    /// Whether no request may be sent, because a cancel was sent or will be.
    #[inline]
    pub fn is_held(&self) -> bool {
        match self.cancelling.stage {
            Stage::Idle => false,
            Stage::Preparing { held, .. } => held,
            Stage::Sent(_) | Stage::PreparingAgain(_) => true,
        }
    }

    /// Whether a cancel whose end is unknown may still arrive ([`Output::Astray`]).
    pub fn is_astray(&self) -> bool {
        self.cancelling.astray
    }

    // --- commands ---

    /// Wants a request cancelled, sent or not; [`cancel`](Self::cancel) is for requests that were
    /// not sent.
    ///
    /// A request that waits to be sent again is taken back. So is a segment that is named by its sync
    /// point, as far as it was not sent; what was sent of it is undone, by a request that fails in
    /// place of the rest, and the server is asked to stop what it runs of it. For a request in flight or a
    /// [`pinned`](crate::Request::pinned) one, [`Output::Cancel`] comes when its reply is due, if
    /// every request behind it may be sent again.
    pub fn want_cancel(&mut self, now: Time, token: Token) -> Wanted {
        let on_wire = self.wire.slots().position(|slot| slot.token == token);
        if let Some(at) = on_wire {
            let is_possible = self.may_want(at) && !self.has_company(at);
            return if is_possible {
                self.want(now, at, Want::Gently)
            } else {
                Wanted::NotPossible
            };
        }
        let waits = |(slot, _): &(Slot<P::Expect>, bytes::Bytes)| slot.token == token;
        let lists = [&mut self.healing, &mut self.yielded];
        let found = lists.into_iter().find_map(|list| {
            let at = list.iter().position(waits)?;
            list.remove(at)
        });
        if found.is_some() {
            self.end(token, bytes::Bytes::new(), crate::End::Failed(NOT_SENT_AGAIN));
            self.fill(now);
            return Wanted::TakenBack;
        }
        if let Some(wanted) = self.give_up_segment(now, token) {
            return wanted;
        }
        match self.queue.find(token) {
            Some(slot) if shares_sync_point(slot) => Wanted::NotPossible,
            Some(slot) => {
                slot.want = Want::Gently;
                Wanted::Noted(token)
            }
            None if self.group_queue.find(token).is_some() => Wanted::NotPossible,
            None => Wanted::Unknown,
        }
    }

    /// The same for requests whose callers give them up together: none of them stands in the way of
    /// another.
    pub fn want_cancel_all(&mut self, now: Time, tokens: &[Token]) -> Vec<(Token, Wanted)> {
        // All are noted before one is judged: the head by what is behind it, and what shares a sync
        // point by those that it shares it with.
        let is_sent = |it: &Self, token| it.wire.slots().any(|slot| slot.token == token);
        let unsent: Vec<_> = tokens.iter().copied().filter(|it| !is_sent(self, *it)).collect();
        let mut all: Vec<_> = unsent.iter().map(|it| (*it, self.want_cancel(now, *it))).collect();
        let is_one =
            |token| token != Token::DISCARD && tokens.contains(&token) && !unsent.contains(&token);
        let sent = self.wire.slots().map(|slot| slot.token).enumerate();
        let sent: Vec<_> = sent.filter(|(_, token)| is_one(*token)).collect();
        let mut before = Vec::new();
        for (at, _) in sent.iter().filter(|(at, _)| self.may_want(*at)) {
            before.extend(self.wire.at(*at).map(|slot| (*at, slot.want)));
        }
        for (at, _) in &before {
            self.wire.want(*at, Want::Gently);
        }
        // Whose neighbour is still waited for, waits on with him.
        let (noted, stay): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|(at, _)| !self.has_company(*at));
        for (at, want) in stay {
            self.wire.want(at, want);
        }
        all.extend(sent.into_iter().map(|(at, token)| {
            let is_noted = noted.iter().any(|(one, _)| *one == at);
            (token, if is_noted { Wanted::Noted(token) } else { Wanted::NotPossible })
        }));
        self.look_for_victim(now);
        all
    }

    /// Wants the segment of this group cancelled that the server runs, or runs next. Not for a
    /// group that begins a transaction: the cancel may hit the transaction's end, and other
    /// statements would then run inside it.
    pub fn want_cancel_group(&mut self, now: Time, group: Group) -> Wanted {
        let first = self.wire.slots().position(|slot| slot.group == Some(group));
        match first {
            Some(first) => self.want_segment(now, first, Want::Gently),
            None => Wanted::Unknown,
        }
    }

    /// Wants the first request for which `is_victim` is true cancelled, with its segment, whatever
    /// is behind it. For a connection that belongs to one caller: a request that is hit instead
    /// fails.
    pub fn want_cancel_first(
        &mut self,
        now: Time,
        mut is_victim: impl FnMut(Token) -> bool,
    ) -> Wanted {
        let first = self.wire.slots().position(|slot| !slot.own && is_victim(slot.token));
        match first {
            Some(first) => self.want_segment(now, first, Want::Anyway),
            None => Wanted::Unknown,
        }
    }

    /// The host is ready to send the cancel that [`Output::Cancel`] asked for. If the answer is
    /// true, the host sends it to the last byte, and reports its end with
    /// [`handle_cancel_end`](Self::handle_cancel_end). If it is false, the host sends nothing and
    /// reports no end: there is nothing to cancel any more, or a request behind the victim must not
    /// be hit.
    pub fn begin_cancel(&mut self, now: Time) -> bool {
        match self.cancelling.stage {
            Stage::Preparing { .. } => {}
            Stage::PreparingAgain(sent) => {
                self.cancelling.stage = Stage::Sent(Sent { since: now, closed: false, ..sent });
                return true;
            }
            Stage::Idle | Stage::Sent(_) => return false,
        }
        self.cancelling.stage = Stage::Idle;
        let Verdict::Now { end } = self.verdict() else {
            self.fill(now);
            return false;
        };
        (0..=end).for_each(|at| self.stop_wanting(at));
        let victim = self.wire.front_number() + end as u64;
        self.cancelling.stage = Stage::Sent(Sent { victim, since: now, closed: false, repeats: 0 });
        true
    }

    // --- what happened ---

    /// The cancel that [`Output::Cancel`] asked for has ended, or will not be sent.
    pub fn handle_cancel_end(&mut self, now: Time, end: CancelEnd) {
        match (self.cancelling.stage, end) {
            (Stage::Idle, _) => return,
            (Stage::Sent(sent), CancelEnd::Closed) => {
                self.cancelling.stage = Stage::Sent(Sent { since: now, closed: true, ..sent });
            }
            // The cancel sent before was carried out.
            (Stage::PreparingAgain(sent), _) => {
                self.cancelling.stage = Stage::Sent(Sent { since: now, ..sent });
            }
            (Stage::Sent(_), CancelEnd::Lost) => {
                self.cancelling.stage = Stage::Idle;
                self.cancelling.astray = true;
                self.outputs.push_back(Output::Astray);
            }
            (stage, _) => {
                let sent = matches!(stage, Stage::Sent(_));
                self.cancelling.stage = Stage::Idle;
                self.give_up(sent);
            }
        }
        self.fill(now);
    }

    // --- private ---

    /// See [`want_cancel`](Self::want_cancel). `None` if the end of that segment does not wait, or
    /// nothing may go in its place.
    fn give_up_segment(&mut self, now: Time, token: Token) -> Option<Wanted> {
        if self.is_held() || self.feeding.is_some() {
            return None;
        }
        let mut failing = BytesMut::new();
        let expect = self.protocol.write_failing(&mut failing)?;
        let mid_segment = self.wire.mid_segment && self.sender.is_none();
        let mut left = Vec::new();
        let is_partly_sent = self.queue.give_up_segment(token, mid_segment, |it| left.push(it))?;
        let cause = if is_partly_sent { Cause::Aborted } else { Cause::Cancelled };
        left.into_iter().for_each(|token| self.fail(token, Outcome::NotSent, cause));
        if !is_partly_sent {
            self.fill(now);
            return Some(Wanted::TakenBack);
        }
        if !self.wire.make_room(failing.len() + self.protocol.begin_len()) {
            self.close(CloseReason::NoMemory);
            return Some(Wanted::NotPossible);
        }
        let request =
            Request { sync: SyncPoint::Member, ..Request::isolated(Token::DISCARD, expect) };
        let Ok(()) = self.send_now(now, request, |out| {
            out.extend_from_slice(&failing);
            Ok::<(), std::convert::Infallible>(())
        });
        // Its sync point goes with it, even if the window is closed: it is a few bytes, and the
        // server is to hear that this is the end.
        self.send_next(now);
        let end = self.wire.slots().position(|slot| slot.token == token)?;
        Some(self.want(now, end, Want::Gently))
    }

    /// Whether a request on the wire can be cancelled by itself, or with those that joined it.
    fn may_want(&self, at: usize) -> bool {
        self.wire.at(at).is_some_and(|slot| !shares_sync_point(slot))
    }

    fn want_segment(&mut self, now: Time, first: usize, want: Want) -> Wanted {
        match self.wire.segment_end(first) {
            Some(end) => self.want(now, end, want),
            None => Wanted::NotPossible,
        }
    }

    fn want(&mut self, now: Time, at: usize, want: Want) -> Wanted {
        let token = self.wire.want(at, want);
        self.look_for_victim(now);
        Wanted::Noted(token)
    }

    /// Asks the host for a cancel if the request at the head must be cancelled and that is safe.
    #[inline]
    pub(super) fn look_for_victim(&mut self, now: Time) {
        if self.wire.wanted() > 0 && self.cancelling.stage == Stage::Idle {
            self.judge_head(now);
        }
    }

    fn judge_head(&mut self, now: Time) {
        match self.verdict() {
            Verdict::Now { end } => {
                let of_one_caller = |slot: &Slot<P::Expect>| {
                    slot.pinned || slot.in_order || slot.want == Want::Anyway
                };
                let held = self.wire.slots().take(end + 1).any(of_one_caller);
                self.cancelling.stage = Stage::Preparing { since: now, held };
                self.outputs.push_back(Output::Cancel);
            }
            Verdict::Never { victim } => {
                self.not_cancelled(victim);
            }
            Verdict::Later => {}
        }
    }

    /// Tells the caller of the request at this place that it is not cancelled, unless it has ended
    /// for its caller.
    fn not_cancelled(&mut self, at: usize) {
        let yields = self.wire.at(at).is_some_and(|slot| !slot.want.is_of_caller());
        if yields {
            // Nobody asked for it, and it may be tried again later.
            self.wire.want(at, Want::No);
            return;
        }
        let token = self.wire.want(at, Want::Over);
        if token != Token::DISCARD {
            self.outputs.push_back(Output::NotCancelled { token });
        }
    }

    fn verdict(&self) -> Verdict {
        let Some(end) = self.wire.segment_end(0) else { return Verdict::Later };
        let mut segment = self.wire.slots().take(end + 1);
        let Some(victim) = segment.position(|slot| slot.want.is_open()) else {
            return Verdict::Later;
        };
        let failed = self.head_failure.is_some() || self.shared_sync_failure.is_some();
        let Some(slot) = self.wire.at(victim) else { return Verdict::Later };
        // The server runs the first member of a segment while the last ones are on their way.
        let begun = if slot.group.is_none() && !slot.joins { 0 } else { end };
        if failed || !self.wire.is_written_to(begun) || self.has_company(victim) {
            return Verdict::Later;
        }
        // A member in front of it may begin a transaction. If that were hit, the requests behind it
        // would run outside the transaction, if anybody wants them.
        let alone = (end + 1..self.wire.len()).all(|at| self.is_unwanted(at));
        let safe = match (slot.want, slot.group) {
            _ if self.cancelling.astray => false,
            (_, None) if end > 0 && !slot.joins => alone,
            (Want::Anyway, _) => true,
            (_, group) => self.may_be_hit_behind(end, group),
        };
        if safe { Verdict::Now { end } } else { Verdict::Never { victim } }
    }

    /// Whether this request shares its sync point with others of a shared-Sync group that somebody
    /// still waits for. A cancel that hits one request of such a group undoes all.
    fn has_company(&self, at: usize) -> bool {
        let (first, last) = self.wire.shared_sync_of(at);
        let is_awaited =
            |other| self.wire.at(other).is_some_and(|it| it.is_awaited() && !it.want.is_open());
        (first..=last).any(|other| other != at && is_awaited(other))
    }

    /// Whether a cancel can hit any request behind this place on the wire without harm.
    fn may_be_hit_behind(&self, end: usize, group: Option<Group>) -> bool {
        let last = self.wire.len() - 1;
        self.wire.slots().enumerate().skip(end + 1).all(|(at, slot)| {
            let of_group = group.is_some() && slot.group == group;
            of_group || is_harmless(slot, at == last, self.hits_max()) || self.is_unwanted(at)
        })
    }

    /// Whether the caller of the request at this place wants it cancelled, with its segment.
    fn is_unwanted(&self, at: usize) -> bool {
        let end = self.wire.segment_end(at).and_then(|end| self.wire.at(end));
        end.is_some_and(|slot| slot.want.is_of_caller())
    }

    fn stop_wanting(&mut self, at: usize) {
        match self.wire.at(at).map(|slot| slot.want) {
            Some(Want::Yield) => _ = self.wire.want(at, Want::Yielding),
            Some(want) if want.is_open() => _ = self.wire.want(at, Want::Over),
            _ => {}
        }
    }

    /// No cancel is sent. `tried`: the wish already counted as fulfilled.
    fn give_up(&mut self, tried: bool) {
        let Some(end) = self.wire.segment_end(0) else { return };
        let wanted = |slot: &Slot<P::Expect>| slot.want.is_open() || tried && slot.want != Want::No;
        let victim = self.wire.slots().take(end + 1).position(wanted);
        if let Some(at) = victim {
            self.not_cancelled(at);
        }
    }

    /// Lets requests go onto the wire again, once the victim was answered and the cancel has ended.
    #[inline]
    pub(super) fn end_hold(&mut self, now: Time) {
        let (Stage::Sent(sent) | Stage::PreparingAgain(sent)) = self.cancelling.stage else {
            return;
        };
        if sent.closed && self.wire.front_number() > sent.victim {
            // Who was asked to send it again answers to that, and is not asked twice meanwhile.
            self.cancelling.stage = match self.cancelling.stage {
                Stage::PreparingAgain(_) => Stage::Preparing { since: sent.since, held: false },
                _ => Stage::Idle,
            };
            self.cancelling.reached = self.wire.front_number() + self.wire.len() as u64;
            self.cancelling.reaches_until = now.after(self.limits.cancel_grace);
        }
    }

    /// When a cancel that has not ended is given up, or the next one is due.
    #[inline]
    pub(super) fn cancel_deadline(&self) -> Time {
        match self.cancelling.stage {
            Stage::Sent(sent) if sent.closed => sent.again_at(),
            Stage::Sent(Sent { since, .. })
            | Stage::PreparingAgain(Sent { since, .. })
            | Stage::Preparing { since, held: true } => since.after(self.limits.cancel_wait_max),
            _ => Time::NEVER,
        }
    }

    /// The moment of [`cancel_deadline`](Self::cancel_deadline) came.
    pub(super) fn cancel_is_late(&mut self, now: Time) {
        match self.cancelling.stage {
            Stage::Sent(sent) if sent.closed => {
                let sent = Sent { since: now, repeats: sent.repeats + 1, ..sent };
                self.cancelling.stage = Stage::PreparingAgain(sent);
                self.outputs.push_back(Output::Cancel);
            }
            _ => self.handle_cancel_end(now, CancelEnd::Lost),
        }
    }

    /// Whether the request at the head was hit by a cancel that was not meant for it.
    pub(super) fn is_head_hit(&self, failed: &HeadFailure) -> bool {
        let number = self.wire.front_number();
        self.wire.front().is_some_and(|slot| self.is_hit(failed, slot, number))
    }

    /// Whether the request with this number was hit by a cancel that was not meant for it, and is
    /// to be sent again.
    pub(super) fn is_hit(&self, failed: &HeadFailure, slot: &Slot<P::Expect>, number: u64) -> bool {
        let Cancelling { reached, reaches_until, astray, .. } = self.cancelling;
        let in_reach = matches!(self.cancelling.stage, Stage::Sent(_) | Stage::PreparingAgain(_))
            || number < reached
            // The bytes were read just now, while the last cancel still counted as on its way.
            || self.last_progress < reaches_until
            || astray;
        let undone = failed.failure.outcome == Outcome::Rejected;
        let comes_again = slot.resend && slot.hits < self.hits_max();
        // That it was to be taken away from those behind it is nothing that its caller has asked for.
        let unwanted = !slot.want.is_of_caller();
        failed.cancelled && comes_again && unwanted && undone && in_reach
    }
}

fn shares_sync_point<X>(slot: &Slot<X>) -> bool {
    slot.sync == SyncPoint::Member || slot.group.is_some()
}

/// Whether a cancel may hit this request in place of the one in front of it.
fn is_harmless<X>(slot: &Slot<X>, is_last: bool, hits_max: u8) -> bool {
    // A request that keeps its place in the order can't be sent again behind others.
    let comes_again = slot.resend && slot.hits < hits_max && (is_last || !slot.in_order);
    let nobody_waits = slot.expired && !slot.pinned;
    let alone = slot.sync == SyncPoint::Own && slot.group.is_none();
    alone && (comes_again || nobody_waits)
}
