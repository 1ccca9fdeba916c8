//! The actions of a random host, and how its run ends.

use std::collections::VecDeque;
use std::time::Duration;

use onetrip_engine::pool::{
    Cause, Condition, ConnectionId, Expected, Limits, OpenFailure, TextKey, choose,
};
use onetrip_engine::{Time, Token};

use super::callers::{Caller, Kind};
use super::sim::{Conn, Sim};

impl Sim {
    pub(crate) fn act(&mut self) {
        match self.rng.below(24) {
            0..=6 if self.calm && self.rng.one_in(2) => self.pass_time(),
            0..=3 => self.statement(),
            4 | 5 => self.wait(Kind::Exclusive),
            6 => self.wait(Kind::Shared),
            7 => self.give_up(),
            8..=10 => self.release(),
            11..=14 => self.answer(),
            15 | 16 => self.end_opening(),
            17 if self.rng.one_in(4) => self.lose(),
            18 if self.rng.one_in(4) => self.retire(),
            19 => self.stale_report(),
            20 if self.rng.one_in(3) => self.pool.grow(),
            21 if self.rng.one_in(60) => self.begin_to_close(),
            21 => self.use_exclusively(),
            _ => self.pass_time(),
        }
    }

    // --- callers ---

    fn statement(&mut self) {
        self.settle();
        if self.rng.one_in(2) && self.pool.waiting() == 0 && !self.closing {
            return self.place_without_asking();
        }
        let conns = &self.conns;
        let load_of = |id| conns.iter().find(|conn| conn.id == id).unwrap().load();
        match self.pool.place(self.now, TextKey::UNTOLD, load_of) {
            Some(id) => {
                self.put(id);
                self.conn(id).holding = false;
                self.saw("placed at once");
            }
            None => self.wait(Kind::Shared),
        }
    }

    /// What a host does that holds no lock.
    fn place_without_asking(&mut self) {
        let open = self.conns.iter().filter(|conn| conn.gate);
        let choice = choose(
            self.now,
            &self.limits,
            Expected::Untold,
            open.map(|conn| (conn.id, conn.load())),
        );
        if choice.helps && self.pool.can_grow() {
            self.pool.grow();
        }
        match choice.on {
            Some(id) => {
                self.saw("placed without asking");
                self.put(id);
                self.conn(id).rode_along = true;
            }
            None => self.wait(Kind::Shared),
        }
    }

    fn wait(&mut self, kind: Kind) {
        let token = self.callers.next_token();
        let deadline = match self.rng.below(4) {
            0 => Some(self.now.after(self.rng.micros(20_000))),
            1 => Some(self.now),
            _ => None,
        };
        let ticket = match kind {
            Kind::Exclusive => self.pool.checkout(self.now, Token(token), deadline),
            Kind::Shared => {
                self.pool.wait_shared(self.now, Token(token), TextKey::UNTOLD, deadline)
            }
        };
        let deadline = deadline.unwrap_or(self.now.after(self.limits.wait_timeout));
        let is_late = self.closing;
        self.callers.came(Caller { token, kind, since: self.now, deadline, is_late }, ticket);
    }

    fn give_up(&mut self) {
        let Some((token, ticket)) = self.rng.try_pick(&self.callers.tickets) else { return };
        // If it still waits here, its output may not have been taken yet.
        let waits = self.callers.waits(token);
        if self.pool.give_up(ticket) {
            assert!(waits, "{token} gave up twice");
            self.callers.end(token, "gave up");
            self.saw("gave up");
        } else {
            self.saw("gave up too late");
        }
    }

    pub(crate) fn failed(&mut self, token: u64, cause: Cause) {
        let line = self.callers.line().len();
        let newest = self.callers.line().last().is_some_and(|last| last.token == token);
        let failing = self.pauses.since.is_some();
        let (caller, _) = self.callers.end(token, "failed");
        let late = caller.deadline <= self.now;
        match cause {
            Cause::Deadline => {
                assert!(late && !failing);
                self.saw("deadline");
            }
            Cause::OpenFailed if late => {
                assert!(failing);
                self.saw("open failed");
            }
            Cause::OpenFailed => {
                let is_for_good = self.pauses.permanent && self.now < self.pauses.latest;
                // A pool that closes does not try again.
                let gives_up = self.closing && self.opening.is_empty();
                if failing && newest && line > self.limits.waiting_max {
                    return self.saw("line full while attempts fail");
                }
                assert!(failing && (is_for_good || gives_up));
                // If one had been claimed for it, that connection would take shared work by now.
                let serving = self.pool.shared() + self.pool.exclusive();
                assert_eq!(serving, 0, "one could serve {token}");
                self.saw("failed for good");
            }
            Cause::LineFull => {
                assert!(line > self.limits.waiting_max && newest);
                self.saw("line full");
            }
            Cause::Closed => {
                assert!(caller.is_late || self.cut, "{token} came before the end");
                self.saw(if caller.is_late { "pool closed" } else { "pool cut" });
            }
        }
    }

    // --- connections ---

    fn some(&mut self, of: impl Fn(&Conn) -> bool) -> Option<ConnectionId> {
        let found: Vec<ConnectionId> =
            self.conns.iter().filter(|conn| of(conn)).map(|conn| conn.id).collect();
        self.rng.try_pick(&found)
    }

    fn release(&mut self) {
        let Some(id) = self.some(|conn| conn.owner.is_some()) else { return };
        let conditions = [Condition::Clean, Condition::Dirty, Condition::DirtyHolding];
        let condition = match self.rng.one_in(10) {
            true => Condition::Broken,
            false => self.rng.pick(&conditions),
        };
        let since = match self.rng.one_in(4) {
            true => {
                Time::from_nanos(self.now.as_nanos().saturating_sub(self.rng.next() % 5_000_000))
            }
            false => self.now,
        };
        let conn = self.conn(id);
        let last = conn.statements.back().copied().unwrap_or_default();
        let since = since.max(conn.idle_since()).max(last);
        self.release_as(since, id, condition);
    }

    fn release_as(&mut self, since: Time, id: ConnectionId, condition: Condition) {
        self.pool.release(since, id, condition);
        let conn = self.conn(id);
        (conn.owner, conn.released) = (None, since);
        conn.holding = condition == Condition::DirtyHolding;
        conn.rode_along = false;
        if condition == Condition::Broken {
            self.forget(id);
        }
    }

    /// The owner sends its own statements, whose replies may be outstanding when it leaves.
    fn use_exclusively(&mut self) {
        if let Some(id) = self.some(|conn| conn.owner.is_some()) {
            let now = self.now;
            self.conn(id).statements.push_back(now);
        }
    }

    fn answer(&mut self) {
        if let Some(id) = self.some(|conn| !conn.statements.is_empty()) {
            self.answer_on(id);
        }
    }

    fn answer_on(&mut self, id: ConnectionId) {
        let now = self.now;
        let conn = self.conn(id);
        conn.statements.pop_front();
        conn.answered = now;
        self.report(id);
    }

    /// Attempts that are not picked here hang.
    fn end_opening(&mut self) {
        self.settle();
        let Some((id, started)) = self.rng.try_pick(&self.opening) else { return };
        match self.rng.below(8) {
            0..=4 => self.opened(id),
            kind => self.open_failed(id, started, kind == 7),
        }
    }

    fn opened(&mut self, id: ConnectionId) {
        self.pauses = Default::default();
        self.opening.retain(|(opening, _)| *opening != id);
        self.conns.push(Conn {
            id,
            statements: VecDeque::new(),
            room_max: self.rng.pick(&[1, 3, 100]),
            opened: self.now,
            answered: Time::ZERO,
            released: Time::ZERO,
            gate: false,
            drain: false,
            owner: None,
            holding: false,
            rode_along: false,
            retired: false,
        });
        self.pool.handle_opened(self.now, id);
    }

    fn open_failed(&mut self, id: ConnectionId, started: Time, permanent: bool) {
        self.forget(id);
        let (now, pauses) = (self.now, &mut self.pauses);
        pauses.permanent = permanent;
        if pauses.since.is_none() || started > pauses.failed {
            let since = *pauses.since.get_or_insert(started);
            pauses.failed = now;
            pauses.add(now, nominal(now.since(since), &self.limits));
        }
        self.pool.handle_open_failed(now, id, failure_of(permanent));
        self.saw("attempt failed");
    }

    fn lose(&mut self) {
        self.settle();
        let Some(id) = self.some(|_| true) else { return };
        let opened = self.conn(id).opened;
        if self.now < opened.after(4 * self.limits.backoff_min) {
            self.pauses.add(self.now, 4 * self.limits.backoff_min);
        }
        self.forget(id);
        self.pool.handle_lost(self.now, id);
        self.saw("lost");
    }

    fn retire(&mut self) {
        let Some(id) = self.some(|_| true) else { return };
        self.conn(id).retired = true;
        self.pool.retire(id);
    }

    /// A report about a connection that has gone.
    fn stale_report(&mut self) {
        let Some(id) = self.rng.try_pick(&self.gone) else { return };
        match self.rng.below(6) {
            0 => self.pool.handle_lost(self.now, id),
            1 => self.pool.handle_drained(id),
            2 => self.pool.release(self.now, id, Condition::Broken),
            3 => _ = self.pool.handle_open_failed(self.now, id, failure_of(true)),
            4 => self.pool.retire(id),
            _ => {
                self.late.push(id);
                self.pool.handle_opened(self.now, id);
            }
        }
        self.saw("stale report");
    }

    fn begin_to_close(&mut self) {
        self.cut |= self.rng.one_in(3);
        self.closing = true;
        match self.cut {
            true => self.pool.cut(),
            false => self.pool.close(),
        }
    }

    // --- time ---

    fn pass_time(&mut self) {
        let deadline = self.pool.poll_deadline().map(|at| at.since(self.now));
        let wait = match self.rng.below(8) {
            0 => self.rng.micros(500_000),
            1 | 2 => deadline.filter(|wait| *wait < Duration::from_secs(20)).unwrap_or_default(),
            _ => self.rng.micros(3000),
        };
        self.later(wait);
    }

    fn later(&mut self, wait: Duration) {
        self.now = self.now.after(wait);
        for _ in 0..3 {
            self.pool.handle_time(self.now);
            self.settle();
            if self.pool.poll_deadline().is_none_or(|next| next > self.now) {
                return self.check_due();
            }
        }
        panic!("the next deadline never comes: {:?}", self.pool);
    }

    // --- the end ---

    /// Answers, releases and opens everything, until no caller waits or nothing is left.
    pub(crate) fn finish(&mut self) {
        if self.rng.one_in(2) {
            self.begin_to_close();
        }
        for _ in 0..1000 {
            self.settle();
            self.check();
            if self.is_finished() {
                return self.check_end();
            }
            while let Some(id) = self.some(|conn| !conn.statements.is_empty()) {
                self.answer_on(id);
                self.settle();
            }
            while let Some(id) = self.some(|conn| conn.owner.is_some()) {
                self.release_as(self.now, id, Condition::Clean);
                self.settle();
            }
            while let Some((id, _)) = self.rng.try_pick(&self.opening) {
                self.opened(id);
                self.settle();
            }
            self.later(Duration::from_millis(1));
        }
        panic!("no end: {:?}", self.pool);
    }

    fn is_finished(&self) -> bool {
        match self.closing {
            true => self.closed && self.pool.is_closed(),
            false => self.callers.line().is_empty(),
        }
    }

    fn check_end(&mut self) {
        assert!(self.callers.line().is_empty());
        assert_eq!(self.pool.waiting(), 0);
        assert!(self.late.is_empty(), "not closed: {:?}", self.late);
        if self.closing {
            assert_eq!(self.pool.connections(), 0);
            assert_eq!(self.pool.poll_deadline(), None);
        }
    }
}

/// The longest pause once attempts have failed for this long.
pub(crate) fn nominal(failing_for: Duration, limits: &Limits) -> Duration {
    let (time, max) = (failing_for.as_secs_f64(), limits.backoff_max.as_secs_f64());
    let grown = Duration::from_secs_f64((time * time / (2.0 * max)).min(max));
    grown.clamp(limits.backoff_min, limits.backoff_max)
}

fn failure_of(is_permanent: bool) -> OpenFailure {
    OpenFailure { is_permanent, may_pass: false }
}
