//! A pool without sockets: the engine's policy behind a lock, and the exchange around it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use onetrip_engine::pool::{Condition, ConnectionId, Limits, Load, Output, Pool, Served};
use onetrip_engine::{Time, Token};
use shuttle::sync::Condvar;
use shuttle::thread::JoinHandle;

use crate::exchange::{Exchange, Put};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard};

/// What a broken host leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A session gives its connection to a cell, and does not look again whether somebody waits.
    NoSecondLook,
    /// A caller gets in line, and does not look into the cells.
    NoCollection,
}

pub(crate) struct Host {
    exchange: Exchange<Arc<Conn>>,
    state: Mutex<State>,
    granted: Condvar,
    tokens: AtomicUsize,
}

/// A connection, and whether somebody has it.
pub(crate) struct Conn {
    id: ConnectionId,
    taken: AtomicBool,
}

struct State {
    policy: Pool,
    conns: Vec<Arc<Conn>>,
    ends: Vec<(Token, Option<Arc<Conn>>)>,
}

/// Users share connections, and each checks one out several times. All of them must finish.
pub(crate) fn model(connections: usize, users: usize, times: usize, fault: Fault) {
    let host = Host::new(connections);
    let threads: Vec<_> = (0..users).map(|_| host.user(times, fault)).collect();
    threads.into_iter().for_each(|it| it.join().unwrap());
    assert_eq!(host.lock().policy.waiting(), 0);
}

impl Host {
    pub(crate) fn new(connections_max: usize) -> Arc<Host> {
        let limits = Limits { connections_max, wait_timeout: HOURS, ..Limits::default() };
        let policy = Pool::new(limits, 1);
        Arc::new(Host {
            exchange: Exchange::new(),
            state: Mutex::new(State { policy, conns: Vec::new(), ends: Vec::new() }),
            granted: Condvar::new(),
            tokens: AtomicUsize::new(0),
        })
    }

    /// A thread that checks a connection out and gives it back.
    pub(crate) fn user(self: &Arc<Self>, times: usize, fault: Fault) -> JoinHandle<()> {
        let host = self.clone();
        shuttle::thread::spawn(move || {
            for _ in 0..times {
                let Some(conn) = host.checkout(fault) else { return };
                assert!(!conn.taken.swap(true, Ordering::SeqCst), "two users have it");
                shuttle::thread::yield_now();
                conn.taken.store(false, Ordering::SeqCst);
                host.give_back(conn, fault);
            }
        })
    }

    /// `None` once the pool is closed.
    fn checkout(&self, fault: Fault) -> Option<Arc<Conn>> {
        if let Some(conn) = self.exchange.take() {
            return Some(conn);
        }
        let token = Token(self.tokens.fetch_add(1, Ordering::SeqCst) as u64);
        self.with(|state| {
            state.policy.checkout(NOW, token, None);
        });
        if fault != Fault::NoCollection && self.exchange.is_missed() {
            self.collect();
        }
        let mut state = self.lock();
        loop {
            if let Some(at) = state.ends.iter().position(|(other, _)| *other == token) {
                return state.ends.swap_remove(at).1;
            }
            state = self.granted.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_back(&self, conn: Arc<Conn>, fault: Fault) {
        match self.exchange.put(conn, NOW) {
            Put::Kept { wanted, .. } if wanted && fault != Fault::NoSecondLook => self.collect(),
            Put::Kept { .. } => {}
            Put::Refused(conn) => {
                self.with(|state| state.policy.release(NOW, conn.id, Condition::Clean));
            }
        }
    }

    pub(crate) fn close(&self) {
        self.exchange.hints.set_closed();
        self.with(|state| state.policy.close());
        self.collect();
    }

    pub(crate) fn connections(&self) -> usize {
        self.lock().policy.connections()
    }

    fn collect(&self) {
        self.with(|state| {
            self.exchange.cells.take_all(Time::NEVER, |conn, since| {
                state.policy.release(since, conn.id, Condition::Clean);
            });
        });
    }

    fn with(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        while let Some(output) = state.policy.poll_output(NOW, |_| IDLE) {
            self.obey(&mut state, output);
        }
        let policy = &state.policy;
        self.exchange.hints.set_waiting(policy.waiting(), policy.waiting_in_order());
    }

    fn obey(&self, state: &mut State, output: Output) {
        match output {
            Output::Open { id } => {
                state.conns.push(Arc::new(Conn { id, taken: AtomicBool::new(false) }));
                state.policy.handle_opened(NOW, id);
            }
            Output::Granted(Served { token, id, .. }) => {
                let conn = state.conns.iter().find(|conn| conn.id == id).cloned();
                assert!(conn.is_some(), "{id:?} is not there");
                state.ends.push((token, conn));
                self.granted.notify_all();
            }
            Output::Failed { token, .. } => {
                state.ends.push((token, None));
                self.granted.notify_all();
            }
            Output::Close { id } => state.conns.retain(|conn| conn.id != id),
            Output::Drain { id } => state.policy.handle_drained(id),
            Output::Shared { .. } | Output::Scout | Output::Closed => {}
            Output::Placed { .. } | Output::Reset { .. } => unreachable!("no statement is made"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const NOW: Time = Time::ZERO;
const HOURS: Duration = Duration::from_secs(100 * 3600);
const IDLE: Load = Load {
    unanswered: 0,
    unanswered_bytes: 0,
    since: NOW,
    room: usize::MAX,
    expected: Duration::ZERO,
    unsure: 0,
    locking: 0,
    staying: 0,
    trip: Duration::ZERO,
};
