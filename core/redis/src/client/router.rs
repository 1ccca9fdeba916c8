//! The policy of a cluster: which node a command goes to, what becomes of it where that was the wrong
//! one, and what is made of the replies of several. It sends nothing and reads no clock: it says what
//! to do, and the host reports what came of it.
//!
//! # Where a command goes
//!
//! * With keys: to the node that has their hash slot. Keys in two slots are refused before anything is
//!   sent, with both named; but MGET, MSET, DEL, EXISTS, UNLINK and TOUCH are split by slot, and the
//!   replies put together in the order of the keys. A split MSET is not atomic. MSETNX is all or
//!   nothing, and is not split.
//! * Without keys: to any master, or to all of them, or to all nodes, as the description of the command
//!   says (`request_policy`); what is made of the replies it says too (`response_policy`).
//! * A command whose keys are not known is refused, unless the caller names the slot.
//! * A replica is read from only where the caller allows it, and only by what is read-only.
//!
//! # Order
//!
//! Commands of one hash slot reach the node in the order in which they were submitted, as long as one
//! node has the slot. Each slot has a *lane*. What a node refuses with a redirect goes to the front of
//! its lane, in that order, and from there to the new node at once, since the old node answers in order
//! too. What comes later waits in the lane until nothing of the slot is unanswered at the old node. A
//! command that is asked elsewhere (`ASK`) takes its place among those to that node, behind ASKING in
//! the same go. What a node refuses for a while (`TRYAGAIN`, `CLUSTERDOWN`, `LOADING`, `MASTERDOWN`)
//! pauses its lane, but those behind it that were sent already may come before it.
//!
//! For this the host sends what goes to one node in the order in which it was told, over one connection.
//!
//! # What is sent again
//!
//! What was refused with one of these errors never started, and what was not sent did not either: both
//! are sent again, a bounded number of times. So is a script that the host called by its hash in place of EVAL and
//! that its node does not know (`NOSCRIPT`), unless what was submitted later was sent for its slot. What is unknown is not, unless the caller said that it is
//! repeatable. A script can answer with any error, behind what it has written: what it says is taken for such
//! an error only where it is, word for word, what servers say; a script that says just that can't be told from its
//! server, and is sent again. A redirect is followed only to a node of the topology; where it names another, a
//! topology that was asked for afterwards has to have it, or the command fails.
//!
//! # The topology
//!
//! It is asked for at the beginning, after a MOVED, after a node was lost, while a slot is nobody's, and
//! now and then: never twice at a time, and with a pause between that differs from client to client. A
//! slot that a node moved while the answer was on its way keeps where it was moved to, and the topology
//! is asked for again.

mod again;
mod alone;
mod events;
mod failed;
mod flight;
mod flights;
mod gather;
mod lanes;
mod limits;
mod list;
mod nodes;
mod output;
mod plan;
mod refresh;
mod slab;
mod submit;

use std::collections::VecDeque;

use onetrip_engine::{Time, Token};

use crate::command::Command;
use crate::redirect::Address;
use crate::table::Described;

pub use alone::Onward;
pub use failed::{Failed, Refused, Why};
pub use flight::FlightId;
pub use limits::Limits;
pub use list::refusal_of_list;
pub use nodes::NodeId;
pub use output::{How, Output};
pub use plan::{slot_of_all, slot_of_keys};

use flight::{Early, Flight, Request};
use lanes::Lanes;
use nodes::Nodes;
use refresh::Refresh;
use slab::Slab;

/// The policy of one client of one cluster; see the [module](self).
///
/// After each call that changes something the host takes the [outputs](Self::poll_output) and asks for
/// the [deadline](Self::poll_deadline) anew. Time must not go backwards.
pub struct Router {
    limits: Limits,
    nodes: Nodes,
    lanes: Lanes,
    flights: Slab<Flight>,
    requests: Slab<Request>,
    refresh: Refresh,
    lobby: Vec<Early>,
    outputs: VecDeque<Output>,
    /// What the table does not know.
    described: Described,
    /// The number of the next command: the order in which they were submitted.
    next: u64,
    seed: u64,
    /// Nothing is sent again, or waits.
    is_closed: bool,
    /// Nothing that is held has to be looked at before this moment.
    next_look: Time,
}

impl Router {
    /// A router that knows no node yet: it asks for the topology first. `seed` is for pauses: clients
    /// of one cluster should have different ones.
    #[must_use]
    pub fn new(limits: Limits, seed: u64) -> Router {
        let refresh = Refresh::new(&limits, seed);
        Router {
            limits,
            nodes: Nodes::default(),
            lanes: Lanes::new(),
            flights: Slab::new(),
            requests: Slab::new(),
            refresh,
            lobby: Vec::new(),
            outputs: VecDeque::new(),
            described: Described::default(),
            next: 0,
            seed,
            is_closed: false,
            next_look: Time::NEVER,
        }
    }

    /// The command of a flight, to be encoded. `None` when it has ended.
    #[must_use]
    pub fn command(&self, flight: FlightId) -> Option<&Command> {
        self.flights.get(flight.0).map(|flight| &flight.command)
    }

    /// Whose a flight is. `None` when it has ended.
    #[must_use]
    pub fn token(&self, flight: FlightId) -> Option<Token> {
        let flight = self.flights.get(flight.0)?;
        self.requests.get(flight.request).map(|request| request.token)
    }

    /// The node that has a hash slot; without one, a master. `None` when none is known to.
    #[must_use]
    pub fn node_at(&mut self, slot: Option<u16>) -> Option<NodeId> {
        match slot {
            Some(slot) => self.node_of(slot),
            None => self.nodes.next_master(),
        }
    }

    /// The node that has a hash slot. `None` when none is known to.
    #[must_use]
    pub fn node_of(&self, slot: u16) -> Option<NodeId> {
        self.lanes.route(slot)
    }

    /// Where a node listens. `None` when it is closed.
    #[must_use]
    pub fn address(&self, node: NodeId) -> Option<&Address> {
        self.nodes.address(node)
    }

    /// Commands that have not ended.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.requests.len() + self.lobby.len()
    }

    /// Commands, or parts of one, that wait here before they are sent, at first or again.
    #[must_use]
    pub fn held(&self) -> usize {
        self.lanes.held() + self.lobby.len()
    }

    /// When [`handle_time`](Self::handle_time) has something to do.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Time> {
        let deadline = match self.is_closed {
            true => Time::NEVER,
            false => self.next_look.min(self.refresh.due()),
        };
        (deadline != Time::NEVER).then_some(deadline)
    }

    /// What to do next. In this order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
