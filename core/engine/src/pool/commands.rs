//! The commands of callers and hosts: to place, wait, give up, release, retire and close.

use super::connections::State;
use super::waiters::{Kind, Ticket};
use super::{
    CHOOSY_MAX, Cause, Condition, ConnectionId, Hedge, Life, Load, Output, Pool, Requeue, Served,
    TextKey,
};
use crate::{Time, Token};

impl Pool {
    /// The connection for one shared statement: see [`choose`](super::choose). From then on the
    /// host counts the statement in the load of that connection; nothing has to be returned. If one
    /// more connection would help, it is opened in the background, one at a time.
    ///
    /// `None` if no connection can take it, if it is better to [wait](super::Patience) for another,
    /// or if other callers wait already: the statement then waits with
    /// [`wait_shared`](Self::wait_shared).
    pub fn place(
        &mut self,
        now: Time,
        key: TextKey,
        mut load_of: impl FnMut(ConnectionId) -> Load,
    ) -> Option<ConnectionId> {
        self.decide(now, &mut load_of);
        let of = self.timings.expected(key);
        let overtakes = match of.is_unsure() {
            true => self.waiters.count(Kind::Shared),
            false => self.waiters.count(Kind::Shared).saturating_sub(self.wait_alone),
        };
        if self.life != Life::Open || overtakes > 0 {
            return None;
        }
        let choice = self.choice(of, now, &mut load_of);
        if choice.helps {
            self.grow();
        }
        if self.patience().waits(&choice) {
            return None;
        }
        let slot = self.connections.slot_mut(choice.on?);
        slot.holding = false;
        let id = slot.id;
        self.try_new(key, now);
        Some(id)
    }

    /// Whether to hedge a read of this text that is unanswered on the connection `first`: see
    /// [`Hedges`](super::Hedges). The host counts the second statement in the load of its
    /// connection, like one that was placed.
    pub fn hedge(
        &mut self,
        now: Time,
        key: TextKey,
        first: ConnectionId,
        mut load_of: impl FnMut(ConnectionId) -> Load,
    ) -> Hedge<ConnectionId> {
        self.decide(now, &mut load_of);
        let Some(first) = self.find(first, State::Shared) else { return Hedge::At(Time::NEVER) };
        if self.life != Life::Open || self.waiting_in_order() > 0 {
            return Hedge::At(now.after(self.limits.slow_head));
        }
        let of = self.timings.learned(key);
        let load = self.load(first, &mut load_of);
        let others = self.shared_loads(Some(first), &mut load_of);
        match self.hedges.judge(now, &self.limits, of, load, others) {
            Hedge::On(index) => Hedge::On(self.connections.slot(index).id),
            Hedge::At(at) => Hedge::At(at),
        }
    }

    /// Asks for a connection for one caller, which [`Output::Granted`]
    /// brings: at once if one is idle and no caller waits, else when the caller's turn comes.
    ///
    /// `deadline` is the moment after which the caller no longer waits, kept to the millisecond;
    /// `None` for [`Limits::wait_timeout`](super::Limits::wait_timeout) from now. With `now` it
    /// does not wait at all.
    pub fn checkout(&mut self, now: Time, token: Token, deadline: Option<Time>) -> Ticket {
        self.wait(Kind::Exclusive, TextKey::UNTOLD, now, token, deadline)
    }

    /// Puts a shared statement in line for which [`place`](Self::place) found no connection.
    /// [`Output::Placed`] says where it goes. `deadline` is as in
    /// [`checkout`](Self::checkout).
    pub fn wait_shared(
        &mut self,
        now: Time,
        token: Token,
        key: TextKey,
        deadline: Option<Time>,
    ) -> Ticket {
        self.wait(Kind::Shared, key, now, token, deadline)
    }

    /// Until when a shared statement may wait in line whose connection ended before any byte of it
    /// was sent; `None` if it has failed, as once the pool is [closed](Self::close). `requeue`: how
    /// often it was so before; `None` for the first time. `deadline`: its own;
    /// [`Time::NEVER`] for [`Limits::wait_timeout`](super::Limits::wait_timeout) from the first
    /// time on.
    pub fn requeue(
        &self,
        now: Time,
        deadline: Time,
        requeue: &mut Option<Box<Requeue>>,
    ) -> Option<Time> {
        if self.life != Life::Open {
            return None;
        }
        let new = || Box::new(Requeue::new(now, deadline, self.limits.wait_timeout));
        requeue.get_or_insert_with(new).next(now)
    }

    /// The connection that a caller was given takes nothing from it: it has ended (`is_over`), or is
    /// about to be left, and the pool did not know. The caller gets in line again, behind those who
    /// wait, within the time that it had. Several that were given the same connection come one after
    /// the other, so they keep their order.
    pub fn again(&mut self, now: Time, served: Served, is_over: bool) -> Ticket {
        let Served { token, id, kind, key, deadline, .. } = served;
        match is_over {
            true => self.handle_lost(now, id),
            false => self.retire(id),
        }
        self.wait(kind, key, now, token, Some(deadline))
    }

    /// A caller stops waiting. True if it was still in line: no output follows for it. False if its
    /// output is pending or was taken already: a connection that it is
    /// [`Granted`](super::Output::Granted) must then be released.
    pub fn give_up(&mut self, ticket: Ticket) -> bool {
        self.undecided = true;
        self.waiters.remove(ticket)
    }

    /// The user of an exclusive connection returns it. `since` is when the user was done: now,
    /// unless the host kept the connection for a while. Replies to the user may still be
    /// outstanding; the connection is idle only after them.
    ///
    /// A connection past its lifetime is closed when it has drained. Ignored unless the connection
    /// was granted, and neither released nor lost since. A second release by the same user is not
    /// noticed if the next user has the connection by then: the host must not make it.
    pub fn release(&mut self, since: Time, id: ConnectionId, condition: Condition) {
        let Some(index) = self.find(id, State::Exclusive) else { return };
        self.undecided = true;
        let slot = self.connections.slot_mut(index);
        slot.since = since;
        slot.holding = condition == Condition::DirtyHolding;
        if condition == Condition::Broken {
            self.connections.leave(index);
        } else if since >= slot.expires || self.is_winding_up() {
            self.drain(index, State::Retiring);
        } else {
            self.free(index);
        }
    }

    /// Retires a connection, because its session was changed or its server goes away: it gets no
    /// new work, and is closed when it has drained or its user has released it. Another one is
    /// opened if needed.
    pub fn retire(&mut self, id: ConnectionId) {
        let Some(index) = self.connections.find(id) else { return };
        self.undecided = true;
        let slot = self.connections.slot_mut(index);
        slot.is_left = true;
        match slot.state {
            State::Shared => self.drain(index, State::Retiring),
            State::Claimed => self.connections.enter(index, State::Retiring),
            State::Opening | State::Exclusive => slot.expires = Time::ZERO,
            State::Gone | State::Retiring => {}
        }
    }

    /// Opens one more connection in the background if there is room and none is being opened. After
    /// a failed attempt it waits for the end of the pause.
    pub fn grow(&mut self) {
        if self.can_grow() {
            self.wish = true;
            self.undecided = true;
        }
    }

    /// Its server is a node of a cluster: nobody waits for it once it can't be reached, since another
    /// one may have taken over.
    pub fn serves_node(&mut self) {
        self.is_node = true;
    }

    /// Somebody opens the client by its first connection. Until there is one, he is told of the first
    /// failure that does not look as if it would pass; later callers wait, since there was a server.
    pub fn connects(&mut self) {
        self.is_new = true;
    }

    /// Ends the pool: callers that come from now on fail. Those in line, of both kinds, are served
    /// as before, each until its deadline, and connections are opened for them. If none is left that
    /// could serve them and the last attempt to open one failed, they fail with
    /// [`Cause::OpenFailed`]: there are no further attempts.
    ///
    /// When nobody is in line, openings are given up; idle connections are closed, others when they
    /// have drained or are released. [`Output::Closed`] comes when none is
    /// left.
    pub fn close(&mut self) {
        if self.life == Life::Open {
            self.life = Life::Closing;
            self.wish = false;
            self.undecided = true;
        }
    }

    /// Ends the pool as [`close`](Self::close) does, but callers in line fail. For a host whose time
    /// to close is over: it ends the connections that are left by itself, and reports them as lost.
    pub fn cut(&mut self) {
        self.close();
        self.undecided = true;
        self.fail_all(Cause::Closed);
    }

    /// Whether a shared caller that comes now changes nothing: it waits to be alone, behind others
    /// that do, and is worth no connection beyond theirs. A flood of a thousand statements of one
    /// text would otherwise have the line looked through a thousand times.
    fn stands_behind(&mut self, key: TextKey, now: Time) -> bool {
        let waiting = self.waiters.len() + 1;
        let counts = waiting > self.limits.waiting_max || waiting >= CHOOSY_MAX;
        let is_first = self.wait_alone == 0 || self.waiters.count(Kind::Exclusive) > 0;
        if self.undecided || self.life != Life::Open || counts || is_first {
            return false;
        }
        if !self.timings.expected(key).is_unsure() {
            return false;
        }
        let enough = self.wanted_alone >= self.limits.connections_max;
        if !enough && self.new_texts.is_worth_one(key, now, &self.timings) {
            return false;
        }
        self.wait_alone += 1;
        true
    }

    fn wait(
        &mut self,
        kind: Kind,
        key: TextKey,
        now: Time,
        token: Token,
        deadline: Option<Time>,
    ) -> Ticket {
        self.undecided |= kind == Kind::Exclusive || !self.stands_behind(key, now);
        let deadline = deadline.unwrap_or(now.after(self.limits.wait_timeout));
        let ticket = self.waiters.push(kind, key, now, token, deadline);
        if self.life != Life::Open {
            self.waiters.remove(ticket);
            self.outputs.push_back(Output::Failed { token, cause: Cause::Closed });
        }
        ticket
    }
}
