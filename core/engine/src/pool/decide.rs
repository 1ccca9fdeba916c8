//! Who gets which connection, what is opened, and what is claimed.

use super::connections::State;
use super::waiters::{Kind, Waiter};
use super::{Cause, ConnectionId, Life, Load, LoadOf, Output, Pool};
use crate::Time;

impl Pool {
    /// Does all that follows from what has changed.
    pub(super) fn decide(&mut self, now: Time, load_of: LoadOf<'_>) {
        if !std::mem::take(&mut self.undecided) {
            return;
        }
        if self.life != Life::Open {
            return self.wind_up(load_of);
        }
        self.serve_line(now, load_of);
        self.look(now, load_of);
        if self.backoff.hopeless(now) && self.connections.serving() == 0 {
            self.fail_all(Cause::OpenFailed);
        }
        self.open_for(self.waiters.count(Kind::Exclusive), now);
        self.refuse_newest();
        self.claim(now, load_of);
        self.serve_shared(now, load_of);
        self.open_for(self.callers(), now);
        self.announce_freed();
    }

    /// Serves the line from the front, as far as that goes.
    fn serve_line(&mut self, now: Time, load_of: LoadOf<'_>) {
        while let Some(kind) = self.waiters.first() {
            let Some(index) = self.best_for(kind, now, load_of) else { return };
            match kind {
                Kind::Exclusive => self.grant(now, index),
                Kind::Shared => {
                    let room = self.load(index, load_of).room.max(1);
                    self.place_while(now, index, room, |pool| {
                        pool.waiters.first() == Some(Kind::Shared)
                    });
                }
            }
        }
    }

    /// Serves the shared callers behind exclusive ones, if a connection takes shared work that none
    /// of those needs.
    fn serve_shared(&mut self, now: Time, load_of: LoadOf<'_>) {
        while self.waiters.count(Kind::Shared) > 0 {
            let Some(index) = self.best_for(Kind::Shared, now, load_of) else { return };
            let room = self.load(index, load_of).room.max(1);
            self.place_while(now, index, room, |_| true);
        }
    }

    /// The connection that a caller of this kind can have now.
    fn best_for(&self, kind: Kind, now: Time, load_of: LoadOf<'_>) -> Option<usize> {
        let choice = super::choose(now, &self.limits, self.shared_loads(load_of));
        match kind {
            Kind::Exclusive if choice.helps => None,
            Kind::Shared if self.waits_for_another(choice.head_age) => None,
            _ => choice.on,
        }
    }

    fn grant(&mut self, now: Time, index: usize) {
        let Some(Waiter { token, since, .. }) = self.waiters.pop(Kind::Exclusive) else { return };
        self.enter(index, State::Exclusive);
        let slot = self.connections.slot_mut(index);
        slot.holding = false;
        let waited = now.since(since);
        self.outputs.push_back(Output::Granted { token, id: slot.id, waited });
    }

    /// Places up to `room` shared callers on one connection, while `next` allows it.
    fn place_while(
        &mut self,
        now: Time,
        index: usize,
        room: usize,
        next: impl Fn(&mut Pool) -> bool,
    ) {
        self.announce(index);
        let id = self.connections.slot(index).id;
        for _ in 0..room {
            if !next(self) {
                return;
            }
            let Some(Waiter { token, since, .. }) = self.waiters.pop(Kind::Shared) else { return };
            let slot = self.connections.slot_mut(index);
            slot.promised += 1;
            slot.promised_at = now;
            slot.holding = false;
            self.outputs.push_back(Output::Placed { token, id, waited: now.since(since) });
        }
    }

    /// Asks for connections for so many callers, as far as they may be opened now.
    fn open_for(&mut self, callers: usize, now: Time) {
        while self.wants_opening(callers) && self.may_open() && now >= self.backoff.until() {
            let id = self.connections.open(now);
            self.outputs.push_back(Output::Open { id });
        }
        let full = self.connections.len() >= self.limits.connections_max;
        self.wish &= self.opening() == 0 && !full;
    }

    /// When the next attempt is planned, if one waits for the end of a pause.
    pub(super) fn next_attempt(&self) -> Time {
        match self.wants_opening(self.callers()) && self.may_open() {
            true => self.backoff.until(),
            false => Time::NEVER,
        }
    }

    /// Callers in line, the shared ones counted as one: they can share a connection.
    fn callers(&self) -> usize {
        let shared = usize::from(self.waiters.count(Kind::Shared) > 0);
        self.waiters.count(Kind::Exclusive) + shared
    }

    /// Whether more connections are needed than are being opened, for so many callers, for the
    /// minimum or in the background.
    fn wants_opening(&self, callers: usize) -> bool {
        let missing = self.limits.connections_min.saturating_sub(self.connections.serving());
        callers.max(missing).max(usize::from(self.wish)) > self.opening()
    }

    fn may_open(&self) -> bool {
        // After a failure one attempt shows whether it is worth while again.
        let opening_max = if self.backoff.failing() { 1 } else { self.limits.opening_max };
        self.connections.len() < self.limits.connections_max && self.opening() < opening_max
    }

    /// Claims shared connections for exclusive callers that no opening will serve, and lifts claims
    /// that nobody needs any more. Between the two numbers they stand, so that a connection does
    /// not go back and forth.
    fn claim(&mut self, now: Time, load_of: LoadOf<'_>) {
        let waiting = self.waiters.count(Kind::Exclusive);
        // An attempt is not counted on while the last one failed.
        let coming = if self.backoff.failing() { 0 } else { self.opening() };
        while self.claimed() + coming < waiting {
            let Some(index) = self.lightest(State::Shared, now, load_of) else { break };
            self.drain(index, State::Claimed);
        }
        while self.claimed() > waiting {
            let Some(index) = self.heaviest(State::Claimed, now, load_of) else { break };
            self.free(index);
        }
    }

    fn lightest(&self, state: State, now: Time, load_of: LoadOf<'_>) -> Option<usize> {
        let list = self.connections.list(state).iter().copied();
        list.min_by_key(|index| self.load(*index, load_of).rank(now, &self.limits))
    }

    fn heaviest(&self, state: State, now: Time, load_of: LoadOf<'_>) -> Option<usize> {
        let list = self.connections.list(state).iter().copied();
        list.max_by_key(|index| self.load(*index, load_of).rank(now, &self.limits))
    }

    fn refuse_newest(&mut self) {
        while self.waiters.len() > self.limits.waiting_max {
            let Some(waiter) = self.waiters.pop_newest() else { return };
            let cause = Cause::LineFull;
            self.outputs.push_back(Output::Failed { token: waiter.token, cause });
        }
    }

    fn announce_freed(&mut self) {
        while let Some(id) = self.freed.pop() {
            if let Some(index) = self.find(id, State::Shared) {
                self.announce(index);
            }
        }
    }

    /// Tells the host that a connection takes shared work, unless it knows.
    fn announce(&mut self, index: usize) {
        let slot = self.connections.slot_mut(index);
        slot.drained = false;
        if !std::mem::replace(&mut slot.announced, true) {
            self.outputs.push_back(Output::Shared { id: slot.id });
        }
    }

    /// A closing pool: what is idle is closed, what is not drains.
    fn wind_up(&mut self, load_of: LoadOf<'_>) {
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

    /// Makes a connection available to whoever is next.
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

    /// Moves a connection to another state. In none but shared the host puts shared work on it.
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
        let unanswered = if slot.drained { 0 } else { told.unanswered };
        let load = Load { unanswered, ..told }.with_promised(slot.promised);
        match (unanswered, slot.promised) {
            (0, 0) => Load { since: load.since.max(slot.since), ..load },
            (0, _) => Load { since: slot.promised_at, ..load },
            _ => load,
        }
    }

    pub(super) fn shared_loads(&self, load_of: LoadOf<'_>) -> impl Iterator<Item = (usize, Load)> {
        let shared = self.connections.list(State::Shared).iter();
        shared.map(|index| (*index, self.load(*index, load_of)))
    }
}
