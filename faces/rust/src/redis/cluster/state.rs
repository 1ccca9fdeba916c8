//! The state that the lock of a cluster protects, and the callers of commands.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

use onetrip_engine::Time;
use onetrip_redis::Command;
use onetrip_redis::client::router::{FlightId, Limits, NodeId, Router};

use super::super::call::{Body, Call};
use super::super::link::Landed;
use super::super::node::Node;
use super::super::published::Family;
use super::cell::Cell;
use crate::Error;

pub(super) struct State {
    pub(super) router: Router,
    pub(super) nodes: HashMap<NodeId, Arc<Node>>,
    pub(super) callers: HashMap<u64, Caller>,
    pub(super) next_caller: u64,
    /// Why the topology could not be fetched, if the last attempt failed.
    pub(super) no_topology: Option<Error>,
    /// Tasks to wake once the lock is released.
    pub(super) wakers: Vec<Waker>,
    /// Commands that failed before they were sent, to be reported once the outputs are taken.
    pub(super) landed: Vec<(FlightId, Landed)>,
    /// The nodes to ask for the topology, once the lock is released.
    pub(super) to_ask: Vec<Option<NodeId>>,
    pub(super) armed: Time,
    pub(super) closed: bool,
    /// Why it was closed, if not by its owner.
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
            closed: false,
            closed_because: None,
        }
    }

    /// Whether nothing is left to do.
    pub(super) fn is_over(&self) -> bool {
        self.closed && self.router.unanswered() == 0
    }

    /// Unsubscribes from a sharded channel at a node. Without a connection there is nothing to do.
    pub(super) fn unsubscribe(&self, node: NodeId, channel: &[u8]) {
        let link = self.nodes.get(&node).and_then(|node| node.shared.current());
        let Some(link) = link else { return };
        let command = Command::new(Family::Sharded.unsubscribe()).arg(channel);
        let body = Body::Confirmed(command, 1);
        let call = Call::of(body, Time::NEVER);
        link.say(call).into_iter().for_each(|token| link.forget(token));
    }

    pub(super) fn next_deadline(&self) -> Time {
        self.router.poll_deadline().unwrap_or(Time::NEVER)
    }
}

/// The caller of a command.
pub(super) struct Caller {
    pub(super) cell: Arc<Cell>,
    pub(super) deadline: Time,
    /// Why a node did not answer it, or could not be reached, the last time.
    pub(super) last_error: Option<Error>,
    /// What is sent, if it is not a plain command.
    pub(super) body: Option<Body>,
}

impl Caller {
    pub(super) fn new(deadline: Time, body: Option<Body>) -> Caller {
        Caller { cell: Arc::new(Cell::default()), deadline, last_error: None, body }
    }
}
