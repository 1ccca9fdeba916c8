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
mod failed;
mod flights;
mod gather;
mod lanes;
mod limits;
mod nodes;
mod plan;
mod refresh;
mod slab;

use std::collections::VecDeque;

use bytes::Bytes;
use onetrip_engine::{Outcome, Time, Token};

use crate::command::Command;
use crate::redirect::Address;
use crate::table::{Described, Spec};
use crate::topology::Topology;

pub use alone::Onward;
pub use failed::{Failed, Refused, Why};
pub use flights::FlightId;
pub use limits::Limits;
pub use nodes::NodeId;

use flights::{Flight, Goal, Request};
use gather::Gather;
use lanes::Lanes;
use nodes::Nodes;
use plan::Plan;
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
    /// What goes to all nodes, and came before any was known.
    lobby: VecDeque<Early>,
    outputs: VecDeque<Output>,
    /// What the table does not know.
    described: Described,
    /// The number of the next command: the order in which they were submitted.
    next: u64,
    seed: u64,
    /// Nothing that is held has to be looked at before this moment.
    next_look: Time,
}

/// What the host has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Send [the command](Router::command) of this flight to this node, behind what it was told to send
    /// there before.
    Send {
        /// Comes back with [`Router::handle_reply`] or [`Router::handle_failed`].
        flight: FlightId,
        /// Where to.
        node: NodeId,
        /// Send ASKING in front of it, so that nothing comes between; its reply is not reported.
        asking: bool,
    },
    /// A command has ended.
    Finish {
        /// Whose it is.
        token: Token,
        /// The reply, which may be an error of the server, or why there is none.
        result: Result<Bytes, Failed>,
    },
    /// Ask for the topology, this node if one is named and any other otherwise, and report it with
    /// [`Router::handle_topology`] or [`Router::handle_no_topology`].
    Refresh {
        /// A node that should know.
        from: Option<NodeId>,
    },
    /// A node is part of the cluster. A connection to it is needed when something is sent there.
    Open {
        /// What it is called from now on.
        node: NodeId,
        /// Where it listens.
        address: Address,
    },
    /// A node is no longer part of the cluster, and nothing is unanswered there.
    Close {
        /// Which one.
        node: NodeId,
    },
}

/// How a command is to be treated.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Running it twice does no harm.
    pub repeatable: bool,
    /// A replica may answer, if it only reads.
    pub from_replica: bool,
    /// The hash slot of its keys, where its caller knows better than its description.
    pub slot: Option<u16>,
}

struct Early {
    token: Token,
    command: Command,
    how: How,
    since: Time,
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
            lobby: VecDeque::new(),
            outputs: VecDeque::new(),
            described: Described::default(),
            next: 0,
            seed,
            next_look: Time::NEVER,
        }
    }

    // --- getters ---

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
        let deadline = self.next_look.min(self.refresh.due());
        (deadline != Time::NEVER).then_some(deadline)
    }

    // --- commands ---

    /// From now on it knows the keys of these commands too: of modules, of later versions.
    pub fn learn(&mut self, described: Described) {
        self.described = described;
    }

    /// Takes a command, which [`Output::Finish`] ends. Refused, with nothing sent, where it can't be
    /// routed, or would have to wait and too many [do](Limits::held_max).
    pub fn submit(
        &mut self,
        now: Time,
        token: Token,
        command: Command,
        how: How,
    ) -> Result<(), Refused> {
        let spec = self.described.of(&command);
        let from_replica = how.from_replica && spec.is_some_and(Spec::is_readonly);
        let how = How { from_replica, ..how };
        let plan = plan::plan(&command, spec, how)?;
        if self.held() >= self.limits.held_max && self.waits(&plan) {
            return Err(Refused::Full);
        }
        self.carry_out(now, token, command, plan, how);
        self.decide(now);
        Ok(())
    }

    /// Whether some of it would wait here.
    fn waits(&self, plan: &Plan) -> bool {
        match plan {
            Plan::One(Goal::Slot(slot)) => !self.lanes.is_open(*slot),
            Plan::Split { parts, .. } => parts.iter().any(|(slot, _)| !self.lanes.is_open(*slot)),
            Plan::One(_) | Plan::Nodes { .. } => self.nodes.is_empty(),
        }
    }

    fn carry_out(&mut self, now: Time, token: Token, command: Command, plan: Plan, how: How) {
        match plan {
            Plan::One(goal) => self.one(now, token, command, goal, how),
            Plan::Split { parts, gather } => {
                let goals =
                    parts.into_iter().map(|(slot, part)| (Goal::Slot(slot), part)).collect();
                self.several(now, token, goals, gather, how);
            }
            Plan::Nodes { .. } if self.nodes.is_empty() => {
                self.lobby.push_back(Early { token, command, how, since: now });
                self.look_at(now.after(self.limits.held_time_max));
                self.refresh.want(now);
            }
            Plan::Nodes { replicas, kind } => {
                let nodes = self.nodes.all(replicas);
                let names = nodes.iter().filter_map(|node| self.nodes.address(*node).cloned());
                let gather = Gather::of_nodes(kind, names.collect());
                let goals = nodes.iter().map(|node| (Goal::Node(*node), command.clone())).collect();
                self.several(now, token, goals, gather, how);
            }
        }
    }

    fn one(&mut self, now: Time, token: Token, command: Command, goal: Goal, how: How) {
        let request = self.requests.insert(Request { token, gather: None });
        self.launch(now, Flight::new(request, 0, command, goal, how));
    }

    fn several(
        &mut self,
        now: Time,
        token: Token,
        parts: Vec<(Goal, Command)>,
        gather: Gather,
        how: How,
    ) {
        let request = self.requests.insert(Request { token, gather: Some(Box::new(gather)) });
        for (part, (goal, command)) in parts.into_iter().enumerate() {
            self.launch(now, Flight::new(request, part, command, goal, how));
        }
    }

    // --- what happened ---

    /// The whole reply to a flight came, without attributes; that of ASKING is not one. Ignored where
    /// the flight has ended.
    pub fn handle_reply(&mut self, now: Time, flight: FlightId, reply: Bytes) {
        let Some(from) = self.land(flight) else { return };
        self.replied(now, flight, from, reply);
        self.after(now, from);
    }

    /// A flight has no reply: its connection was lost, or never was. Ignored where it has ended.
    pub fn handle_failed(&mut self, now: Time, flight: FlightId, outcome: Outcome) {
        let Some(from) = self.land(flight) else { return };
        self.refresh.want(now);
        self.lost(now, flight, outcome);
        self.after(now, from);
    }

    /// The answer to [`Output::Refresh`].
    pub fn handle_topology(&mut self, now: Time, topology: &Topology) {
        let moved = self.refresh.done(now);
        for (node, address) in self.nodes.update(topology) {
            self.outputs.push_back(Output::Open { node, address });
        }
        let sent = self.sent_by_slot();
        self.lanes.follow(topology, &self.nodes, &moved, sent);
        self.settle_redirects(now);
        let known = !self.nodes.is_empty();
        let lobby = if known { std::mem::take(&mut self.lobby) } else { VecDeque::new() };
        for early in lobby {
            let Early { token, command, how, .. } = early;
            if self.submit(now, token, command, how).is_err() {
                self.finish(token, Err(Failed::unserved(Outcome::NotSent)));
            }
        }
        self.pump_all(now);
        self.close_nodes();
        // What nobody has may be somebody's soon.
        if self.lanes.busy().into_iter().any(|slot| self.is_unserved(Some(slot))) {
            self.refresh.want(now);
        }
        self.decide(now);
    }

    /// The topology could not be had. It is asked for again after a pause, from another node.
    pub fn handle_no_topology(&mut self, now: Time) {
        self.refresh.failed(now);
        self.decide(now);
    }

    /// It is so late now. Does what was due.
    pub fn handle_time(&mut self, now: Time) {
        if now >= self.next_look {
            self.next_look = Time::NEVER;
            self.expire(now);
            self.pump_all(now);
            self.look_again(now);
        }
        self.decide(now);
    }

    // --- the drain ---

    /// What to do next. In this order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The last step of each call: whether it is time to ask for the topology.
    fn decide(&mut self, now: Time) {
        if self.refresh.begins(now) {
            let from = self.nodes.next_master();
            self.outputs.push_back(Output::Refresh { from });
        }
    }

    fn after(&mut self, now: Time, from: flights::From) {
        self.nodes.answered(from.node);
        if let Goal::Slot(slot) = from.goal {
            self.pump(now, slot);
        }
        self.close_nodes();
        self.decide(now);
    }

    fn pump_all(&mut self, now: Time) {
        for slot in self.lanes.busy() {
            self.pump(now, slot);
        }
        self.pump_loose(now);
    }

    fn finish(&mut self, token: Token, result: Result<Bytes, Failed>) {
        self.outputs.push_back(Output::Finish { token, result });
    }

    fn close_nodes(&mut self) {
        while let Some(node) = self.nodes.take_closed() {
            self.outputs.push_back(Output::Close { node });
        }
    }

    fn look_at(&mut self, moment: Time) {
        self.next_look = self.next_look.min(moment);
    }
}
