//! What must hold after each step.

use std::time::Duration;

use super::callers::Kind;
use super::sim::{Conn, Sim};

impl Sim {
    pub(crate) fn check(&mut self) {
        self.check_counts();
        self.note_spare();
        if self.is_winding_up() {
            return;
        }
        self.check_nobody_waits_in_vain();
        self.check_an_attempt_is_planned();
    }

    fn check_counts(&self) {
        let count = |of: fn(&Conn) -> bool| self.conns.iter().filter(|conn| of(conn)).count();
        let pool = &self.pool;
        assert_eq!(pool.connections(), self.conns.len() + self.opening.len());
        assert!(pool.connections() <= self.limits.connections_max);
        assert_eq!(pool.opening(), self.opening.len());
        assert_eq!(pool.exclusive(), count(|conn| conn.owner.is_some()));
        assert_eq!(pool.shared(), count(|conn| conn.gate));
        assert_eq!(pool.claimed() + pool.retiring(), count(|conn| conn.drain));
        assert_eq!(pool.waiting(), self.callers.line().len());
        assert!(pool.waiting() <= self.limits.waiting_max + pool.opening() + 1);
        assert!(pool.claimed() <= self.callers.count(Kind::Exclusive), "claims for nobody");
    }

    fn check_nobody_waits_in_vain(&self) {
        let line = self.callers.line();
        for conn in self.conns.iter().filter(|conn| conn.gate) {
            let idle = conn.statements.is_empty();
            assert!(!idle || line.is_empty(), "{:?} is idle while {line:?}", conn.id);
            let load = conn.load();
            let age = self.now.since(load.since);
            let slow = self.pool.patience().coming.is_some_and(|patience| age > patience);
            let room = load.room > 0 && !slow;
            let shared = self.callers.count(Kind::Shared);
            assert!(!room || shared == 0, "{:?} has room while {line:?}", conn.id);
        }
        let connections = self.conns.len() + self.opening.len();
        let planned = self.pool.poll_deadline().is_some_and(|next| next <= self.pauses.latest);
        assert!(line.is_empty() || connections > 0 || planned, "nothing will serve {line:?}");
    }

    /// While there is room for more connections, no caller waits without an attempt, and the
    /// minimum is kept.
    fn check_an_attempt_is_planned(&self) {
        let min = if self.closing { 0 } else { self.limits.connections_min };
        let wanted = !self.callers.line().is_empty() || self.serving() < min;
        let room = self.conns.len() < self.limits.connections_max;
        if wanted && room && self.opening.is_empty() {
            let next = self.pool.poll_deadline().expect("an attempt is planned");
            // For the minimum alone there is no hurry behind a failure.
            let is_leisurely = self.callers.line().is_empty() && self.pauses.since.is_some();
            let leisurely = self.pauses.failed.after(self.limits.backoff_max);
            let latest = self.pauses.latest;
            let latest = if is_leisurely { latest.max(leisurely) } else { latest };
            assert!(next <= latest, "not soon enough");
            assert!(self.now < latest, "it could be made now");
        }
    }

    fn note_spare(&mut self) {
        if self.serving() <= self.limits.connections_min {
            self.spare_since = self.now;
        }
    }

    fn serving(&self) -> usize {
        self.pool.shared() + self.pool.claimed() + self.pool.exclusive()
    }

    /// Everything that was due has been done.
    pub(crate) fn check_due(&mut self) {
        if self.is_winding_up() {
            return;
        }
        self.note_spare();
        let look = Duration::from_millis(1);
        for caller in self.callers.line() {
            assert!(caller.deadline.after(look) > self.now, "{caller:?} still waits");
        }
        for conn in self.conns.iter().filter(|conn| conn.gate) {
            let lifetime = self.limits.lifetime + self.limits.lifetime / 10;
            assert!(conn.opened.after(lifetime + look) > self.now, "{:?} is too old", conn.id);
            // One that was kept for the minimum is checked again after the same time.
            let idle = conn.idle_since().max(self.spare_since);
            let due = idle.after(self.limits.idle_timeout + look) <= self.now;
            assert!(!due || !conn.statements.is_empty(), "{:?} is idle", conn.id);
            let reset = conn.idle_since().after(self.limits.reset_idle_after + look) <= self.now;
            let owed = conn.holding && !conn.rode_along && conn.statements.is_empty();
            assert!(!reset || !owed, "{:?} was not reset", conn.id);
        }
    }
}
