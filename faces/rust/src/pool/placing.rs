//! Placing statements on shared connections.

use std::sync::Arc;
use std::time::Duration;

use onetrip_engine::pool::{Choice, Expected, Hedge, TextKey, Ticket, choose};
use onetrip_engine::{Time, Token};

use super::queue::{Line, QueueEntry, Work};
use super::waiting::{Caller, Statement};
use super::{Pool, State};
use crate::Error;
use crate::core::{Connection, Core, Duty};

impl Pool {
    /// Chooses a connection for one shared statement, without waiting. It only chooses; nothing is
    /// reserved.
    fn place(self: &Arc<Self>, of: Expected, now: Time) -> Option<(Arc<Connection>, Choice<()>)> {
        // A connection may serve those in line for a while after the end.
        if self.hints().waiting_before(of) > 0 || self.is_closed() {
            return None;
        }
        let list = self.exchange.cells.shared();
        let loads = list.iter().map(|connection| (connection, connection.load.get()));
        let choice = choose(now, &self.limits, of, loads);
        if self.hints().patience().waits(&choice) {
            return None;
        }
        if choice.helps && self.may_grow() {
            self.grow();
        }
        let Choice { on, helps, behind, of } = choice;
        Some((on?.clone(), Choice { on: None, helps, behind, of }))
    }

    fn may_grow(&self) -> bool {
        self.hints().can_grow() || self.exchange.cells.any_parked()
    }

    fn grow(self: &Arc<Self>) {
        self.with(|state, _| {
            self.sweep(state, Time::NEVER);
            let State { policy, connections, .. } = state;
            let idle = policy.idle(|id| super::load_of(connections, id));
            if idle == 0 {
                policy.grow();
            }
        });
    }

    /// Does `work` on a shared connection, if one takes it at once.
    pub(crate) fn try_run<R>(
        self: &Arc<Self>,
        key: TextKey,
        mut work: impl FnMut(&mut Core, Time) -> R,
    ) -> Option<(Arc<Connection>, R)> {
        let of = self.context.timings.expected(key);
        // In each round, the connection may meanwhile have been given away, or have got something
        // slow.
        for _ in 0..4 {
            let looked = self.now();
            let (connection, choice) = self.place(of, looked)?;
            let done = connection.with_at(looked, |core, now| {
                let takes = core.duty == Duty::Shared && core.engine.is_open();
                let holds = choice.holds(looked, &self.limits, connection.load.get());
                (takes && holds).then(|| work(core, now))
            });
            if let Some(done) = done {
                return Some((connection, done));
            }
        }
        None
    }

    /// If it is time for that, submits the statement that is unanswered on the connection `first`
    /// on another one, too.
    pub(crate) fn try_hedge(
        self: &Arc<Self>,
        key: TextKey,
        first: &Arc<Connection>,
        submit: impl FnOnce(&mut Core, Time) -> Result<Token, Error>,
    ) -> Hedge<(Arc<Connection>, Token)> {
        let (now, of) = (self.now(), self.context.timings.learned(key));
        let later = Hedge::At(now.after(self.limits.slow_head));
        if self.hints().waiting_before(of) > 0 {
            return later;
        }
        let load = first.load.get();
        if now > load.since.after(self.limits.slow_head) && self.exchange.cells.any_parked() {
            self.hand_over_parked();
        }
        let list = self.exchange.cells.shared();
        let others = list.iter().filter(|other| !Arc::ptr_eq(other, first));
        let others = others.map(|other| (other, other.load.get()));
        let on = match self.hedges.judge(now, &self.limits, of, load, others) {
            Hedge::On(on) => on,
            Hedge::At(at) => return Hedge::At(at),
        };
        let submitted = on.with(|core, now| {
            let takes = core.duty == Duty::Shared && core.engine.is_open();
            takes.then(|| submit(core, now).ok()).flatten()
        });
        submitted.map_or(later, |token| Hedge::On((on.clone(), token)))
    }

    /// Does `work` as soon as a shared connection takes it.
    pub(crate) fn run_later(
        self: &Arc<Self>,
        key: TextKey,
        work: Work,
        deadline: Time,
    ) -> Arc<QueueEntry> {
        let queue_entry = QueueEntry::new(self.clone());
        self.run_for(&queue_entry, key, work, deadline);
        queue_entry
    }

    /// The same for a queue entry that exists already.
    pub(crate) fn run_for(
        self: &Arc<Self>,
        queue_entry: &Arc<QueueEntry>,
        key: TextKey,
        work: Work,
        deadline: Time,
    ) {
        self.with(|state, now| {
            self.sweep(state, Time::NEVER);
            queue_entry.begin(now);
            let deadline = (deadline != Time::NEVER).then_some(deadline);
            let is_timed = deadline.is_some();
            let statement = Statement { work, queue_entry: queue_entry.clone(), is_timed };
            let token = state.callers.add(Caller::Statement(statement));
            let ticket = state.policy.wait_shared(now, token, key, deadline);
            state.stands(queue_entry, token, ticket);
            let State { policy, connections, .. } = state;
            if policy.idle(|id| super::load_of(connections, id)) == 0 {
                policy.grow();
            }
        });
        if self.exchange.is_missed() {
            // Sessions that ended just now did not see it wait.
            self.hand_over_parked();
        }
    }
}

impl Line for Pool {
    fn now(&self) -> Time {
        Pool::now(self)
    }

    fn waited(&self, time: Duration) {
        self.context.totals.waited(time);
    }

    fn leave(self: Arc<Self>, token: Token, ticket: Ticket) -> bool {
        self.with(|state, _| {
            let left = state.policy.give_up(ticket);
            if left {
                state.callers.remove(token);
            }
            left
        })
    }
}
