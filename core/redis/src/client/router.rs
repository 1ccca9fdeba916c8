//! The routing policy of a cluster: which node a command goes to, what happens if that was the
//! wrong one, and how the replies of several nodes are combined. The router sends nothing and reads
//! no clock: it says what to do, and the host reports the result.
//!
//! # Where a command goes
//!
//! * With keys: to the node that has their hash slot. Keys in two slots are refused before anything
//!   is sent, and the error names two of them. But MGET, MSET, DEL, EXISTS, UNLINK and TOUCH are
//!   split by slot, and their replies are combined in the order of the keys. A split MSET is not
//!   atomic. MSETNX is all or nothing, and so is not split.
//! * Without keys: to any master, to all masters, or to all nodes, as the description of the
//!   command says (`request_policy`). The description also says how the replies are combined
//!   (`response_policy`).
//! * A command whose keys are not known is refused, unless the caller names the slot.
//! * Replicas are read from only if the caller allows it, and only by read-only commands.
//!
//! # Order
//!
//! While one node has a hash slot, the commands of that slot reach it in the order in which they
//! were submitted. Each slot has a *slot queue* (`Lane` in the code). A command that a node refuses
//! with a redirect goes to the front of its slot queue, in that order. From there it goes to the
//! new node at once, since the old node answers in order, too. Later commands wait in the slot
//! queue until nothing of the slot is unanswered at the old node. A command that is sent on by
//! `ASK` takes its place among those to the other node, with ASKING directly in front. A command
//! that a node refuses for a while (`TRYAGAIN`, `CLUSTERDOWN`, `LOADING`, `MASTERDOWN`) pauses its
//! slot queue, but commands behind it that were already sent may run before it.
//!
//! For this to hold, the host sends the commands for one node in the order of the outputs, over one
//! connection.
//!
//! # What is sent again
//!
//! A command that was refused with one of these errors never started, and is sent again, a bounded
//! number of times. So is a script that the host called by its hash instead of by EVAL and that its
//! node does not know (`NOSCRIPT`), unless a later command was already sent for its slot. A command
//! that was not sent is sent again for as long as it may wait: [`Limits::held_time_max`] in all, here
//! and in the lines of nodes. A command whose outcome is unknown is sent again only if the caller
//! said that it is repeatable.
//!
//! A script can answer with any error after it has written something. So an error of a script
//! counts as such a refusal only if it is, word for word, the text of a server. A script that
//! answers with exactly that text can't be told from the server, and is sent again.
//!
//! A redirect is followed only to a node of the topology. If it names another, the topology is
//! asked for again; if that does not have the node either, the command fails.
//!
//! # Nodes that can't be reached
//!
//! A node whose connection was lost, or to which none could be opened, is *away* until there is one
//! or it answers. One command at a time tries it, with pauses. All others are held here, and the
//! topology is asked for again meanwhile, at other nodes. They go to the node that takes over as
//! soon as the topology says so, or to their own once it is back, in their order. So nothing waits
//! in the line of a node that may be dead, but for what tries it, and what was in it before: a host
//! lets a command wait there for [`LINE_WAIT`] only.
//!
//! Commands that use a connection of their own are not held: they may block, so none can stand for
//! the others.
//!
//! # Sharded channels
//!
//! A channel is subscribed at the node that has its hash slot. Where that ends, since the
//! connection was lost or the slot moved, the router subscribes again by itself, and says that
//! messages may have been missed.
//!
//! # The topology
//!
//! The topology is asked for at the beginning, after a MOVED, after a node was lost, while commands
//! wait for a node, and from time to time. There is never more than one request for it at a time,
//! and the pause between two differs from client to client. If a node moved a slot while the answer
//! was on its way, the slot keeps its new node, and the topology is asked for again.

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
mod sharded;
mod slab;
mod submit;
mod subscribing;

use std::collections::VecDeque;

use onetrip_engine::{Time, Token};

use crate::command::Command;
use crate::redirect::Address;
use crate::table::Described;

pub use alone::Onward;
pub use failed::{Failed, Refused, Why};
pub use flight::FlightId;
pub use limits::{LINE_WAIT, Limits, TOPOLOGY_TIMEOUT};
pub use list::refusal_of_list;
pub use nodes::NodeId;
pub use output::{How, Output};
pub use plan::{slot_of_all, slot_of_keys};
pub use sharded::{SUBSCRIBES_AGAIN, unsubscribed};

use flight::{Early, Flight, Request};
use lanes::Lanes;
use nodes::Nodes;
use refresh::Refresh;
use sharded::Sharded;
use slab::Slab;

/// The policy of one client of one cluster; see the [module](self).
///
/// After each call that changes something the host takes the [outputs](Self::poll_output) and asks
/// for the [deadline](Self::poll_deadline) anew. Time must not go backwards.
pub struct Router {
    limits: Limits,
    nodes: Nodes,
    lanes: Lanes,
    flights: Slab<Flight>,
    requests: Slab<Request>,
    refresh: Refresh,
    sharded: Sharded,
    lobby: Vec<Early>,
    outputs: VecDeque<Output>,
    /// Commands that the table does not know.
    described: Described,
    /// The number of the next command. Numbers give the order of submission.
    next: u64,
    seed: u64,
    /// Whether nothing is sent or held any more.
    is_closed: bool,
    /// Nothing that is held needs attention before this moment.
    next_look: Time,
}

impl Router {
    /// A router that knows no node yet, so it first asks for the topology. `seed` is for pauses:
    /// clients of one cluster should have different seeds.
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
            sharded: Sharded::default(),
            lobby: Vec::new(),
            outputs: VecDeque::new(),
            described: Described::default(),
            next: 0,
            seed,
            is_closed: false,
            next_look: Time::NEVER,
        }
    }

    /// The command of a flight, to be encoded; `None` once the flight has ended.
    #[must_use]
    pub fn command(&self, flight: FlightId) -> Option<&Command> {
        self.flights.get(flight.0).map(|flight| &flight.command)
    }

    /// The token of a flight's command; `None` once the flight has ended.
    #[must_use]
    pub fn token(&self, flight: FlightId) -> Option<Token> {
        let flight = self.flights.get(flight.0)?;
        self.requests.get(flight.request).map(|request| request.token)
    }

    /// The node that has a hash slot, or any master if `slot` is `None`. `None` if no such node is
    /// known.
    #[must_use]
    pub fn node_at(&mut self, slot: Option<u16>) -> Option<NodeId> {
        match slot {
            Some(slot) => self.node_of(slot),
            None => {
                let reached = self.nodes.next_master();
                reached.or_else(|| self.nodes.all(false).first().copied())
            }
        }
    }

    /// The node that has a hash slot; `None` if none is known.
    #[must_use]
    pub fn node_of(&self, slot: u16) -> Option<NodeId> {
        self.lanes.route(slot)
    }

    /// The address of a node; `None` once the node is closed.
    #[must_use]
    pub fn address(&self, node: NodeId) -> Option<&Address> {
        self.nodes.address(node)
    }

    /// Commands that have not ended.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.requests.len() + self.lobby.len()
    }

    /// Commands, or parts of commands, that wait here before they are sent or sent again.
    #[must_use]
    pub fn held(&self) -> usize {
        self.lanes.held() + self.lobby.len()
    }

    /// When [`handle_time`](Self::handle_time) has something to do next.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Time> {
        let deadline = match self.is_closed {
            true => Time::NEVER,
            false => self.next_look.min(self.refresh.due()).min(self.sharded.due),
        };
        (deadline != Time::NEVER).then_some(deadline)
    }

    /// What to do next. Outputs must be carried out in this order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
