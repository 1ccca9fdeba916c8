//! In the steady state the pool allocates nothing: not for statements, sessions or callers that
//! wait. And callers and connections that have gone leave no memory behind.

use std::time::Duration;

use onetrip_engine::pool::{Condition, ConnectionId, Limits, Load, Output, Pool, TextKey};
use onetrip_engine::{Time, Token};

/// A host that allocates nothing itself: it counts the statements by the index of the connection.
struct Host {
    pool: Pool,
    now: Time,
    unanswered: [usize; CONNECTIONS],
    granted: Option<ConnectionId>,
    opening: Option<ConnectionId>,
    ends: usize,
}

const CONNECTIONS: usize = 4;

impl Host {
    fn new(limits: Limits) -> Host {
        Host {
            pool: Pool::new(limits, 7),
            now: Time::ZERO,
            unanswered: [0; CONNECTIONS],
            granted: None,
            opening: None,
            ends: 0,
        }
    }

    fn with(connections: usize) -> Host {
        let mut host = Host::new(Limits { connections_max: connections, ..Limits::default() });
        for _ in 0..connections {
            host.open();
        }
        host
    }

    fn open(&mut self) -> ConnectionId {
        self.pool.grow();
        self.drain();
        let id = self.opening.take().unwrap();
        self.pool.handle_opened(self.now, id);
        self.drain();
        id
    }

    fn drain(&mut self) {
        let unanswered = self.unanswered;
        while let Some(output) = self.pool.poll_output(self.now, |id| load(&unanswered, id)) {
            match output {
                Output::Open { id } => self.opening = Some(id),
                Output::Granted(served) => self.granted = Some(served.id),
                Output::Placed { .. } | Output::Failed { .. } => self.ends += 1,
                _ => {}
            }
        }
    }

    fn place(&mut self) -> Option<ConnectionId> {
        let unanswered = self.unanswered;
        let id = self.pool.place(self.now, TextKey::UNTOLD, |id| load(&unanswered, id));
        self.drain();
        id
    }

    fn checkout(&mut self, token: u64) -> Option<ConnectionId> {
        self.pool.checkout(self.now, Token(token), None);
        self.drain();
        self.granted.take()
    }

    fn release(&mut self, id: ConnectionId) {
        self.pool.release(self.now, id, Condition::Dirty);
        self.drain();
    }

    fn later(&mut self) {
        self.now = self.now.after(Duration::from_micros(10));
        if self.pool.poll_deadline().is_some_and(|next| next <= self.now) {
            self.pool.handle_time(self.now);
            self.drain();
        }
    }
}

fn load(unanswered: &[usize; CONNECTIONS], id: ConnectionId) -> Load {
    let unanswered = unanswered[id.index()];
    Load { unanswered, unanswered_bytes: 100 * unanswered, room: 1000, ..Load::default() }
}

/// Counts the allocations of many runs of `round`, after a few that may let buffers grow.
fn allocations(mut round: impl FnMut()) -> u64 {
    for _ in 0..100 {
        round();
    }
    let counted = allocation_counter::measure(|| {
        for _ in 0..20_000 {
            round();
        }
    });
    counted.count_total
}

#[test]
fn a_session_costs_no_allocation() {
    let mut host = Host::with(CONNECTIONS);
    let count = allocations(|| {
        let id = host.checkout(1).unwrap();
        host.later();
        host.release(id);
    });
    assert_eq!(count, 0);
}

#[test]
fn a_statement_costs_no_allocation() {
    let mut host = Host::with(CONNECTIONS);
    let count = allocations(|| {
        let id = host.place().unwrap();
        host.unanswered[id.index()] += 1;
        host.later();
        host.unanswered[id.index()] -= 1;
        host.pool.handle_drained(id);
        host.drain();
    });
    assert_eq!(count, 0);
}

#[test]
fn neither_do_sessions_and_statements_that_wait_and_claims() {
    let mut host = Host::with(1);
    let count = allocations(|| {
        let session = host.checkout(1).unwrap();
        for token in 2..12 {
            host.pool.wait_shared(host.now, Token(token), TextKey::UNTOLD, None);
            host.drain();
        }
        assert_eq!(host.checkout(12), None);
        host.release(session);
        // The statements are answered at once; the connection was claimed after them.
        host.pool.handle_drained(session);
        host.drain();
        let session = host.granted.take().unwrap();
        host.later();
        host.release(session);
    });
    assert_eq!(count, 0);
    assert_eq!(host.ends % 10, 0);
}

#[test]
fn callers_that_leave_a_line_that_does_not_move_hold_no_memory() {
    let mut host = Host::with(1);
    host.checkout(1).unwrap();
    host.checkout(2);
    let left = allocation_counter::measure(|| {
        for token in 3..100_000 {
            let ticket = host.pool.checkout(host.now, Token(token), None);
            host.drain();
            let shared = host.pool.wait_shared(host.now, Token(token), TextKey::UNTOLD, None);
            host.drain();
            assert!(host.pool.give_up(ticket) && host.pool.give_up(shared));
            host.drain();
        }
    });
    assert!(left.bytes_current < 1 << 16, "{left:?}");
}

#[test]
fn neither_do_those_whose_deadline_passes() {
    let mut host = Host::with(1);
    host.checkout(1).unwrap();
    host.pool.checkout(host.now, Token(2), Some(Time::NEVER));
    let left = allocation_counter::measure(|| {
        for token in 3..100_000 {
            let deadline = host.now.after(Duration::from_micros(1));
            host.pool.checkout(host.now, Token(token), Some(deadline));
            host.drain();
            host.now = host.now.after(Duration::from_millis(1));
            host.pool.handle_time(host.now);
            host.drain();
        }
    });
    assert_eq!(host.pool.waiting(), 1);
    assert!(left.bytes_current < 1 << 16, "{left:?}");
}

#[test]
fn callers_that_are_refused_hold_no_memory() {
    let limits = Limits { connections_max: 1, waiting_max: 10, ..Limits::default() };
    let mut host = Host::new(limits);
    host.open();
    let left = allocation_counter::measure(|| {
        for token in 0..100_000 {
            host.checkout(token);
        }
    });
    assert_eq!(host.pool.waiting(), 10);
    assert!(left.bytes_current < 1 << 16, "{left:?}");
}

#[test]
fn connections_that_come_and_go_hold_no_memory() {
    let mut host = Host::new(Limits { connections_max: 2, ..Limits::default() });
    let left = allocation_counter::measure(|| {
        for _ in 0..10_000 {
            let id = host.open();
            host.now = host.now.after(Duration::from_secs(1));
            host.pool.handle_lost(host.now, id);
            host.drain();
        }
    });
    assert!(left.bytes_current < 1 << 12, "{left:?}");
}

#[test]
fn the_counter_counts() {
    let counted = allocation_counter::measure(|| drop(Host::with(1)));
    assert!(counted.count_total > 0);
}
