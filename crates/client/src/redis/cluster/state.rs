//! What the lock of a cluster protects, and who waits for commands.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use onetrip_engine::{Outcome, Time};
use onetrip_redis::client::router::{FlightId, Limits, NodeId, Router};

use super::super::call::Body;
use super::super::error::deadline;
use super::super::link::Landed;
use super::super::node::Node;
use super::cell::Cell;
use crate::Error;

pub(super) struct State {
    pub(super) router: Router,
    pub(super) nodes: HashMap<NodeId, Arc<Node>>,
    pub(super) callers: HashMap<u64, Caller>,
    pub(super) next_caller: u64,
    /// Why the topology could not be had, unless it could since.
    pub(super) no_topology: Option<Error>,
    /// Who is to be woken once the lock is released.
    pub(super) wakers: Vec<Waker>,
    /// What failed before it was sent, to be reported once the outputs are taken.
    pub(super) landed: Vec<(FlightId, Landed)>,
    /// Whom to ask for the topology, once the lock is released.
    pub(super) to_ask: Vec<Option<NodeId>>,
    pub(super) armed: Time,
    /// No deadline of a caller lies before this moment.
    pub(super) earliest: Time,
    pub(super) closed: bool,
    /// Why, if not by its owner.
    pub(super) closed_because: Option<Error>,
}

impl State {
    pub(super) fn new(limits: Limits, seed: u64) -> State {
        State {
            router: Router::new(limits, seed),
            nodes: HashMap::new(),
            callers: HashMap::new(),
            next_caller: 0,
            no_topology: None,
            wakers: Vec::new(),
            landed: Vec::new(),
            to_ask: Vec::new(),
            armed: Time::NEVER,
            earliest: Time::NEVER,
            closed: false,
            closed_because: None,
        }
    }

    /// Whether nothing is left to be done.
    pub(super) fn is_over(&self) -> bool {
        self.closed && self.router.unanswered() == 0
    }

    pub(super) fn next_deadline(&self) -> Time {
        self.router.poll_deadline().unwrap_or(Time::NEVER).min(self.earliest)
    }
}

/// Who waits for a command.
pub(super) struct Caller {
    pub(super) cell: Arc<Cell>,
    pub(super) deadline: Time,
    pub(super) was_sent: bool,
    /// Parts of it that are with connections, which watch the deadline then.
    pub(super) on_the_way: usize,
    /// Some of it was answered, or nobody knows what became of it.
    pub(super) may_have_run: bool,
    /// Why a node did not answer it, or could not be reached, the last time.
    pub(super) last_error: Option<Error>,
    /// What is sent where it is no plain command.
    pub(super) body: Option<Body>,
}

impl Caller {
    pub(super) fn new(deadline: Time, body: Option<Body>) -> Caller {
        Caller {
            cell: Arc::new(Cell::default()),
            deadline,
            was_sent: false,
            on_the_way: 0,
            may_have_run: false,
            last_error: None,
            body,
        }
    }
}

/// Ends the wait of callers whose time is over while nothing of theirs is on its way.
pub(super) fn expire(state: &mut State, now: Time) {
    if state.earliest > now {
        return;
    }
    let late = |caller: &Caller| caller.deadline <= now && caller.on_the_way == 0;
    let tokens: Vec<u64> =
        state.callers.iter().filter(|(_, caller)| late(caller)).map(|(token, _)| *token).collect();
    for token in tokens {
        if let Some(caller) = state.callers.remove(&token) {
            let outcome = match (caller.may_have_run, caller.was_sent) {
                (true, _) => Outcome::Unknown,
                (false, true) => Outcome::Rejected,
                (false, false) => Outcome::NotSent,
            };
            state.wakers.extend(caller.cell.settle(Err(deadline(outcome))));
        }
    }
    let left = state.callers.values().filter(|caller| caller.on_the_way == 0);
    state.earliest = left.map(|caller| caller.deadline).min().unwrap_or(Time::NEVER);
}
