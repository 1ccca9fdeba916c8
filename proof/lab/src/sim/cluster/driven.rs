//! The policy of a cluster, driven as a face drives it, over one connection of the engine to each
//! node.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use onetrip_engine::{
    Cause, CloseReason, Connection, End, Failure, Limits, Outcome, Output as Said, SubmitError,
    Ticket, Time, Token, Violation,
};
use onetrip_redis::client::router::{
    Failed, FlightId, How, NodeId, Output, Router, Why, refusal_of_list,
};
use onetrip_redis::client::scripts::Scripts;
use onetrip_redis::client::topology::Topology;
use onetrip_redis::redirect::Address;
use onetrip_redis::scan::ScanLimits;
use onetrip_redis::{Command, Event, Expect, Redis, Reply, Spec};

use super::mutation::{Mistakes, Own};
use crate::redis::model::script_hash;
use crate::redis::model::slots::node_at;
use crate::sim::driven::{Driven, Load};

/// The request of a caller.
#[derive(Clone, Debug)]
pub struct Call {
    pub(super) token: Token,
    pub(super) command: Command,
    pub(super) how: How,
    pub(super) body: Body,
}

/// The form in which the command is sent.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Command,
    /// A script, by its hash if its node knows it.
    Script(Arc<[u8]>),
    /// MULTI, this many commands, and EXEC.
    List(Bytes, u32),
}

/// A router, and its nodes.
pub struct Cluster {
    pub(super) router: Router,
    limits: Limits,
    pub(super) nodes: Vec<Node>,
    /// The model's number of each of the router's nodes.
    numbers: BTreeMap<NodeId, usize>,
    callers: BTreeMap<u64, Call>,
    next: u64,
    /// Connections to open again.
    opened: VecDeque<usize>,
    said: VecDeque<Said<Event>>,
    /// How many MOVED and how many ASK redirects the router got.
    pub(super) redirects: [u64; 2],
    /// How many commands failed because they were redirected too often.
    pub(super) sent_around: u64,
    /// How many connections were lost.
    pub(super) lost: u32,
    /// The violations that the connections reported.
    pub(super) violations: Vec<Violation>,
    pub(super) mistakes: Mistakes,
    terminated: bool,
    told: bool,
}

/// One node: its connection, and the unanswered requests on it.
pub(super) struct Node {
    connection: Connection<Redis>,
    scripts: Scripts,
    /// Unanswered requests by their token on the connection.
    pub(super) sent: BTreeMap<u64, Sent>,
}

pub(super) enum Sent {
    Topology(BytesMut),
    Flight(Flight),
}

pub(super) struct Flight {
    id: FlightId,
    pub(super) asking: bool,
    /// The slot of its keys.
    pub(super) slot: Option<u16>,
    is_script: bool,
    is_list: bool,
    reply: BytesMut,
}

impl Node {
    fn new(now: Time, limits: &Limits) -> Node {
        let redis = Redis::new(ScanLimits::default());
        Node {
            connection: Connection::new(now, redis, limits.clone()),
            scripts: Scripts::default(),
            sent: BTreeMap::new(),
        }
    }
}

impl Cluster {
    pub(super) fn new(
        seed: u64,
        nodes: usize,
        limits: Limits,
        router: onetrip_redis::client::router::Limits,
        mutation: Option<Own>,
    ) -> Cluster {
        let mut cluster = Cluster {
            router: Router::new(router, seed),
            nodes: (0..nodes).map(|_| Node::new(Time::ZERO, &limits)).collect(),
            limits,
            numbers: BTreeMap::new(),
            callers: BTreeMap::new(),
            next: 0,
            opened: VecDeque::new(),
            said: VecDeque::new(),
            redirects: [0; 2],
            sent_around: 0,
            lost: 0,
            violations: Vec::new(),
            mistakes: Mistakes::new(mutation),
            terminated: false,
            told: false,
        };
        cluster.router.handle_time(Time::ZERO);
        cluster.settle(Time::ZERO);
        cluster
    }

    /// A caller stops waiting.
    pub(super) fn give_up(&mut self, now: Time, token: Token) {
        self.router.give_up(now, token);
        self.settle(now);
    }

    /// Carries out the router's orders and reports the results to it, until it has no more orders.
    fn settle(&mut self, now: Time) {
        loop {
            let mut moved = false;
            while let Some(output) = self.router.poll_output() {
                self.act(now, output);
                moved = true;
            }
            for at in 0..self.nodes.len() {
                while let Some(said) = self.nodes[at].connection.poll_output() {
                    self.hear(now, at, said);
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        let is_over = self.is_closed();
        if is_over && !std::mem::replace(&mut self.told, true) {
            self.said.push_back(Said::Closed(CloseReason::Host));
        }
    }

    fn act(&mut self, now: Time, output: Output) {
        match output {
            Output::Send { flight, node, asking } => self.send(now, flight, node, asking),
            Output::Finish { token, result } => self.finish(token, result),
            Output::Refresh { from } => self.ask(now, from),
            Output::Open { node, address } => {
                self.numbers.insert(node, node_at(address.port));
            }
            // No host of a simulation subscribes.
            Output::Unsubscribe { .. } | Output::Resubscribed { .. } => {}
            Output::Close { node } => {
                self.numbers.remove(&node);
            }
        }
    }

    fn send(&mut self, now: Time, id: FlightId, node: NodeId, asking: bool) {
        let caller = self.router.token(id).and_then(|token| self.callers.get(&token.0));
        let (Some(call), Some(command)) = (caller.cloned(), self.router.command(id).cloned())
        else {
            return;
        };
        let at = self.numbers[&node];
        let asking = asking && !self.mistakes.forgets_asking();
        let none = Scripts::default();
        let scripts = if asking { &none } else { &self.nodes[at].scripts };
        let mut bytes = BytesMut::new();
        if asking {
            Command::new("ASKING").encode(&mut bytes);
        }
        let expect = write(&command, &call.body, scripts, &mut bytes);
        let expect = if asking { expect.behind_asking() } else { expect };
        let flight = Flight {
            id,
            asking,
            slot: call.how.slot,
            is_script: matches!(call.body, Body::Script(_)),
            is_list: matches!(call.body, Body::List(..)),
            reply: BytesMut::new(),
        };
        let request = onetrip_engine::Request {
            deadline: call.how.deadline.unwrap_or(Time::NEVER),
            again: matches!(&call.body, Body::Script(text) if knows(scripts, text)),
            in_order: true,
            reserved: true,
            ..onetrip_engine::Request::isolated(Token(0), expect)
        };
        if !self.submit_to(now, at, request, &bytes, Sent::Flight(flight)) {
            return self.router.handle_failed(now, id, Outcome::NotSent);
        }
        if let (Body::Script(text), false) = (&call.body, asking) {
            self.nodes[at].scripts.sent(script_hash(text).as_bytes());
        }
    }

    /// Asks a node for the topology.
    fn ask(&mut self, now: Time, from: Option<NodeId>) {
        let at = from.and_then(|node| self.numbers.get(&node).copied());
        let at = at.unwrap_or(self.next as usize % self.nodes.len());
        let mut bytes = BytesMut::new();
        Command::new("CLUSTER SLOTS").encode(&mut bytes);
        let request = onetrip_engine::Request {
            reserved: true,
            ..onetrip_engine::Request::isolated(Token(0), Expect::reply())
        };
        if !self.submit_to(now, at, request, &bytes, Sent::Topology(BytesMut::new())) {
            self.router.handle_no_topology(now);
        }
    }

    /// Hands a request to the connection of a node. If the connection has ended, opens it again.
    fn submit_to(
        &mut self,
        now: Time,
        at: usize,
        request: onetrip_engine::Request<Expect>,
        bytes: &[u8],
        sent: Sent,
    ) -> bool {
        if self.terminated {
            return false;
        }
        if self.nodes[at].connection.is_closed() {
            // The outputs of the previous connection come first.
            while let Some(said) = self.nodes[at].connection.poll_output() {
                self.hear(now, at, said);
            }
            self.nodes[at] = Node::new(now, &self.limits);
            self.opened.push_back(at);
            self.note(now, at, Router::handle_connected);
        }
        self.next += 1;
        let token = self.next;
        let request = onetrip_engine::Request { token: Token(token), ..request };
        let node = &mut self.nodes[at];
        let result = node.connection.submit(now, request, |out| {
            out.extend_from_slice(bytes);
            Ok::<_, ()>(())
        });
        if result.is_ok() {
            node.sent.insert(token, sent);
        }
        result.is_ok()
    }

    /// Tells the router of a connection.
    fn note(&mut self, now: Time, at: usize, tell: fn(&mut Router, Time, NodeId)) {
        let node = self.numbers.iter().find(|(_, number)| **number == at).map(|(node, _)| *node);
        if let Some(node) = node {
            tell(&mut self.router, now, node);
        }
    }

    fn hear(&mut self, now: Time, at: usize, said: Said<Event>) {
        match said {
            Said::Data { token, block } => match self.nodes[at].sent.get_mut(&token.0) {
                Some(Sent::Flight(flight)) => flight.reply.extend_from_slice(&block),
                Some(Sent::Topology(reply)) => reply.extend_from_slice(&block),
                None => {}
            },
            Said::Restarted { token } => {
                if let Some(Sent::Flight(flight)) = self.nodes[at].sent.get_mut(&token.0) {
                    flight.reply.clear();
                }
            }
            Said::Ended { token, block, end, .. } => match self.nodes[at].sent.remove(&token.0) {
                Some(Sent::Flight(flight)) => self.land(now, at, flight, &block, end),
                Some(Sent::Topology(mut reply)) => {
                    reply.extend_from_slice(&block);
                    self.learn(now, at, &reply, end);
                }
                None => {}
            },
            Said::Closed(reason) => {
                self.lost += u32::from(!self.terminated);
                self.note(now, at, Router::handle_disconnected);
                if let CloseReason::Violation(what) = reason {
                    self.violations.push(what);
                }
            }
            Said::Event { .. } => self.said.push_back(said),
            _ => {}
        }
    }

    fn land(&mut self, now: Time, at: usize, mut flight: Flight, block: &Bytes, end: End) {
        if flight.is_script && end != End::Complete {
            self.nodes[at].scripts.doubt();
        }
        let id = flight.id;
        let reply = match end {
            End::Failed(Failure { cause: Cause::Server, .. }) => block.clone(),
            End::Failed(Failure { cause, outcome }) => {
                let outcome = self.mistakes.outcome(outcome);
                return match cause {
                    Cause::Deadline => self.router.handle_expired(now, id, outcome),
                    _ => self.router.handle_failed(now, id, outcome),
                };
            }
            End::Complete | End::Provisional => {
                flight.reply.extend_from_slice(block);
                let reply = flight.reply.freeze();
                if flight.asking { reply.slice(OK.len()..) } else { reply }
            }
        };
        let refusal = refusal_of_list(&reply).filter(|_| flight.is_list);
        let reply = refusal.map_or(reply.clone(), |refusal| reply.slice_ref(refusal));
        self.redirects[0] += u64::from(reply.starts_with(b"-MOVED "));
        self.redirects[1] += u64::from(reply.starts_with(b"-ASK "));
        let reply = self.mistakes.reply(reply);
        self.router.handle_reply(now, id, reply);
    }

    fn learn(&mut self, now: Time, at: usize, reply: &[u8], end: End) {
        let asked = Address { host: "node".into(), port: 7000 + at as u16 };
        let reply = Reply::read(reply).ok().filter(|_| end == End::Complete);
        match reply.and_then(|(reply, _)| Topology::from_slots(&reply, &asked).ok()) {
            Some(topology) => self.router.handle_topology(now, &topology),
            None => self.router.handle_no_topology(now),
        }
    }

    fn finish(&mut self, token: Token, result: Result<Bytes, Failed>) {
        let Some(call) = self.callers.remove(&token.0) else {
            // It ends for the second time.
            let end = End::Complete;
            return self.said.push_back(Said::Ended {
                token,
                block: Bytes::new(),
                end,
                together: false,
            });
        };
        let leaves = Spec::of(&call.command).is_none_or(Spec::may_leave_effects);
        let (block, end) = match result {
            Ok(block) if matches!(block.first(), Some(b'-' | b'!')) => {
                let outcome = onetrip_redis::protocol::outcome_of_frame(&block, leaves);
                (block, failed(outcome, Cause::Server))
            }
            Ok(block) => (block, End::Complete),
            Err(Failed { outcome, why, reply }) => {
                self.sent_around += u64::from(why == Why::Redirects);
                let cause = match (why, outcome) {
                    (Why::Deadline, _) => Cause::Deadline,
                    (Why::GivenUp, Outcome::NotSent) => Cause::Cancelled,
                    (Why::Server, _) => Cause::Server,
                    _ => Cause::Closed,
                };
                (
                    reply.filter(|_| cause == Cause::Server).unwrap_or_default(),
                    failed(outcome, cause),
                )
            }
        };
        self.said.push_back(Said::Ended { token, block, end, together: false });
    }

    fn connections(&self) -> impl Iterator<Item = &Connection<Redis>> {
        self.nodes.iter().map(|node| &node.connection)
    }
}

const fn failed(outcome: Outcome, cause: Cause) -> End {
    End::Failed(Failure { outcome, cause })
}

fn knows(scripts: &Scripts, text: &[u8]) -> bool {
    scripts.has(script_hash(text).as_bytes())
}

/// Writes the command to be sent, and returns the expected reply.
fn write(command: &Command, body: &Body, scripts: &Scripts, out: &mut BytesMut) -> Expect {
    match body {
        Body::Script(text) if knows(scripts, text) => {
            let hash = script_hash(text);
            let mut call = Command::new("EVALSHA").arg(hash);
            command.iter().skip(2).for_each(|argument| call.push(argument));
            call.encode(out);
            Expect::reply().script(text.clone())
        }
        Body::Script(_) | Body::Command => {
            command.encode(out);
            let leaves = Spec::of(command).is_none_or(Spec::may_leave_effects);
            if leaves { Expect::reply().leaving() } else { Expect::reply() }
        }
        Body::List(bytes, count) => {
            out.extend_from_slice(bytes);
            Expect::atomic(*count)
        }
    }
}

const OK: &[u8] = b"+OK\r\n";

impl Driven for Cluster {
    type Request = Call;
    type Event = Event;

    fn submit(
        &mut self,
        now: Time,
        call: Call,
        _: &[u8],
        whole: bool,
    ) -> Result<Ticket, SubmitError<()>> {
        if self.terminated {
            return Err(SubmitError::Closed);
        }
        if !whole {
            return Err(SubmitError::Encode(()));
        }
        let (token, command, how) = (call.token, call.command.clone(), call.how);
        self.callers.insert(token.0, call);
        if self.router.submit(now, token, command, how).is_err() {
            self.callers.remove(&token.0);
            return Err(SubmitError::QueueFull);
        }
        self.settle(now);
        Ok(Ticket::Sent)
    }

    fn settle_debts(&mut self, _: Time) {}

    fn wait(&mut self, _: Token, _: Time) -> Option<Ticket> {
        None
    }

    fn end_turn(&mut self, _: Time) {}

    fn cancel(&mut self, _: Time, _: Ticket) -> bool {
        false
    }

    fn terminate(&mut self, now: Time) {
        self.router.close();
        self.settle(now);
        self.terminated = true;
        self.nodes.iter_mut().for_each(|node| node.connection.terminate(now));
        self.settle(now);
    }

    fn handle_bytes(&mut self, now: Time, at: usize, input: &mut BytesMut) -> usize {
        let need = self.nodes[at].connection.handle_bytes(now, input);
        self.settle(now);
        need
    }

    fn handle_written(&mut self, now: Time, at: usize, bytes: usize) {
        self.nodes[at].connection.handle_written(now, bytes);
        self.settle(now);
    }

    fn handle_time(&mut self, now: Time) {
        self.nodes.iter_mut().for_each(|node| node.connection.handle_time(now));
        self.settle(now);
        self.router.handle_time(now);
        self.settle(now);
    }

    fn handle_closed(&mut self, now: Time, at: usize) {
        self.nodes[at].connection.handle_closed();
        self.settle(now);
    }

    fn transmit(&self, at: usize) -> &[u8] {
        self.nodes[at].connection.transmit()
    }

    fn poll_output(&mut self) -> Option<Said<Event>> {
        self.said.pop_front()
    }

    fn poll_deadline(&self) -> Option<Time> {
        let of_nodes = self.connections().filter_map(Connection::poll_deadline);
        of_nodes.chain(self.router.poll_deadline()).min()
    }

    fn wants_bytes(&self, at: usize) -> bool {
        self.nodes[at].connection.wants_bytes()
    }

    fn is_idle(&self) -> bool {
        self.router.unanswered() == 0 && self.connections().all(Connection::is_idle)
    }

    fn is_closed(&self) -> bool {
        self.terminated && self.connections().all(Connection::is_closed)
    }

    fn is_link_closed(&self, at: usize) -> bool {
        self.nodes[at].connection.is_closed()
    }

    fn poll_link(&mut self) -> Option<usize> {
        self.opened.pop_front()
    }

    /// The largest load of a connection.
    fn load(&self) -> Load {
        let loads = self.connections().map(Driven::load);
        loads.reduce(Load::max).expect("a cluster has nodes")
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unanswered, held) = (self.router.unanswered(), self.router.held());
        write!(f, "Cluster {{ unanswered: {unanswered}, held: {held}, ")?;
        f.debug_list().entries(self.connections()).finish()?;
        f.write_str(" }")
    }
}
