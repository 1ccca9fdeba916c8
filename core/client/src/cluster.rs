//! A Redis cluster as the host holds it: the client's routing policy, over nodes that the host
//! opens and drives. The policy decides where a command goes, what is sent again, and how several
//! replies are combined.

use bytes::Bytes;
use onetrip_engine::{Outcome, Time, Token, memory};
use onetrip_redis::client::router::{
    Failed, FlightId, How, Limits, NodeId, Output, Refused, Router, SUBSCRIBES_AGAIN, Why,
    slot_of_all, unsubscribed,
};
use onetrip_redis::client::topology::Topology;
use onetrip_redis::command::Head;
use onetrip_redis::redirect::Address;
use onetrip_redis::{Command, Reply};

use crate::completion::{
    Completion, Completions, Record, cluster_why, kind, outcome, outcome_code,
};
use crate::redis::Packed;
use crate::redis::look;

/// One cluster.
#[allow(missing_debug_implementations, reason = "it holds what nobody should read")]
pub struct Cluster {
    router: Router,
    /// The flights that were sent, by the host's numbers.
    flights: Vec<Option<FlightId>>,
    /// Free numbers of flights.
    free: Vec<u32>,
    /// The nodes that are open, by the host's numbers.
    nodes: Vec<Option<NodeId>>,
    completions: Completions,
}

/// Options of a command, as bits that the host sets.
pub mod flag {
    /// Running it twice is harmless.
    pub const REPEATABLE: u32 = 1;
    /// A replica may answer it if it only reads.
    pub const FROM_REPLICA: u32 = 1 << 1;
    /// It may block, so it is sent on its own connection.
    pub const OWN: u32 = 1 << 2;
    /// It runs as a whole and is sent as the host wrote it: a script, or MULTI with a list of
    /// commands.
    pub const WHOLE: u32 = 1 << 3;
}

/// The token of subscriptions that are made again.
pub const AGAIN: u32 = SUBSCRIBES_AGAIN.0 as u32;

/// Why a part of a command has no reply.
#[derive(Clone, Copy, Debug)]
pub enum Unanswered {
    /// Its connection was lost, or could not be opened.
    Lost(Outcome),
    /// Its deadline passed on the connection.
    Expired(Outcome),
    /// It was taken back before it was sent, because its caller gave it up.
    TakenBack,
}

impl Cluster {
    /// A cluster that knows no node yet. `seed`: a different number for each.
    pub fn new(limits: Limits, seed: u64) -> Cluster {
        Cluster {
            router: Router::new(limits, seed),
            flights: Vec::new(),
            free: Vec::new(),
            nodes: Vec::new(),
            completions: Completions::default(),
        }
    }

    // --- callers ---

    /// Takes an encoded command, or several that run as a whole.
    pub fn submit(&mut self, now: Time, token: u32, flags: u32, commands: &[u8], deadline: Time) {
        // Its arguments are copied, and copied again if they are split.
        let taken = match memory::is_there(commands.len().saturating_mul(4)) {
            true => self.take_in(now, token, flags, commands, deadline),
            false => {
                let text = Bytes::from_static(NO_MEMORY.as_bytes());
                return self.refuse(token, cluster_why::NO_MEMORY, text);
            }
        };
        if let Err(refused) = taken {
            self.refuse(token, refused_code(&refused), Bytes::from(refused.to_string()));
        }
        self.settle();
    }

    fn take_in(
        &mut self,
        now: Time,
        token: u32,
        flags: u32,
        commands: &[u8],
        deadline: Time,
    ) -> Result<(), Refused> {
        let is = |flag| flags & flag != 0;
        let (slot, command) = match is(flag::WHOLE) {
            true => (Some(slot_of_all(&look::commands(commands))?), named(commands)),
            false => (None, look::command(commands)),
        };
        let how = How {
            repeatable: is(flag::REPEATABLE),
            from_replica: is(flag::FROM_REPLICA),
            own: is(flag::OWN),
            slot,
            deadline: Some(deadline),
        };
        self.router.submit(now, Token(token.into()), command, how)
    }

    fn refuse(&mut self, token: u32, why: u32, text: Bytes) {
        self.completions.push(kind::CLUSTER_FAILED, token, (why, outcome::NOT_SENT), text);
    }

    /// The caller of a command no longer waits for it.
    pub fn give_up(&mut self, now: Time, token: u32) {
        self.router.give_up(now, Token(token.into()));
        self.settle();
    }

    /// Nothing is sent any more.
    pub fn close(&mut self) {
        self.router.close();
        self.settle();
    }

    // --- sharded channels ---

    /// Subscribes to a sharded channel, for a caller with this token: a flight has the command, and
    /// a confirmation is its reply. It stays subscribed wherever its hash slot is.
    pub fn subscribe(&mut self, now: Time, token: u32, channel: &[u8], deadline: Time) {
        let token_of = Token(token.into());
        if let Err(refused) = self.router.subscribe(now, token_of, channel, Some(deadline)) {
            self.refuse(token, refused_code(&refused), Bytes::from(refused.to_string()));
        }
        self.settle();
    }

    /// Nobody reads a sharded channel any more.
    pub fn unsubscribe(&mut self, channel: &[u8]) {
        self.router.unsubscribe(channel);
        self.settle();
    }

    /// The connection of a node for the commands of all callers is open, or it was lost. It is told
    /// to be open before anything is sent on it.
    pub fn connected(&mut self, now: Time, node: u32, is_open: bool) {
        let Some(node) = self.nodes.get(node as usize).copied().flatten() else { return };
        match is_open {
            true => self.router.handle_connected(now, node),
            false => self.router.handle_disconnected(now, node),
        }
        self.settle();
    }

    /// A push came from a node, or the confirmation that something was unsubscribed there: the node
    /// may say that a channel went away with its hash slot. Whether it is that.
    pub fn pushed(&mut self, now: Time, node: u32, push: &[u8]) -> bool {
        let node = self.nodes.get(node as usize).copied().flatten();
        let (Some(node), Some(channel)) = (node, unsubscribed(push)) else { return false };
        self.router.handle_unsubscribed(now, node, channel);
        self.settle();
        true
    }

    /// The node that has a hash slot, or any master if `slot` is `None`; 0 for none.
    pub fn node_at(&mut self, slot: Option<u16>) -> u32 {
        self.router.node_at(slot).map_or(0, number_of)
    }

    // --- flights ---

    /// The command of a flight as it is sent, in two parts.
    pub fn command(&self, flight: u32) -> Option<(Head, &[u8])> {
        let flight = self.flights.get(flight as usize).copied().flatten()?;
        self.router.command(flight).map(Command::parts)
    }

    /// What is sent of a flight, for hosts in Rust. `of`: what was submitted.
    pub fn flight(&self, flight: u32, of: &Packed, asking: bool) -> Option<Packed> {
        let packed = match of.is_whole() {
            true => of.clone(),
            false => {
                let flight = self.flights.get(flight as usize).copied().flatten()?;
                of.with(self.router.command(flight)?)
            }
        };
        Some(if asking { packed.behind_asking() } else { packed })
    }

    /// The subscription that a flight has, for hosts in Rust; `None` for other commands.
    pub fn subscription(&self, flight: u32) -> Option<Packed> {
        let flight = self.flights.get(flight as usize).copied().flatten()?;
        let command = self.router.command(flight)?;
        (command.name() == SUBSCRIBE).then(|| Packed::confirmed(command, 1))
    }

    /// A reply came, or all replies to a list. Returns whether the command is answered with it, as
    /// it is.
    pub fn replied(&mut self, now: Time, flight: u32, reply: &[u8], is_list: bool) -> bool {
        let Some(flight) = self.landed(flight) else { return false };
        let is_final = match is_list {
            true => self.router.handle_list_in_place(now, flight, reply),
            false => self.router.handle_reply_in_place(now, flight, reply),
        };
        self.settle();
        is_final
    }

    /// A flight has ended, so its number is free.
    fn landed(&mut self, number: u32) -> Option<FlightId> {
        let flight = self.flights.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(flight)
    }

    /// No reply comes to a flight.
    pub fn unanswered(&mut self, now: Time, flight: u32, why: Unanswered) {
        let Some(flight) = self.landed(flight) else { return };
        match why {
            Unanswered::Lost(outcome) => self.router.handle_failed(now, flight, outcome),
            Unanswered::Expired(outcome) => self.router.handle_expired(now, flight, outcome),
            Unanswered::TakenBack => self.router.handle_taken_back(now, flight),
        }
        self.settle();
    }

    // --- the topology ---

    /// A node's reply to CLUSTER SLOTS. False if that is no valid topology.
    pub fn topology(&mut self, now: Time, reply: &[u8], (host, port): (&str, u16)) -> bool {
        let reply = memory::is_there(reply.len().saturating_mul(4)).then(|| Reply::read(reply));
        let topology = Address::new(host, port)
            .zip(reply)
            .and_then(|(asked, reply)| Topology::from_slots(&reply.ok()?.0, &asked).ok());
        match &topology {
            Some(topology) => self.router.handle_topology(now, topology),
            None => self.router.handle_no_topology(now),
        }
        self.settle();
        topology.is_some()
    }

    // --- time ---

    /// It is so late.
    pub fn time(&mut self, now: Time) {
        self.router.handle_time(now);
        self.settle();
    }

    /// When that is to be said next.
    pub fn deadline(&self) -> Time {
        self.router.poll_deadline().unwrap_or(Time::NEVER)
    }

    /// Frees the records that were taken before, and takes those that came since. Returns how many.
    pub fn take(&mut self) -> usize {
        self.completions.take().len()
    }

    /// The records that were taken last.
    pub fn taken(&self) -> &[Completion] {
        self.completions.taken()
    }

    /// The records since the last call, for hosts in Rust.
    pub fn drain(&mut self) -> impl Iterator<Item = Record> {
        self.completions.drain()
    }

    // --- outputs ---

    fn settle(&mut self) {
        while let Some(output) = self.router.poll_output() {
            self.tell(output);
        }
    }

    fn tell(&mut self, output: Output) {
        let none = Bytes::new();
        match output {
            Output::Send { flight, node, asking } => self.send(flight, node, asking),
            Output::Finish { token, result } => self.finish(token.0 as u32, result),
            Output::Refresh { from } => {
                let from = from.map_or(0, number_of);
                self.completions.push(kind::CLUSTER_ASK, 0, (from, 0), none);
            }
            Output::Open { node, address } => {
                self.note(node, Some(node));
                let (node, port) = (number_of(node), address.port.into());
                let host = Bytes::copy_from_slice(address.host.as_bytes());
                self.completions.push(kind::CLUSTER_OPEN, 0, (node, port), host);
            }
            Output::Unsubscribe { node, channel } => {
                let node = number_of(node);
                self.completions.push(kind::CLUSTER_UNSUBSCRIBE, 0, (node, 0), channel);
            }
            Output::Resubscribed { channel } => {
                self.completions.push(kind::CLUSTER_RESUBSCRIBED, 0, (0, 0), channel);
            }
            Output::Close { node } => {
                self.note(node, None);
                self.completions.push(kind::CLUSTER_CLOSE, 0, (number_of(node), 0), none);
            }
        }
    }

    /// What the router calls the node that the host has under its number.
    fn note(&mut self, node: NodeId, is: Option<NodeId>) {
        let number = number_of(node) as usize;
        if self.nodes.len() <= number {
            self.nodes.resize(number + 1, None);
        }
        self.nodes[number] = is;
    }

    fn send(&mut self, flight: FlightId, node: NodeId, asking: bool) {
        let Some(token) = self.router.token(flight) else { return };
        let number = self.free.pop().unwrap_or(self.flights.len() as u32);
        match self.flights.get_mut(number as usize) {
            Some(place) => *place = Some(flight),
            None => self.flights.push(Some(flight)),
        }
        let kind = if asking { kind::CLUSTER_SEND_ASKING } else { kind::CLUSTER_SEND };
        self.completions.push(kind, token.0 as u32, (number, number_of(node)), Bytes::new());
    }

    fn finish(&mut self, token: u32, result: Result<Bytes, Failed>) {
        let Failed { outcome, why, reply } = match result {
            Ok(reply) => return self.completions.push(kind::CLUSTER_REPLY, token, (0, 0), reply),
            Err(failed) => failed,
        };
        let numbers = (why_code(why), outcome_code(outcome));
        match reply {
            Some(reply) => self.completions.push(kind::CLUSTER_ERROR, token, numbers, reply),
            None => {
                let text = Bytes::from(why.to_string());
                self.completions.push(kind::CLUSTER_FAILED, token, numbers, text);
            }
        }
    }
}

/// The command that subscribes to sharded channels.
const SUBSCRIBE: &[u8] = b"SSUBSCRIBE";

/// The host's number of a node; 0 means none.
fn number_of(node: NodeId) -> u32 {
    node.number().wrapping_add(1)
}

/// The first of these commands, with its name only: the host keeps the rest.
fn named(commands: &[u8]) -> Command {
    let mut command = Command::new("");
    command.push(look::argument(commands, 0).unwrap_or_default());
    command
}

fn refused_code(refused: &Refused) -> u32 {
    match refused {
        Refused::CrossSlot { .. } => cluster_why::CROSS_SLOT,
        Refused::KeysUnknown(_) => cluster_why::KEYS_UNKNOWN,
        Refused::NodeByNode(_) => cluster_why::NODE_BY_NODE,
        Refused::Full => cluster_why::FULL,
    }
}

fn why_code(why: Why) -> u32 {
    match why {
        Why::Lost => cluster_why::LOST,
        Why::Redirects => cluster_why::REDIRECTS,
        Why::Outside => cluster_why::OUTSIDE,
        Why::Unserved => cluster_why::UNSERVED,
        Why::Server => cluster_why::SERVER,
        Why::Mismatch => cluster_why::MISMATCH,
        Why::Deadline => cluster_why::DEADLINE,
        Why::GivenUp => cluster_why::GIVEN_UP,
        Why::NoMemory => cluster_why::NO_MEMORY,
        Why::Closed => cluster_why::CLOSED,
    }
}

const NO_MEMORY: &str = "there is no memory for another command: wait for replies first";
