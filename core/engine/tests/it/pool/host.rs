//! A host whose connections are only numbers, named 0, 1, 2 … in the order in which the pool asked
//! for them. It obeys the pool's outputs, and remembers them.

use std::collections::HashMap;
use std::time::Duration;

use onetrip_engine::pool::{
    Cause, Condition, ConnectionId, Limits, Load, OpenFailure, Output, Pool, Served, TextKey,
    Ticket,
};
use onetrip_engine::{Time, Token};

/// An output with names in place of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Open(usize),
    Granted(u64, usize),
    Placed(u64, usize),
    Failed(u64, Cause),
    Shared(usize),
    Drain(usize),
    Reset(usize),
    Scout,
    Close(usize),
    Closed,
}

pub(crate) struct Host {
    pub(crate) pool: Pool,
    pub(crate) now: Time,
    /// Each connection that was ever asked for, by its name.
    pub(crate) ids: Vec<ConnectionId>,
    loads: Vec<Load>,
    /// The text of each statement that waits.
    keys: HashMap<u64, TextKey>,
    /// Each caller that was served, by its token.
    served: HashMap<u64, Served>,
    /// How long the caller that was served last had waited.
    pub(crate) waited: Duration,
}

pub(crate) const IDLE: Load = Load {
    unanswered: 0,
    unanswered_bytes: 0,
    since: Time::ZERO,
    room: 100,
    expected: Duration::ZERO,
    unsure: 0,
    locking: 0,
    staying: 0,
    trip: Duration::ZERO,
};

pub(crate) fn max(connections_max: usize) -> Limits {
    Limits { connections_max, ..Limits::default() }
}

pub(crate) fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

impl Host {
    pub(crate) fn new(limits: Limits) -> Host {
        let (ids, loads, waited) = (Vec::new(), Vec::new(), Duration::ZERO);
        let (pool, keys, served) = (Pool::new(limits, 7), HashMap::new(), HashMap::new());
        Host { pool, now: Time::ZERO, ids, loads, keys, served, waited }
    }

    /// A host with this many idle connections.
    pub(crate) fn with(limits: Limits, connections: usize) -> Host {
        let mut host = Host::new(limits);
        for name in 0..connections {
            host.pool.grow();
            assert_eq!(host.take(), [Did::Open(name)]);
            assert_eq!(host.opened(name), [Did::Shared(name)]);
        }
        host
    }

    /// A host with this many connections, all checked out by callers with the token 1000.
    pub(crate) fn taken(connections: usize) -> Host {
        let mut host = Host::with(max(connections), connections);
        for _ in 0..connections {
            host.checkout(1000);
            let done = host.take();
            let [Did::Granted(1000, _)] = done[..] else { panic!("{done:?}") };
        }
        host
    }

    // --- what a host does; the functions that take the outputs return them ---

    pub(crate) fn take(&mut self) -> Vec<Did> {
        let mut done = Vec::new();
        while let Some(output) = self.next() {
            let did = self.obey(output);
            done.push(did);
            assert!(done.len() < 100_000, "no end");
        }
        done
    }

    fn next(&mut self) -> Option<Output> {
        let (ids, loads) = (&self.ids, &self.loads);
        self.pool.poll_output(self.now, |id| loads[name_of(ids, id)])
    }

    fn obey(&mut self, output: Output) -> Did {
        match output {
            Output::Open { id } => {
                self.ids.push(id);
                self.loads.push(IDLE);
                Did::Open(self.ids.len() - 1)
            }
            Output::Granted(served) => {
                let Served { token, id, .. } = self.note(served);
                Did::Granted(token.0, self.name(id))
            }
            Output::Placed(served) => {
                let Served { token, id, .. } = self.note(served);
                let key = self.keys.remove(&token.0).unwrap_or_default();
                self.busy_with(self.name(id), key);
                Did::Placed(token.0, self.name(id))
            }
            Output::Failed { token, cause } => Did::Failed(token.0, cause),
            Output::Shared { id } => Did::Shared(self.name(id)),
            Output::Drain { id } => {
                if self.loads[self.name(id)].is_idle() {
                    self.pool.handle_drained(id);
                }
                Did::Drain(self.name(id))
            }
            Output::Reset { id } => Did::Reset(self.name(id)),
            Output::Scout => Did::Scout,
            Output::Close { id } => Did::Close(self.name(id)),
            Output::Closed => Did::Closed,
        }
    }

    fn note(&mut self, served: Served) -> Served {
        self.waited = served.waited;
        self.served.insert(served.token.0, served);
        served
    }

    pub(crate) fn name(&self, id: ConnectionId) -> usize {
        name_of(&self.ids, id)
    }

    pub(crate) fn opened(&mut self, name: usize) -> Vec<Did> {
        self.pool.handle_opened(self.now, self.ids[name]);
        self.take()
    }

    /// Returns whether nobody waits for the next attempt.
    pub(crate) fn open_failed_so(&mut self, name: usize, failure: OpenFailure) -> bool {
        self.pool.handle_open_failed(self.now, self.ids[name], failure)
    }

    pub(crate) fn open_failed(&mut self, name: usize) -> Vec<Did> {
        self.open_failed_so(name, OpenFailure::default());
        self.take()
    }

    pub(crate) fn open_failed_for_good(&mut self, name: usize) -> Vec<Did> {
        self.open_failed_so(name, OpenFailure { is_permanent: true, may_pass: false });
        self.take()
    }

    pub(crate) fn lost(&mut self, name: usize) -> Vec<Did> {
        self.pool.handle_lost(self.now, self.ids[name]);
        self.take()
    }

    /// The connection of a caller takes nothing from it.
    pub(crate) fn again(&mut self, token: u64, is_over: bool) {
        self.pool.again(self.now, self.served[&token], is_over);
    }

    pub(crate) fn later(&mut self, wait: Duration) -> Vec<Did> {
        self.now = self.now.after(wait);
        self.pool.handle_time(self.now);
        self.take()
    }

    /// Moves to the next deadline.
    pub(crate) fn due(&mut self) -> Vec<Did> {
        let next = self.pool.poll_deadline().unwrap();
        self.later(next.since(self.now))
    }

    // --- what callers do ---

    pub(crate) fn checkout(&mut self, token: u64) -> Ticket {
        self.pool.checkout(self.now, Token(token), None)
    }

    pub(crate) fn wait_shared(&mut self, token: u64) -> Ticket {
        self.wait_for(token, TextKey::UNTOLD)
    }

    pub(crate) fn wait_for(&mut self, token: u64, key: TextKey) -> Ticket {
        self.keys.insert(token, key);
        self.pool.wait_shared(self.now, Token(token), key, None)
    }

    /// Places a statement, and returns its connection.
    pub(crate) fn place(&mut self) -> Option<usize> {
        self.place_text(TextKey::UNTOLD)
    }

    /// The same for a statement with this text.
    pub(crate) fn place_text(&mut self, key: TextKey) -> Option<usize> {
        let (ids, loads) = (&self.ids, &self.loads);
        let id = self.pool.place(self.now, key, |id| loads[name_of(ids, id)])?;
        let name = self.name(id);
        self.busy_with(name, key);
        Some(name)
    }

    /// This many statements of a text took this long.
    pub(crate) fn took(&self, key: TextKey, calls: usize, took: Duration) {
        for _ in 0..calls {
            self.pool.timings().took(key, took, Duration::ZERO);
        }
    }

    pub(crate) fn release(&mut self, name: usize) -> Vec<Did> {
        self.release_as(name, Condition::Clean)
    }

    pub(crate) fn release_as(&mut self, name: usize, condition: Condition) -> Vec<Did> {
        self.pool.release(self.now, self.ids[name], condition);
        self.take()
    }

    pub(crate) fn give_up(&mut self, ticket: Ticket) -> bool {
        self.pool.give_up(ticket)
    }

    // --- loads ---

    pub(crate) fn set(&mut self, name: usize, load: Load) {
        self.loads[name] = load;
    }

    pub(crate) fn load(&self, name: usize) -> Load {
        self.loads[name]
    }

    /// One more statement is in flight on it.
    pub(crate) fn busy(&mut self, name: usize) {
        self.busy_with(name, TextKey::UNTOLD);
    }

    fn busy_with(&mut self, name: usize, key: TextKey) {
        let expected = self.pool.timings().expected(key);
        let load = &mut self.loads[name];
        if load.is_idle() {
            load.since = self.now;
        }
        load.unanswered += 1;
        load.unanswered_bytes += 100;
        load.room = load.room.saturating_sub(1);
        load.expected += expected.takes();
        load.unsure += usize::from(expected.is_unsure());
        load.locking += usize::from(key.may_lock());
    }

    /// All statements on it are answered, and the pool is told.
    pub(crate) fn drained(&mut self, name: usize) -> Vec<Did> {
        self.loads[name] = Load { since: self.now, ..IDLE };
        self.pool.handle_drained(self.ids[name]);
        self.take()
    }

    pub(crate) fn idle(&self) -> usize {
        self.pool.idle(|id| self.loads[self.name(id)])
    }
}

fn name_of(ids: &[ConnectionId], id: ConnectionId) -> usize {
    ids.iter().position(|known| *known == id).unwrap()
}
