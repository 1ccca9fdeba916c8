//! The policy of a pool: which connection takes a request, when another is opened, which caller is
//! next, and what expires.
//!
//! A [`Pool`] knows connections by their ids and callers by their tokens. It holds no socket, reads
//! no clock and sends no byte: it says what to do, and the host does it and reports the result. Two
//! kinds of caller share the connections:
//!
//! * A *shared* caller puts one statement on a connection that carries statements of others, too.
//!   It is [placed](Pool::place) at once on a connection that takes shared work, and waits only if
//!   there is none.
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
//! From each of these states a connection may become *retiring*: it takes no new work, and is
//! closed when it has drained. A connection that is lost is forgotten at once, whatever its state.
//!
//! # Who is next
//!
//! There is one line for both kinds of caller, first come, first served. A connection that becomes
//! free because it was opened, drained or released goes to the front of the line, whichever caller
//! caused that. If shared callers are at the front, all of them up to the next exclusive one are
//! placed on it together.
//!
//! An exclusive caller that finds no idle connection causes one to be opened. If none can be opened
//! (at [`Limits::connections_max`], at [`Limits::opening_max`], or because the last attempt
//! failed), it *claims* the shared connection with the least work. That connection takes no new
//! statement, and is free when it has drained. There are never more claims than callers in
//! line that want a connection to themselves, statements that may be slow included.
//!
//! One rule comes before the order of the line: a shared caller does not wait behind an exclusive
//! one that has no use for the connection. If every exclusive caller already has a claim or an
//! opening, and a connection takes shared work, shared callers are placed on it wherever they are
//! in line.
//!
//! # Slow neighbours
//!
//! A connection answers in order, so a statement placed behind a slow one waits for it. The pool
//! learns how long each text takes ([`Timings`]), and expects the same of its next call.
//!
//! * A statement that is expected to be quick goes behind other quick ones, up to
//!   [`Limits::share_wait`] of work before another connection is used.
//! * A statement whose text is not known yet, takes long, or did so at times goes to an idle
//!   connection. It waits in line for one. One is opened or claimed for it, as for an exclusive caller. One connection is left to quick statements, which overtake it in line.
//! * Of statements in line whose text was never seen, one of each text is tried first. Connections
//!   are opened for the others only when it is late.
//! * Nothing is placed behind such a statement, nor behind one that has been running for longer
//!   than [`Limits::slow_head`], while there is another connection or may be one. The statement
//!   then waits in line for whichever is free first. [`Patience`] is the rule.
//! * A statement that may wait for a lock ([`TextKey::locking`]) goes behind its own kind, and alone
//!   while anybody has a connection to itself. Nothing else goes behind one while there is another
//!   connection. If all seem to wait for a lock, those in line go to one all the same, where the
//!   statement in front is taken away ([`Limits::yield_after`]); if none takes shared work, to one
//!   that drains, unless the host has [retired](Pool::retire) it.
//! * A statement whose text the host does not name ([`TextKey::UNTOLD`]) goes behind a slow one
//!   only when waiting for a connection that is being opened would take longer.
//! * If its caller asked for that, a read that may run twice is sent again elsewhere when a
//!   statement in front of it takes long. [`Hedges`] is the rule.
//! * If [`connections_max`](Limits::connections_max) is 1, or more than 1,024 callers are in line,
//!   statements are placed one behind the other: in the first case there is no other way, in the
//!   second no time to choose.
//!
//! # A host's loop
//!
//! The host calls a method for each event or wish, and then always does the same: it takes the
//! outputs and carries them out, then asks for the next deadline. The pool decides in
//! [`Pool::poll_output`], where it can ask for the loads.
//!
//! ```
//! use std::collections::HashMap;
//! use std::time::Duration;
//! use onetrip_engine::pool::{
//!     Condition, ConnectionId, Limits, Load, Output, Pool, Served, TextKey,
//! };
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
//!                 Output::Granted(Served { token, id, .. }) => {
//!                     self.ends.insert(token.0, Ok(id));
//!                 }
//!                 Output::Placed(Served { token, id, .. }) => {
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
//!                 Output::Scout => { /* look for another server, then call `handle_scouted` */ }
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
//! connections that take shared work. Those are the connections between an [`Output::Shared`] and
//! the next `Granted`, `Drain` or `Close`. The host first counts the statement in the load, and
//! then checks whether the connection still takes shared work. If not, it takes the statement out
//! of the load again, reports the connection as drained if that was the last, and chooses anew. A
//! statement that slips in before an exclusive caller or before the goodbye does no harm: its reply
//! comes first.
//!
//! The host asks the pool instead if `choose` finds no connection, if [`Patience::waits`] says so,
//! and while [`Pool::waiting_in_order`] is not zero, since statements would overtake those in line.
//! Under the connection's lock it asks whether the [choice still holds](Choice::holds). It calls
//! [`Pool::grow`] if [`Choice::helps`] says so and [`Pool::can_grow`] is true. It pays to keep
//! copies of these values that can be read without the lock.
//!
//! The copies of `waiting` and `waiting_in_order` are written as soon as a caller was added, before
//! the outputs are taken, and again afterwards. A thread that makes a connection idle first takes
//! the statement out of the load and then reads the copy. So either the pool sees the idle
//! connection, or the thread sees the waiting caller.
//!
//! A host may also keep a returned connection for the next exclusive user on the same thread; the
//! pool regards it as checked out. The host hands it over when a caller waits, or after a while,
//! and says since when it is idle ([`Pool::release`]).

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
mod scouting;
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
use scouting::Scouting;
use waiters::Waiters;

pub use backoff::Pauses;
pub use connections::ConnectionId;
pub use events::OpenFailure;
pub use hedges::{Hedge, Hedges};
pub use limits::{IdleOrder, Limits};
pub use load::{Behind, Choice, Load, Patience, choose};
pub use output::{Cause, Condition, Output, Served};
pub use repeats::{Repeats, Requeue};
pub use timings::{Ended, Expected, Task, TextKey, Timings, Workload};
pub use waiters::Ticket;

/// The policy of one pool of connections to one server; see the [module](self).
///
/// The methods are of four kinds:
///
/// * *getters*;
/// * *what happened*, named `handle_…`: a connection was opened or failed to open, was lost,
///   drained or has room again, and time passed;
/// * *commands*: [`place`](Self::place), [`checkout`](Self::checkout),
///   [`wait_shared`](Self::wait_shared), [`give_up`](Self::give_up), [`release`](Self::release),
///   [`retire`](Self::retire), [`grow`](Self::grow), [`close`](Self::close),
///   [`cut`](Self::cut);
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
    /// Connections that became free, which the host may not know yet to take shared work.
    freed: Vec<ConnectionId>,
    /// One more connection is wanted in the background.
    wish: bool,
    /// No connection has to be looked at before this moment.
    next_look: Time,
    life: Life,
    opens: u64,
    open_failures: u64,
    /// See [`serves_node`](Pool::serves_node) and [`connects`](Pool::connects).
    is_node: bool,
    is_new: bool,
    /// How long opening the last connection took.
    opening_time: Duration,
    timings: Arc<Timings>,
    hedges: Arc<Hedges>,
    /// Shared callers in line that wait for a connection without other work. Others don't wait
    /// behind them.
    wait_alone: usize,
    /// The connections that those are worth.
    wanted_alone: usize,
    new_texts: NewTexts,
    /// When those have to be looked at again.
    next_late: Time,
    scouting: Scouting,
    /// Since when nothing was answered, as of the last look.
    silent_since: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    /// Nobody new is served.
    Closing,
    Closed,
}

/// Up to this many callers in line, a shared one waits for a better place than it could have now.
const CHOOSY_MAX: usize = 1024;

/// How a pool asks its host for the load of a connection.
type LoadOf<'a> = &'a mut dyn FnMut(ConnectionId) -> Load;

impl Pool {
    /// A pool without connections. The first call of [`poll_output`](Self::poll_output) asks for
    /// [`Limits::connections_min`] of them.
    ///
    /// `seed` is for the random part of lifetimes and pauses: clients of one server should have
    /// different seeds.
    pub fn new(limits: Limits, seed: u64) -> Pool {
        let limits = limits.sane();
        let timings = Arc::new(Timings::new(&limits));
        let scouting = Scouting::new(limits.scout_after);
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
            is_node: false,
            is_new: false,
            opening_time: Duration::ZERO,
            timings,
            hedges: Arc::default(),
            wait_alone: 0,
            wanted_alone: 0,
            new_texts: NewTexts::default(),
            next_late: Time::NEVER,
            scouting,
            silent_since: Time::ZERO,
        }
    }

    // --- getters ---

    /// The limits in effect.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether the pool still knows this connection.
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

    /// The shared connections that are idle.
    pub fn idle(&self, mut load_of: impl FnMut(ConnectionId) -> Load) -> usize {
        let shared = self.connections.list(State::Shared).iter();
        shared.filter(|index| self.load(**index, &mut load_of).is_idle()).count()
    }

    /// Connections that drain for an exclusive caller.
    pub fn claimed(&self) -> usize {
        self.connections.count(State::Claimed)
    }

    /// Connections that are checked out by exclusive callers.
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

    /// Attempts to open a connection that failed so far.
    pub fn open_failures(&self) -> u64 {
        self.open_failures
    }

    /// Whether [`grow`](Self::grow) would do anything: there is room, and no connection is being
    /// opened or planned.
    pub fn can_grow(&self) -> bool {
        let room = self.connections.len() < self.limits.connections_max;
        self.life == Life::Open && room && self.opening() == 0 && !self.wish
    }

    /// Callers in line that a shared statement must wait behind. Those that wait for a connection
    /// of their own are not counted.
    pub fn waiting_in_order(&self) -> usize {
        self.waiting().saturating_sub(self.wait_alone)
    }

    /// How long the statements of each text took. The connections add their measurements to it.
    pub fn timings(&self) -> &Arc<Timings> {
        &self.timings
    }

    /// How many reads may be sent a second time, for hosts that ask without the pool's lock.
    pub fn hedges(&self) -> &Arc<Hedges> {
        &self.hedges
    }

    /// The rule for when a shared statement waits in line rather than behind a slow one.
    ///
    /// [`Patience::coming`] is [`Limits::slow_head`] plus the time that opening the last connection
    /// took. It is `None` if no connection can come: at [`Limits::connections_max`] while none is
    /// being opened, and while attempts fail.
    pub fn patience(&self) -> Patience {
        let room = self.connections.len() < self.limits.connections_max;
        let comes = !self.is_winding_up() && (room || self.opening() > 0);
        let coming = (comes && !self.backoff.failing())
            .then(|| self.limits.slow_head.saturating_add(self.opening_time));
        // A line this long is a flood, and there is no time to choose.
        let choosy = self.waiters.len() < CHOOSY_MAX;
        // A connection that one caller has to itself is no alternative.
        let others = coming.is_some() || self.shared() + self.claimed() > 1;
        let holders = self.timings.holders().any();
        Patience { coming, others: choosy && others, holders }
    }

    /// Whether the pool is closed and every connection gone.
    pub fn is_closed(&self) -> bool {
        self.life == Life::Closed
    }

    // --- drains ---

    /// What to do next, oldest first; `None` when that is all for now.
    ///
    /// `load_of` returns the host's load of a connection. It is asked for connections which the host
    /// has reported as opened and not as lost: those that take shared statements or drain, and all
    /// if [`Limits::scout_after`] is set.
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
                    // The connection was lost in the meantime.
                    continue;
                }
                Output::Placed(Served { id, .. }) => self.keep_promise(id),
                _ => {}
            }
            return Some(output);
        }
    }

    /// When to call [`handle_time`](Self::handle_time) next, unless something else happens first.
    /// Ask after the outputs were taken.
    pub fn poll_deadline(&self) -> Option<Time> {
        if self.is_winding_up() {
            return None;
        }
        let looks = self.next_look.min(self.next_late).min(self.scouting.next_look());
        let next = self.waiters.next_deadline().min(looks).min(self.next_attempt());
        (next != Time::NEVER).then_some(next)
    }

    // --- private ---

    /// Whether the pool ends and nobody is in line any more.
    fn is_winding_up(&self) -> bool {
        self.life != Life::Open && self.waiters.len() == 0
    }

    /// From now on the host counts a statement that was placed, so the pool no longer does.
    fn keep_promise(&mut self, id: ConnectionId) {
        if let Some(index) = self.connections.find(id) {
            self.connections.slot_mut(index).promised.keep();
        }
    }
}

/// Shows counts only.
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
