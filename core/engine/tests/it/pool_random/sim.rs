//! A host with simulated connections, and its model of the pool.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_engine::pool::{ConnectionId, IdleOrder, Limits, Load, Output, Pool};

use super::callers::{Callers, Kind};
use super::rng::Rng;

/// A connection that was reported as opened.
pub(crate) struct Conn {
    pub(crate) id: ConnectionId,
    /// When each unanswered statement was sent.
    pub(crate) statements: VecDeque<Time>,
    pub(crate) room_max: usize,
    pub(crate) opened: Time,
    pub(crate) answered: Time,
    pub(crate) released: Time,
    /// Whether it takes shared work.
    pub(crate) gate: bool,
    /// Whether it was told to drain.
    pub(crate) drain: bool,
    pub(crate) owner: Option<u64>,
    /// A reset is owed that other callers may be waiting for, as far as the pool can know.
    pub(crate) holding: bool,
    /// The reset was sent with a statement that the pool does not know of.
    pub(crate) rode_along: bool,
    pub(crate) retired: bool,
}

impl Conn {
    pub(crate) fn load(&self) -> Load {
        Load {
            unanswered: self.statements.len(),
            unanswered_bytes: 100 * self.statements.len(),
            since: self.statements.front().copied().unwrap_or(self.answered),
            room: self.room_max.saturating_sub(self.statements.len()),
            ..Load::default()
        }
    }

    pub(crate) fn idle_since(&self) -> Time {
        self.answered.max(self.released).max(self.opened)
    }
}

/// What is known of the pauses between attempts.
#[derive(Default)]
pub(crate) struct Pauses {
    /// When the first attempt began that failed since the last success.
    pub(crate) since: Option<Time>,
    pub(crate) failed: Time,
    pub(crate) permanent: bool,
    /// The next attempt must not come before the first of these, and must be planned no later than
    /// the second.
    pub(crate) earliest: Time,
    pub(crate) latest: Time,
}

impl Pauses {
    pub(crate) fn add(&mut self, now: Time, pause: Duration) {
        self.earliest = self.earliest.max(now.after(pause / 2));
        self.latest = self.latest.max(now.after(pause));
    }
}

pub(crate) struct Sim {
    pub(crate) rng: Rng,
    /// Fewer callers come.
    pub(crate) calm: bool,
    pub(crate) limits: Limits,
    pub(crate) pool: Pool,
    pub(crate) now: Time,
    pub(crate) callers: Callers,
    pub(crate) conns: Vec<Conn>,
    /// The connections that are being opened, and since when.
    pub(crate) opening: Vec<(ConnectionId, Time)>,
    /// Ids of connections that have gone.
    pub(crate) gone: Vec<ConnectionId>,
    pub(crate) known: HashSet<ConnectionId>,
    /// Attempts that succeeded after the pool had dropped them: the pool closes them again.
    pub(crate) late: Vec<ConnectionId>,
    pub(crate) pauses: Pauses,
    /// The last time at which there were no more connections than the minimum.
    pub(crate) spare_since: Time,
    pub(crate) closing: bool,
    /// Who was in line when it closed is not served any more.
    pub(crate) cut: bool,
    pub(crate) closed: bool,
    pub(crate) seen: BTreeMap<&'static str, usize>,
}

fn random_limits(rng: &mut Rng) -> Limits {
    let millis = Duration::from_millis;
    Limits {
        connections_max: rng.pick(&[1, 1, 2, 3, 5]),
        connections_min: rng.pick(&[0, 0, 1, 2]),
        wait_timeout: millis(rng.pick(&[20, 500, 5000])),
        waiting_max: rng.pick(&[0, 2, 1000, 1000, 1000]),
        idle_timeout: millis(rng.pick(&[100, 300, 10_000])),
        lifetime: millis(rng.pick(&[1000, 3000, 100_000])),
        slow_head: millis(2),
        yield_after: millis(rng.pick(&[20, 500])),
        share_wait: millis(1),
        opening_max: rng.pick(&[1, 2, 4]),
        backoff_min: millis(rng.pick(&[1, 5, 20])),
        backoff_max: millis(rng.pick(&[5, 50])),
        scout_after: Duration::MAX,
        reset_idle_after: millis(rng.pick(&[1, 10])),
        idle_order: rng.pick(&[IdleOrder::Lifo, IdleOrder::Fifo]),
    }
}

impl Sim {
    pub(crate) fn new(mut rng: Rng, seed: u64) -> Sim {
        let pool = Pool::new(random_limits(&mut rng), seed);
        Sim {
            calm: rng.one_in(2),
            rng,
            limits: pool.limits().clone(),
            pool,
            now: Time::ZERO,
            callers: Callers::default(),
            conns: Vec::new(),
            opening: Vec::new(),
            gone: Vec::new(),
            known: HashSet::new(),
            late: Vec::new(),
            pauses: Pauses::default(),
            spare_since: Time::ZERO,
            closing: false,
            cut: false,
            closed: false,
            seen: BTreeMap::new(),
        }
    }

    pub(crate) fn live(mut self) -> BTreeMap<&'static str, usize> {
        let steps = 50 + self.rng.below(250);
        self.settle();
        for _ in 0..steps {
            // A host may also do several things before it takes the outputs.
            for _ in 0..self.rng.pick(&[1, 1, 1, 4]) {
                self.act();
            }
            self.settle();
            self.check();
        }
        self.finish();
        self.seen
    }

    pub(crate) fn saw(&mut self, event: &'static str) {
        *self.seen.entry(event).or_default() += 1;
    }

    pub(crate) fn conn(&mut self, id: ConnectionId) -> &mut Conn {
        let found = self.conns.iter_mut().find(|conn| conn.id == id);
        found.unwrap_or_else(|| panic!("{id:?} is not there"))
    }

    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.conns.retain(|conn| conn.id != id);
        self.opening.retain(|(opening, _)| *opening != id);
        self.gone.push(id);
    }

    // --- what the pool says ---

    /// Obeys the pool's outputs until there are none.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            let conns = &self.conns;
            let load_of = |id| conns.iter().find(|conn| conn.id == id).unwrap().load();
            let Some(output) = self.pool.poll_output(self.now, load_of) else { return };
            self.obey(output);
        }
        panic!("no end: {:?}", self.pool);
    }

    fn obey(&mut self, output: Output) {
        match output {
            Output::Open { id } => self.open(id),
            Output::Granted(it) => self.granted(it.token.0, it.id, it.waited),
            Output::Placed(it) => self.placed(it.token.0, it.id, it.waited),
            Output::Failed { token, cause } => self.failed(token.0, cause),
            Output::Shared { id } => self.shared(id),
            Output::Drain { id } => self.drain(id),
            Output::Reset { id } => self.reset(id),
            Output::Scout => unreachable!("there is one server"),
            Output::Close { id } => self.close(id),
            Output::Closed => {
                assert!(self.closing && !self.closed);
                assert!(self.conns.is_empty() && self.opening.is_empty());
                self.closed = true;
                self.saw("closed");
            }
        }
    }

    /// Whether the pool closes and serves nobody any more. Those that came too late may not have been
    /// told so yet.
    pub(crate) fn is_winding_up(&self) -> bool {
        self.closing && self.callers.line().iter().all(|caller| caller.is_late)
    }

    fn open(&mut self, id: ConnectionId) {
        assert!(self.known.insert(id), "{id:?} was given twice");
        assert!(id.index() < self.limits.connections_max);
        assert!(self.now >= self.pauses.earliest, "an attempt before the pause is over");
        let opening_max = if self.pauses.since.is_some() { 1 } else { self.limits.opening_max };
        assert!(self.opening.len() < opening_max);
        self.opening.push((id, self.now));
        assert!(self.conns.len() + self.opening.len() <= self.limits.connections_max);
    }

    fn granted(&mut self, token: u64, id: ConnectionId, waited: Duration) {
        self.note_served();
        let (caller, front) = self.callers.end(token, "granted");
        assert!(!caller.is_late);
        assert_eq!(caller.kind, Kind::Exclusive);
        assert!(front.is_empty(), "{token} overtook {front:?}");
        assert_eq!(waited, self.now.since(caller.since));
        let conn = self.conn(id);
        assert_eq!(conn.owner, None, "two have {id:?}");
        assert!(conn.statements.is_empty(), "{id:?} is not idle");
        let claimed = conn.drain;
        (conn.owner, conn.gate, conn.drain, conn.holding) = (Some(token), false, false, false);
        self.saw(if claimed { "granted a claim" } else { "granted" });
    }

    fn placed(&mut self, token: u64, id: ConnectionId, waited: Duration) {
        self.note_served();
        let (caller, front) = self.callers.end(token, "placed");
        assert!(!caller.is_late);
        assert_eq!(caller.kind, Kind::Shared);
        assert_eq!(waited, self.now.since(caller.since));
        assert!(front.iter().all(|other| other.kind == Kind::Exclusive), "{token}: {front:?}");
        if !front.is_empty() {
            // Other statements are in flight on them.
            let coming = if self.pauses.since.is_some() { 0 } else { self.pool.opening() };
            assert!(self.callers.count(Kind::Exclusive) <= self.pool.claimed() + coming);
            self.saw("placed behind an exclusive one");
        }
        self.saw("placed from the line");
        self.put(id);
        self.conn(id).holding = false;
    }

    fn note_served(&mut self) {
        if self.closing {
            self.saw("served while closing");
        }
    }

    /// Sends a statement on a connection.
    pub(crate) fn put(&mut self, id: ConnectionId) {
        let now = self.now;
        let conn = self.conn(id);
        assert!(conn.gate && conn.owner.is_none() && !conn.retired, "{id:?} takes no statement");
        assert!(conn.load().room > 0 || conn.statements.is_empty());
        conn.statements.push_back(now);
    }

    fn shared(&mut self, id: ConnectionId) {
        let conn = self.conn(id);
        assert!(!conn.gate && conn.owner.is_none() && !conn.retired);
        let lifted = conn.drain;
        (conn.gate, conn.drain) = (true, false);
        if lifted {
            self.saw("claim lifted");
        }
    }

    fn drain(&mut self, id: ConnectionId) {
        let conn = self.conn(id);
        assert!(conn.owner.is_none());
        (conn.gate, conn.drain) = (false, true);
        self.report(id);
    }

    fn reset(&mut self, id: ConnectionId) {
        let (now, after) = (self.now, self.limits.reset_idle_after);
        let conn = self.conn(id);
        assert!(conn.holding && conn.owner.is_none() && conn.statements.is_empty());
        assert!(now >= conn.idle_since().after(after));
        conn.holding = false;
        self.saw("reset");
    }

    fn close(&mut self, id: ConnectionId) {
        if let Some(at) = self.late.iter().position(|late| *late == id) {
            self.late.remove(at);
            return;
        }
        if self.opening.iter().any(|(opening, _)| *opening == id) {
            assert!(self.is_winding_up());
            return self.forget(id);
        }
        if self.gone.contains(&id) {
            // The connection was lost before the host took the output.
            return;
        }
        let (now, limits, ends) = (self.now, self.limits.clone(), self.is_winding_up());
        let spare = self.conns.len() > limits.connections_min;
        let conn = self.conn(id);
        assert!(conn.owner.is_none() && conn.statements.is_empty());
        let old = now >= conn.opened.after(limits.lifetime - limits.lifetime / 10);
        let idle = spare && now >= conn.idle_since().after(limits.idle_timeout);
        assert!(conn.retired || ends || old || idle, "no reason to close {id:?}");
        if !conn.retired && !ends {
            self.saw("idle or old one closed");
        }
        self.forget(id);
    }

    // --- what the host says ---

    /// Reports to the pool that something on a connection was answered, as a host must.
    pub(crate) fn report(&mut self, id: ConnectionId) {
        let conn = self.conn(id);
        let (idle, drain) = (conn.statements.is_empty(), conn.drain);
        if idle && (drain || self.pool.waiting() > 0) {
            self.pool.handle_drained(id);
        } else if self.pool.waiting() > 0 {
            // It may have had no room, or have been slow.
            self.pool.handle_room();
        }
    }
}
