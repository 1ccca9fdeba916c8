//! The policy of a pool: which connection takes a request, when one more is opened, who waits, who
//! is next, and what expires.
//!
//! A [`Pool`] knows connections by their ids and callers by their tokens. It holds no socket, reads
//! no clock and sends no byte: it says what to do, and the host does it and reports what came of
//! it. Two kinds of caller share the connections:
//!
//! * A *shared* caller puts one statement on a connection that carries those of others too. It is
//!   [placed](Pool::place) at once on one that takes shared work, and waits only where none does.
//! * An *exclusive* caller [checks out](Pool::checkout) a connection for itself, for a session or a
//!   transaction, until the host [releases](Pool::release) it.
//!
//! ```text
//!              opened                     granted
//!   opening ──────────► shared ──────────────────────► exclusive
//!                       │ ▲  ▲                              │
//!               claimed │ │  └──────────────────────────────┘ released
//!                       ▼ │ drained, or not needed any more
//!                      claimed
//! ```
//!
//! From each of them a connection may go to *retiring*, where it takes no new work and is closed
//! when it has drained; and from anywhere it is gone at once when it is lost.
//!
//! # Who is next
//!
//! There is one line for both kinds of caller, first come, first served. A connection that becomes
//! free, by being opened, drained or released, goes to the front of the line, whoever caused it. If
//! shared callers stand there, all up to the next exclusive one are placed on it together.
//!
//! An exclusive caller that finds no idle connection causes one to be opened. Where no more can be
//! opened (at [`Limits::connections_max`], at [`Limits::opening_max`], or since the last attempt
//! failed) it *claims* the shared connection with the least work: that takes no new statement, and
//! is free when it has drained. There are never more claims than exclusive callers in line.
//!
//! One rule goes before the order of the line: a shared caller does not wait behind an exclusive
//! one for a connection that this one has no use for. If a connection takes shared work and nobody
//! claims it, since every exclusive caller has a claim or an opening already, shared callers are
//! placed on it wherever they stand.
//!
//! # Slow neighbours
//!
//! A connection answers in order: what is placed behind a slow statement waits for it. The pool
//! learns how long each text takes ([`Timings`]) and expects the same of the next call.
//!
//! * A statement that is expected to be quick goes behind other quick ones, up to
//!   [`Limits::share_wait`] of work before another connection is used.
//! * A statement of which nothing is known yet, that takes long or did so at times, goes to an idle
//!   connection. It waits in line for one, and causes one to be opened, or claims one as an exclusive
//!   caller would; but one connection is left to those that are quick, who overtake it in line.
//! * Nothing goes behind such a statement, nor behind one that has been running for longer than
//!   [`Limits::slow_head`], while there is another connection or may be one: it waits in line for
//!   whichever is free first. [`Patience`] is the rule.
//! * A statement of which the host says nothing ([`TextKey::UNTOLD`]) goes behind a slow one only when
//!   waiting for a connection that is being opened would take longer.
//! * A read that may run twice is sent again elsewhere when what is in front of it takes long, where its
//!   caller asked for that: [`Hedges`] is the rule.
//! * With [`connections_max`](Limits::connections_max) of 1 there is no other way, and beyond 1,024
//!   callers in line there is too little time to be choosy: statements go one behind the other.
//!
//! # A host's loop
//!
//! The host calls a method for what happened or is wanted, and then always does the same: it takes
//! the outputs and does what they say, then asks for the next deadline. [`Pool::poll_output`] is
//! where things are decided, since the loads are known there.
//!
//! ```
//! use std::collections::HashMap;
//! use std::time::Duration;
//! use onetrip_engine::pool::{Condition, ConnectionId, Limits, Load, Output, Pool, TextKey};
//! use onetrip_engine::{Time, Token};
//!
//! /// A connection: its socket would be here too.
//! struct Conn {
//!     load: Load,
//!     drain: bool,
//! }
//!
//! struct Host {
//!     pool: Pool,
//!     conns: HashMap<ConnectionId, Conn>,
//!     /// What callers await, by token.
//!     ends: HashMap<u64, Result<ConnectionId, String>>,
//!     to_open: Vec<ConnectionId>,
//! }
//!
//! impl Host {
//!     /// After each call that changes something.
//!     fn drain(&mut self, now: Time) -> Option<Time> {
//!         while let Some(output) = self.pool.poll_output(now, |id| self.conns[&id].load) {
//!             match output {
//!                 Output::Open { id } => self.to_open.push(id),
//!                 Output::Granted { token, id, .. } => {
//!                     self.ends.insert(token.0, Ok(id));
//!                 }
//!                 Output::Placed { token, id, .. } => {
//!                     self.count(id);
//!                     self.ends.insert(token.0, Ok(id));
//!                 }
//!                 Output::Failed { token, cause } => {
//!                     self.ends.insert(token.0, Err(cause.to_string()));
//!                 }
//!                 Output::Shared { id } => self.conns.get_mut(&id).unwrap().drain = false,
//!                 Output::Drain { id } => {
//!                     self.conns.get_mut(&id).unwrap().drain = true;
//!                     self.report_idle(id);
//!                 }
//!                 Output::Reset { id: _ } => { /* send what resets a session, if it is owed */ }
//!                 Output::Close { id } => drop(self.conns.remove(&id)),
//!                 Output::Closed => {}
//!             }
//!         }
//!         self.pool.poll_deadline() // set the timer to it, and call `handle_time` then
//!     }
//!
//!     /// A place counts from the moment in which it is given.
//!     fn count(&mut self, id: ConnectionId) {
//!         self.conns.get_mut(&id).unwrap().load.unanswered += 1;
//!     }
//!
//!     /// A reply is complete.
//!     fn answered(&mut self, now: Time, id: ConnectionId) {
//!         let load = &mut self.conns.get_mut(&id).unwrap().load;
//!         load.unanswered -= 1;
//!         load.since = now;
//!         self.report_idle(id);
//!     }
//!
//!     fn report_idle(&mut self, id: ConnectionId) {
//!         let conn = &self.conns[&id];
//!         if conn.load.is_idle() && (conn.drain || self.pool.waiting() > 0) {
//!             self.pool.handle_drained(id);
//!         }
//!     }
//!
//!     /// A connection that was asked for is there.
//!     fn opened(&mut self, now: Time, id: ConnectionId) {
//!         let load = Load { since: now, room: 1024, ..Load::default() };
//!         self.conns.insert(id, Conn { load, drain: false });
//!         self.pool.handle_opened(now, id);
//!         self.drain(now);
//!     }
//! }
//!
//! let now = Time::ZERO;
//! let limits = Limits { connections_max: 1, ..Limits::default() };
//! let pool = Pool::new(limits, 42); // a seed from the system's randomness
//! let mut host = Host { pool, conns: HashMap::new(), ends: HashMap::new(), to_open: Vec::new() };
//!
//! // A session is wanted: a connection is opened for it.
//! host.pool.checkout(now, Token(1), None);
//! host.drain(now);
//! let id = host.to_open.pop().unwrap();
//! host.opened(now, id);
//! assert_eq!(host.ends[&1], Ok(id));
//!
//! // A statement finds no connection that takes it, and waits for the session to end.
//! assert_eq!(host.pool.place(now, TextKey::UNTOLD, |id| host.conns[&id].load), None);
//! host.pool.wait_shared(now, Token(2), TextKey::UNTOLD, None);
//! let deadline = host.drain(now).unwrap();
//! assert!(deadline <= now.after(Duration::from_secs(30)));
//!
//! host.pool.release(now, id, Condition::Clean);
//! host.drain(now);
//! assert_eq!(host.ends[&2], Ok(id));
//! host.answered(now, id);
//!
//! // The next statement goes there at once, without a token.
//! assert_eq!(host.pool.place(now, TextKey::UNTOLD, |id| host.conns[&id].load), Some(id));
//! host.count(id);
//! host.drain(now);
//! ```
//!
//! # A host with many threads
//!
//! Placing a statement needs no lock: [`choose`] is a pure function over the loads of the
//! connections that take shared work, which are those between an [`Output::Shared`] and the next
//! `Granted`, `Drain` or `Close`. Such a host first counts the statement in the load, and then
//! looks whether the connection still takes shared work; if not, it takes the statement out again,
//! reports the connection as drained if that was the last, and asks anew. A statement that slips in
//! before an exclusive caller or before the goodbye does no harm: its reply comes first.
//!
//! The host asks the pool instead where `choose` finds nothing, where [`Patience::waits`] says so,
//! and while [`Pool::waiting_in_order`] is not zero, or statements would overtake those in line. With
//! the connection's lock it asks whether the [choice still holds](Choice::holds). It calls
//! [`Pool::grow`] where [`Choice::helps`] says so and [`Pool::can_grow`] is true. All of them are worth
//! a copy that can be read without the lock. Those of `waiting` and `waiting_in_order` are written as
//! soon as a caller was added, before the outputs are taken, and again afterwards: whoever makes a
//! connection idle first takes the statement out of the load and then looks at the copy, so either the
//! pool sees the one or the host the other.
//!
//! A host may also keep connections that came back for their next exclusive user on the same
//! thread; to the pool they are still checked out. It hands them over when somebody waits or after
//! a while, and says since when they are idle ([`Pool::release`]).

mod backoff;
mod commands;
mod connections;
mod decide;
mod events;
mod hedges;
mod limits;
mod load;
mod new_texts;
mod output;
mod repeats;
mod timings;
mod upkeep;
mod waiters;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Time;
use crate::jitter::Jitter;
use backoff::Backoff;
use connections::{Connections, State};
use new_texts::NewTexts;
use waiters::Waiters;

pub use backoff::Pauses;
pub use connections::ConnectionId;
pub use hedges::{Hedge, Hedges};
pub use limits::{IdleOrder, Limits};
pub use load::{Behind, Choice, Load, Patience, choose};
pub use output::{Cause, Condition, Output};
pub use repeats::Repeats;
pub use timings::{Ended, Expected, Task, TextKey, Timings, Workload};
pub use waiters::Ticket;

/// The policy of one pool of connections to one server; see the [module](self).
///
/// The methods are of four kinds:
///
/// * *getters*;
/// * *what happened*, named `handle_…`: a connection was opened or could not be, was lost, drained
///   or has room again, and time;
/// * *commands*: [`place`](Self::place), [`checkout`](Self::checkout),
///   [`wait_shared`](Self::wait_shared), [`give_up`](Self::give_up), [`release`](Self::release),
///   [`retire`](Self::retire), [`grow`](Self::grow), [`close`](Self::close);
/// * *drains*: [`poll_output`](Self::poll_output) says what to do.
///
/// After each call that changes something the host drains and asks
/// [`poll_deadline`](Self::poll_deadline) anew. Time must not go backwards.
pub struct Pool {
    limits: Limits,
    connections: Connections,
    waiters: Waiters,
    backoff: Backoff,
    jitter: Jitter,
    outputs: VecDeque<Output>,
    /// Something changed since the last decision.
    undecided: bool,
    /// Connections that became free, of which the host may not know that they take shared work.
    freed: Vec<ConnectionId>,
    /// One more connection is wanted in the background.
    wish: bool,
    /// No connection has to be looked at before this moment.
    next_look: Time,
    life: Life,
    opens: u64,
    open_failures: u64,
    /// How long it took to open the last connection.
    opening_time: Duration,
    timings: Arc<Timings>,
    hedges: Arc<Hedges>,
    /// Shared callers in line that wait to be alone: others don't wait behind them.
    wait_alone: usize,
    /// The connections that those are worth.
    wanted_alone: usize,
    new_texts: NewTexts,
    /// When those have to be looked at again.
    next_late: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    Closing,
    Closed,
}

/// Callers in line, up to which a shared one waits for a better place than it could have.
const CHOOSY_MAX: usize = 1024;

/// How a pool asks its host for the load of a connection.
type LoadOf<'a> = &'a mut dyn FnMut(ConnectionId) -> Load;

impl Pool {
    /// A pool without connections. The first call of [`poll_output`](Self::poll_output) asks for
    /// [`Limits::connections_min`] of them.
    ///
    /// `seed` is for the jitter of lifetimes and pauses: clients of one server should have
    /// different ones.
    pub fn new(limits: Limits, seed: u64) -> Pool {
        let limits = limits.sane();
        let timings = Arc::new(Timings::new(&limits));
        Pool {
            limits,
            connections: Connections::new(),
            waiters: Waiters::new(),
            backoff: Backoff::new(),
            jitter: Jitter::new(seed),
            outputs: VecDeque::new(),
            undecided: true,
            freed: Vec::new(),
            wish: false,
            next_look: Time::NEVER,
            life: Life::Open,
            opens: 0,
            open_failures: 0,
            opening_time: Duration::ZERO,
            timings,
            hedges: Arc::default(),
            wait_alone: 0,
            wanted_alone: 0,
            new_texts: NewTexts::default(),
            next_late: Time::NEVER,
        }
    }

    // --- getters ---

    /// The limits, as they count.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether it has not forgotten this connection.
    pub fn is_known(&self, id: ConnectionId) -> bool {
        self.connections.find(id).is_some()
    }

    /// Connections of any state, those that are being opened included.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Connections that are being opened.
    pub fn opening(&self) -> usize {
        self.connections.count(State::Opening)
    }

    /// Connections that take shared statements, idle or not.
    pub fn shared(&self) -> usize {
        self.connections.count(State::Shared)
    }

    /// Those of them that are idle.
    pub fn idle(&self, mut load_of: impl FnMut(ConnectionId) -> Load) -> usize {
        let shared = self.connections.list(State::Shared).iter();
        shared.filter(|index| self.load(**index, &mut load_of).is_idle()).count()
    }

    /// Connections that drain for an exclusive caller.
    pub fn claimed(&self) -> usize {
        self.connections.count(State::Claimed)
    }

    /// Connections that exclusive callers have.
    pub fn exclusive(&self) -> usize {
        self.connections.count(State::Exclusive)
    }

    /// Connections that drain to be closed.
    pub fn retiring(&self) -> usize {
        self.connections.count(State::Retiring)
    }

    /// Callers in line, of both kinds. While this is not zero the host reports each connection that
    /// becomes idle.
    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Connections that were opened so far.
    pub fn opens(&self) -> u64 {
        self.opens
    }

    /// Attempts to open one that failed so far.
    pub fn open_failures(&self) -> u64 {
        self.open_failures
    }

    /// Whether [`grow`](Self::grow) would do something: there is room, and none is being opened or
    /// planned.
    pub fn can_grow(&self) -> bool {
        let room = self.connections.len() < self.limits.connections_max;
        self.life == Life::Open && room && self.opening() == 0 && !self.wish
    }

    /// Callers in line behind which a shared statement waits that may share its connection. Those
    /// who wait to be alone are not among them.
    pub fn waiting_in_order(&self) -> usize {
        self.waiting().saturating_sub(self.wait_alone)
    }

    /// How long the texts of statements took, for the connections to add to.
    pub fn timings(&self) -> &Arc<Timings> {
        &self.timings
    }

    /// How many reads may be sent a second time, for hosts that ask without the pool's lock.
    pub fn hedges(&self) -> &Arc<Hedges> {
        &self.hedges
    }

    /// When a shared statement waits in line rather than behind a slow one.
    ///
    /// [`Patience::coming`] is [`Limits::slow_head`] and as long again as opening a connection took
    /// last. `None` where none can come: at [`Limits::connections_max`], and while attempts fail.
    pub fn patience(&self) -> Patience {
        let room = self.connections.len() < self.limits.connections_max;
        let comes = self.life == Life::Open && (room || self.opening() > 0);
        let coming = (comes && !self.backoff.failing())
            .then(|| self.limits.slow_head.saturating_add(self.opening_time));
        // In a line this long nobody is choosy any more: what fills it is a flood.
        let choosy = self.waiters.len() < CHOOSY_MAX;
        // A connection that somebody has to himself is no other way.
        let others = coming.is_some() || self.shared() + self.claimed() > 1;
        Patience { coming, others: choosy && others }
    }

    /// Whether the pool is closed and every connection gone.
    pub fn is_closed(&self) -> bool {
        self.life == Life::Closed
    }

    // --- drains ---

    /// What to do next, oldest first; `None` when that is all for now.
    ///
    /// `load_of` says what the host knows of a connection. It is asked for connections that take
    /// shared statements or drain, which it has reported as opened and not as lost.
    pub fn poll_output(
        &mut self,
        now: Time,
        mut load_of: impl FnMut(ConnectionId) -> Load,
    ) -> Option<Output> {
        self.decide(now, &mut load_of);
        loop {
            let output = self.outputs.pop_front()?;
            match output {
                Output::Shared { id } | Output::Drain { id } | Output::Reset { id }
                    if self.connections.find(id).is_none() =>
                {
                    // It was lost in the meantime.
                    continue;
                }
                Output::Placed { id, .. } => self.keep_promise(id),
                _ => {}
            }
            return Some(output);
        }
    }

    /// When to call [`handle_time`](Self::handle_time) next, unless something else happens first.
    /// Ask when the outputs are taken.
    pub fn poll_deadline(&self) -> Option<Time> {
        if self.life != Life::Open {
            return None;
        }
        let looks = self.next_look.min(self.next_late);
        let next = self.waiters.next_deadline().min(looks).min(self.next_attempt());
        (next != Time::NEVER).then_some(next)
    }

    // --- private ---

    /// From here on the host counts a statement that was placed.
    fn keep_promise(&mut self, id: ConnectionId) {
        if let Some(index) = self.connections.find(id) {
            self.connections.slot_mut(index).promised.keep();
        }
    }
}

/// Counts only.
impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("life", &self.life)
            .field("opening", &self.opening())
            .field("shared", &self.shared())
            .field("claimed", &self.claimed())
            .field("exclusive", &self.exclusive())
            .field("retiring", &self.retiring())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}
