//! Who gets which connection, what is opened, and what is claimed.

use super::connections::State;
use super::load::Asked;
use super::waiters::{Kind, Waiter};
use super::{
    Behind, CHOOSY_MAX, Cause, Choice, ConnectionId, Expected, Life, Load, LoadOf, Output, Pool,
    Served, TextKey,
};
use crate::Time;

impl Pool {
    /// Makes all decisions that follow from what has changed.
    pub(super) fn decide(&mut self, now: Time, load_of: LoadOf<'_>) {
        if !std::mem::take(&mut self.undecided) {
            return;
        }
        if !self.is_winding_up() {
            self.serve(now, load_of);
        }
        if self.is_winding_up() {
            self.wind_up(load_of);
        }
    }

    fn serve(&mut self, now: Time, load_of: LoadOf<'_>) {
        self.timings.holders().note(self.exclusive() > 0);
        self.serve_line(now, load_of);
        self.look(now, load_of);
        self.scout(now, load_of);
        if self.is_hopeless(now) {
            self.fail_all(Cause::OpenFailed);
        }
        self.open_for(self.waiters.count(Kind::Exclusive), now);
        self.refuse_newest(now);
        self.claim(now, load_of);
        self.serve_shared(None, now, load_of);
        self.open_for(self.callers(), now);
        if self.waiters.len() == 0 && self.opening() == 0 && self.connections.serving() > 0 {
            self.backoff.satisfied();
        }
        self.announce_freed();
    }

    /// Whether nothing will serve those in line. An open pool tries again where time may mend it;
    /// its end is not put off for that.
    fn is_hopeless(&self, now: Time) -> bool {
        let gives_up = self.life != Life::Open && self.backoff.failing() && self.opening() == 0;
        self.connections.serving() == 0 && (gives_up || self.backoff.hopeless(now))
    }

    /// Serves the line from the front, until a caller gets no connection.
    fn serve_line(&mut self, now: Time, load_of: LoadOf<'_>) {
        loop {
            let exclusive = self.waiters.first_exclusive();
            self.serve_shared(exclusive, now, load_of);
            if self.waiters.first() != Some(Kind::Exclusive) {
                return;
            }
            let Some(index) = self.first_idle(now, load_of) else { return };
            self.grant(now, index);
        }
    }

    /// Serves the shared callers in front of this place in line. Quick statements overtake those
    /// that want a connection alone, unless so many callers wait that all take what there is.
    fn serve_shared(&mut self, before: Option<u64>, now: Time, load_of: LoadOf<'_>) {
        (self.wait_alone, self.wanted_alone) = (0, 0);
        self.new_texts.begin(&self.timings);
        if self.waiters.len() < CHOOSY_MAX {
            self.serve_those(|of| !of.is_unsure(), before, now, load_of);
            self.serve_those(Expected::is_unsure, before, now, load_of);
        } else {
            self.serve_those(|_| true, before, now, load_of);
        }
        self.waiters.close_gaps();
        self.next_late = match self.wait_alone {
            0 => Time::NEVER,
            _ => self.new_texts.next_late(now),
        };
        if self.waiters.count(Kind::Shared) > 0 {
            self.next_late = self.next_late.min(self.next_stuck(now, load_of));
        }
    }

    /// When the next connection will seem to wait for a lock, so that those in line may have to go
    /// there.
    fn next_stuck(&self, now: Time, load_of: LoadOf<'_>) -> Time {
        let at = |(_, load): (usize, Load)| load.late_at(&self.limits);
        let next = |times: &mut dyn Iterator<Item = Time>| times.filter(|at| *at > now).min();
        let next = match self.shared() {
            0 => next(&mut self.draining_loads(load_of).map(at)),
            _ => next(&mut self.shared_loads(None, load_of).map(at)),
        };
        next.unwrap_or(Time::NEVER)
    }

    /// The same for the callers with such expectations.
    fn serve_those(
        &mut self,
        are_meant: fn(Expected) -> bool,
        before: Option<u64>,
        now: Time,
        load_of: LoadOf<'_>,
    ) {
        let none = self.shared() == 0
            && self.stuck_drains(Expected::Unsure, now, load_of).next().is_none();
        // Who is not in line is not looked for: a long line is of few texts, mostly of one.
        let (alone, others) = self.count_those(are_meant);
        let (mut alone_stuck, mut others_stuck) = (none || alone == 0, none || others == 0);
        for at in 0..self.waiters.shared_places() {
            let Some((key, order)) = self.waiters.shared_at(at) else { continue };
            // Callers beyond the number of connections need not be counted.
            let counted =
                alone == 0 || self.wanted_alone >= self.limits.connections_max || at > CHOOSY_MAX;
            let all_stuck = alone_stuck && others_stuck && counted;
            if all_stuck || before.is_some_and(|before| order > before) {
                break;
            }
            let of = self.timings.expected(key);
            if !are_meant(of) {
                continue;
            }
            if !(if of.is_unsure() { alone_stuck } else { others_stuck }) {
                let choice = self.choice_in_line(of, now, load_of);
                // Where no connection takes more, none does for the others either.
                let is_full = choice.on.is_none();
                match choice.on.filter(|_| !self.patience().waits(&choice)) {
                    Some(index) => self.place_from(at, index, of, now),
                    None => {
                        alone_stuck |= is_full || of.is_unsure();
                        others_stuck |= is_full || !of.is_unsure();
                    }
                }
            }
            if of.is_unsure() && alone_stuck {
                let worth = self.new_texts.is_worth_one(key, now, &self.timings);
                self.wanted_alone += usize::from(worth);
            }
        }
        if alone_stuck && alone > 0 {
            self.wait_alone = self.count_those(are_meant).0;
        }
    }

    /// How many of the shared callers in line with such expectations want to be alone, and how many
    /// others there are.
    fn count_those(&self, are_meant: fn(Expected) -> bool) -> (usize, usize) {
        let count = |alone: bool| {
            self.waiters.count_texts(|key| {
                let of = self.timings.expected(key);
                of.is_unsure() == alone && are_meant(of)
            })
        };
        (count(true), count(false))
    }

    pub(super) fn choice(&self, of: Expected, now: Time, load_of: LoadOf<'_>) -> Choice<usize> {
        super::choose(now, &self.limits, of, self.shared_loads(None, load_of))
    }

    /// The same for a statement in line. If no connection takes shared work, all that are left drain
    /// or belong to one caller each. That caller may hold the lock that those on a draining one
    /// wait for, and wait for this very statement.
    fn choice_in_line(&self, of: Expected, now: Time, load_of: LoadOf<'_>) -> Choice<usize> {
        match self.shared() {
            0 => super::choose(now, &self.limits, of, self.stuck_drains(of, now, load_of)),
            _ => self.choice(of, now, load_of),
        }
    }

    /// The connections that drain and seem to wait for a lock.
    fn stuck_drains(
        &self,
        of: Expected,
        now: Time,
        load_of: LoadOf<'_>,
    ) -> impl Iterator<Item = (usize, Load)> {
        let asked = Asked::new(now, &self.limits, of);
        let is_stuck = move |(_, load): &(usize, Load)| load.is_stuck(&asked);
        self.draining_loads(load_of).filter(is_stuck)
    }

    fn draining_loads(&self, load_of: LoadOf<'_>) -> impl Iterator<Item = (usize, Load)> {
        let lists = [State::Claimed, State::Retiring].map(|state| self.connections.list(state));
        let indexes = lists.into_iter().flatten().copied();
        let indexes = indexes.filter(|index| !self.connections.slot(*index).is_left);
        indexes.map(|index| (index, self.load(index, load_of)))
    }

    /// The connection that an exclusive caller can have now.
    fn first_idle(&self, now: Time, load_of: LoadOf<'_>) -> Option<usize> {
        let choice = self.choice(Expected::Untold, now, load_of);
        choice.on.filter(|_| choice.behind == Behind::Nothing)
    }

    fn grant(&mut self, now: Time, index: usize) {
        let Some(waiter) = self.waiters.pop(Kind::Exclusive) else { return };
        self.enter(index, State::Exclusive);
        self.timings.holders().note(true);
        let slot = self.connections.slot_mut(index);
        slot.holding = false;
        let served = Served::new(waiter, Kind::Exclusive, slot.id, now);
        self.outputs.push_back(Output::Granted(served));
    }

    /// Places the shared caller at this position.
    fn place_from(&mut self, at: usize, index: usize, of: Expected, now: Time) {
        let Some(waiter) = self.waiters.take_shared(at) else { return };
        self.try_new(waiter.key, now);
        if self.connections.slot(index).state == State::Shared {
            self.announce(index);
        }
        let slot = self.connections.slot_mut(index);
        slot.promised.add(now, waiter.key, of);
        slot.holding = false;
        let served = Served::new(waiter, Kind::Shared, slot.id, now);
        self.outputs.push_back(Output::Placed(served));
    }

    /// Notes a statement that was placed, if its text is new.
    pub(super) fn try_new(&mut self, key: TextKey, now: Time) {
        let late = now.after(self.limits.slow_head.saturating_add(self.opening_time));
        self.new_texts.placed(key, now, late, &self.timings);
    }

    /// Opens connections for this many callers, as far as that is allowed now.
    fn open_for(&mut self, callers: usize, now: Time) {
        while self.wants_opening(callers) && self.may_open() && now >= self.attempt_at(callers) {
            let id = self.connections.open(now);
            self.outputs.push_back(Output::Open { id });
        }
        let full = self.connections.len() >= self.limits.connections_max;
        self.wish &= self.opening() == 0 && !full;
    }

    /// When the next attempt is planned, if one waits for the end of a pause.
    pub(super) fn next_attempt(&self) -> Time {
        let callers = self.callers();
        match self.wants_opening(callers) && self.may_open() {
            true => self.attempt_at(callers),
            false => Time::NEVER,
        }
    }

    /// When the next attempt may be made for this many callers. Where none waits there is no hurry.
    fn attempt_at(&self, callers: usize) -> Time {
        match callers > self.opening() || self.wish {
            true => self.backoff.until(),
            false => self.backoff.leisurely_until(),
        }
    }

    /// Callers in line that need a connection each; all that can share one count as one.
    fn callers(&self) -> usize {
        let together = usize::from(self.waiters.count(Kind::Shared) > self.wait_alone);
        // With no connection left, the trial of a text is over, too.
        let is_bare = self.wait_alone > 0 && self.connections.serving() == 0;
        let alone = self.wanted_alone.max(usize::from(is_bare));
        self.waiters.count(Kind::Exclusive) + alone + together
    }

    /// Whether more connections are needed than are being opened: for this many callers, for the
    /// minimum, or in the background.
    fn wants_opening(&self, callers: usize) -> bool {
        let min = if self.life == Life::Open { self.limits.connections_min } else { 0 };
        let missing = min.saturating_sub(self.connections.serving());
        callers.max(missing).max(usize::from(self.wish)) > self.opening()
    }

    fn may_open(&self) -> bool {
        let opening_max = if self.backoff.one_by_one() { 1 } else { self.limits.opening_max };
        self.connections.len() < self.limits.connections_max && self.opening() < opening_max
    }

    /// Claims shared connections for callers that want one alone (for a session or for a statement)
    /// and that no connection being opened will serve. Lifts claims only once there are more than
    /// callers that wait, so that a connection does not go back and forth.
    fn claim(&mut self, now: Time, load_of: LoadOf<'_>) {
        let sessions = self.waiters.count(Kind::Exclusive);
        let waiting = sessions + self.wanted_alone;
        // While attempts fail, the connections being opened don't count.
        let coming = if self.backoff.failing() { 0 } else { self.opening() };
        while self.claimed() + coming < waiting {
            let for_session = self.claimed() + coming < sessions;
            let index = match for_session {
                true => self.lightest(State::Shared, now, load_of),
                false => self.spare(now, load_of),
            };
            let Some(index) = index else { break };
            self.drain(index, State::Claimed);
        }
        while self.claimed() > waiting {
            let Some(index) = self.heaviest(State::Claimed, now, load_of) else { break };
            self.free(index);
        }
    }

    /// The connection with the least work among those without a slow statement, if there are at
    /// least two: one of them is left to quick statements.
    fn spare(&self, now: Time, load_of: LoadOf<'_>) -> Option<usize> {
        let mut quick: usize = 0;
        let mut best = None;
        let asked = Asked::new(now, &self.limits, Expected::Untold);
        for (index, load) in self.shared_loads(None, load_of) {
            if !load.is_slow(&asked) {
                quick += 1;
                let rank = load.rank(&asked);
                best = best.filter(|(least, _)| *least <= rank).or(Some((rank, index)));
            }
        }
        best.filter(|_| quick > 1).map(|(_, index)| index)
    }

    fn lightest(&self, state: State, now: Time, load_of: LoadOf<'_>) -> Option<usize> {
        let list = self.connections.list(state).iter().copied();
        list.min_by_key(|index| self.rank(*index, now, load_of))
    }

    fn heaviest(&self, state: State, now: Time, load_of: LoadOf<'_>) -> Option<usize> {
        let list = self.connections.list(state).iter().copied();
        list.max_by_key(|index| self.rank(*index, now, load_of))
    }

    fn rank(&self, index: usize, now: Time, load_of: LoadOf<'_>) -> super::load::Rank {
        self.load(index, load_of).rank(&Asked::new(now, &self.limits, Expected::Untold))
    }

    /// Refuses those that came last, if the line is too long. A caller for whom a connection is
    /// opened is about to leave it, so it does not count.
    fn refuse_newest(&mut self, now: Time) {
        let is_wanted = self.callers() > self.opening();
        let next = is_wanted && self.may_open() && now >= self.backoff.until();
        let leaving = self.opening() + usize::from(next);
        let cause = if self.backoff.failing() { Cause::OpenFailed } else { Cause::LineFull };
        while self.waiters.len() > self.limits.waiting_max.saturating_add(leaving) {
            let Some(Waiter { token, .. }) = self.waiters.pop_newest() else { return };
            self.outputs.push_back(Output::Failed { token, cause });
        }
    }

    fn announce_freed(&mut self) {
        while let Some(id) = self.freed.pop() {
            if let Some(index) = self.find(id, State::Shared) {
                self.announce(index);
            }
        }
    }

    /// Tells the host that a connection takes shared work, unless it was told already.
    fn announce(&mut self, index: usize) {
        let slot = self.connections.slot_mut(index);
        slot.drained = false;
        if !std::mem::replace(&mut slot.announced, true) {
            self.outputs.push_back(Output::Shared { id: slot.id });
        }
    }

    /// Winds up a closing pool in which nobody waits: idle connections are closed, the others drain.
    fn wind_up(&mut self, load_of: LoadOf<'_>) {
        while let Some(index) = self.connections.list(State::Opening).last() {
            self.close_now(*index);
        }
        while let Some(index) = self.connections.list(State::Claimed).last() {
            self.connections.enter(*index, State::Retiring);
        }
        while let Some(index) = self.connections.list(State::Shared).last().copied() {
            match self.load(index, load_of).is_idle() {
                true => self.close_now(index),
                false => self.drain(index, State::Retiring),
            }
        }
        if self.connections.len() == 0 && self.life == Life::Closing {
            self.life = Life::Closed;
            self.outputs.push_back(Output::Closed);
        }
    }

    // --- steps that others use too ---

    pub(super) fn fail_all(&mut self, cause: Cause) {
        while let Some(kind) = self.waiters.first() {
            let Some(Waiter { token, .. }) = self.waiters.pop(kind) else { return };
            self.outputs.push_back(Output::Failed { token, cause });
        }
    }

    /// The index of a connection that is in this state.
    pub(super) fn find(&self, id: ConnectionId, state: State) -> Option<usize> {
        self.connections.find(id).filter(|index| self.connections.slot(*index).state == state)
    }

    /// Makes a connection available to the next caller.
    pub(super) fn free(&mut self, index: usize) {
        self.enter(index, State::Shared);
        let slot = self.connections.slot(index);
        self.freed.push(slot.id);
        self.next_look = self.next_look.min(self.next_due(index));
    }

    /// Lets a connection take no new shared work.
    pub(super) fn drain(&mut self, index: usize, to: State) {
        self.enter(index, to);
        self.outputs.push_back(Output::Drain { id: self.connections.slot(index).id });
    }

    /// Moves a connection to another state. Only in the shared state does the host put shared work
    /// on it.
    fn enter(&mut self, index: usize, state: State) {
        self.connections.enter(index, state);
        let slot = self.connections.slot_mut(index);
        slot.announced = false;
        slot.drained = false;
    }

    pub(super) fn close_now(&mut self, index: usize) {
        let output = self.connections.close(index);
        self.outputs.push_back(output);
    }

    /// The load of a connection, with the statements that the host does not know of yet.
    pub(super) fn load(&self, index: usize, load_of: LoadOf<'_>) -> Load {
        let slot = self.connections.slot(index);
        let told = load_of(slot.id);
        let load = match slot.drained {
            true => Load { since: told.since, room: told.room, ..Load::default() },
            false => told,
        };
        let since = if load.is_idle() { load.since.max(slot.since) } else { load.since };
        slot.promised.on(Load { since, ..load })
    }

    /// The loads of the connections with shared work, except for one.
    pub(super) fn shared_loads(
        &self,
        except: Option<usize>,
        load_of: LoadOf<'_>,
    ) -> impl Iterator<Item = (usize, Load)> {
        let shared = self.connections.list(State::Shared).iter().copied();
        let others = shared.filter(move |index| Some(*index) != except);
        others.map(|index| (index, self.load(index, load_of)))
    }
}
