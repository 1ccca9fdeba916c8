//! What callers want, and what becomes of a connection that they had.

use super::connections::State;
use super::waiters::{Kind, Ticket};
use super::{Cause, Condition, ConnectionId, Hedge, Life, Load, Output, Pool, TextKey};
use crate::{Time, Token};

impl Pool {
    /// Where to put one shared statement: see [`choose`](super::choose). From then on the host counts it in the
    /// load of that connection; nothing is given back. If one more connection would help, it is opened
    /// in the background, one at a time.
    ///
    /// `None` if no connection can take it, if it is better to [wait](super::Patience) for another, or
    /// if others wait already: then it waits with [`wait_shared`](Self::wait_shared).
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

    /// Whether a read of this text, which is unanswered on the connection `first`, is sent a second
    /// time: see [`Hedges`](super::Hedges). The host counts it in the load of that connection, as one that was placed.
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
        let of = self.timings.expected(key);
        let load = self.load(first, &mut load_of);
        let others = self.shared_loads(&mut load_of).filter(|(index, _)| *index != first);
        match self.hedges.judge(now, &self.limits, of, load, others) {
            Hedge::On(index) => Hedge::On(self.connections.slot(index).id),
            Hedge::At(at) => Hedge::At(at),
        }
    }

    /// Asks for a connection of one's own, which [`Output::Granted`](super::Output::Granted)
    /// brings: at once if one is idle and nobody waits, else as the line goes.
    ///
    /// `deadline` is the moment after which the caller no longer waits, kept to the millisecond;
    /// `None` for [`Limits::wait_timeout`](super::Limits::wait_timeout) from now. With `now` it
    /// gets one at once or never.
    pub fn checkout(&mut self, now: Time, token: Token, deadline: Option<Time>) -> Ticket {
        self.wait(Kind::Exclusive, TextKey::UNTOLD, now, token, deadline)
    }

    /// Keeps the place in line of a shared statement for which [`place`](Self::place) found no
    /// connection; [`Output::Placed`](super::Output::Placed) says where it goes. `deadline` as in
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

    /// A caller no longer waits. True if it still did: no output follows for it. False if its
    /// output is on the way or was taken already: a connection that it is
    /// [`Granted`](super::Output::Granted) has to be released then.
    pub fn give_up(&mut self, ticket: Ticket) -> bool {
        self.undecided = true;
        self.waiters.remove(ticket)
    }

    /// An exclusive connection came back. `since` is when its user was done: now, unless the host
    /// kept it for a while. Replies to its user may still be to come; it is not idle before.
    ///
    /// One that is past its lifetime is closed when it has drained. Ignored unless this connection
    /// was granted, and neither released nor lost since. A second release by the same user is not
    /// noticed if the next one has it by then: the host must not make it.
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

    /// Takes a connection out of use, because its session was changed or its server goes away: it
    /// gets no new work, and is closed when it has drained or its user has released it. Another is
    /// opened if one is needed.
    pub fn retire(&mut self, id: ConnectionId) {
        let Some(index) = self.connections.find(id) else { return };
        self.undecided = true;
        let slot = self.connections.slot_mut(index);
        match slot.state {
            State::Shared => self.drain(index, State::Retiring),
            State::Claimed => self.connections.enter(index, State::Retiring),
            State::Opening | State::Exclusive => slot.expires = Time::ZERO,
            State::Gone | State::Retiring => {}
        }
    }

    /// Opens one more connection in the background if there is room and none is being opened: one
    /// at a time, and not before a pause after a failure is over.
    pub fn grow(&mut self) {
        if self.can_grow() {
            self.wish = true;
            self.undecided = true;
        }
    }

    /// Ends the pool: callers that come from now on fail. Those in line, of both kinds, are served
    /// as before, each until its deadline, and connections are opened for them. If none is left that
    /// could serve them and the last attempt to open one failed, they fail with
    /// [`Cause::OpenFailed`]: there are no further attempts.
    ///
    /// When nobody is in line, openings are given up; idle connections are closed, others when they
    /// have drained or are released. [`Output::Closed`](super::Output::Closed) comes when none is
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

    fn wait(
        &mut self,
        kind: Kind,
        key: TextKey,
        now: Time,
        token: Token,
        deadline: Option<Time>,
    ) -> Ticket {
        self.undecided = true;
        let deadline = deadline.unwrap_or(now.after(self.limits.wait_timeout));
        let ticket = self.waiters.push(kind, key, now, token, deadline);
        if self.life != Life::Open {
            self.waiters.remove(ticket);
            self.outputs.push_back(Output::Failed { token, cause: Cause::Closed });
        }
        ticket
    }
}
