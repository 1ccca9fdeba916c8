//! Redis Sentinel: which server is the master, and which replicas may be read from, as the
//! Sentinels say. [`Sentinels`] opens no connection and reads no clock: it says what to do, and the
//! host reports what came of it.
//!
//! # Whom it believes
//!
//! All Sentinels are asked at once: those that were configured, and those that they know. The
//! answer counts once a majority of all that are known has answered, and of these answers the one
//! with the newest epoch. One that was configured and is dead counts as known, whoever answers in
//! its stead. So a Sentinel that is cut off with an old master is not believed, and the
//! one that led a failover is believed before the others know. A client that knew a master believes
//! a newer epoch even from a single Sentinel, since a majority gives epochs to failovers. What was
//! told is kept: an older epoch is never believed again, unless all Sentinels that are known agree
//! on it.
//!
//! # Who is used
//!
//! The master is *confirmed* by a round of questions that began after the last connection to it was
//! lost; until then the host opens no further connection to it. On each connection that it opens
//! the host asks for the server's [role](unfit) before anything else is sent, so a former master
//! that came back as a replica is not written to.
//!
//! When a newer master is learned, the host closes all connections to the old one at once. Commands
//! that were not sent go to the new one; those that were are `Unknown`, even if the old master
//! would still answer them: what it acknowledges now will be lost.
//!
//! # When it asks
//!
//! At the beginning; when a connection to the master is lost, can't be opened, or
//! [says](lost_its_role) that it is a master no more; when a Sentinel announces `+switch-master`;
//! and from time to time. There is one round at a time, and between two of them there is a pause,
//! which doubles until a connection to the master was opened.

mod answer;
mod believe;
mod limits;
mod line;
mod peers;
mod reads;
mod role;
mod rounds;

use std::collections::VecDeque;

use bytes::Bytes;
use onetrip_engine::Time;

use super::login::Login;
use crate::redirect::Address;
use crate::reply::Reply;

pub use limits::{ATTEMPT_PAUSE, Limits};
pub use line::LineId;
pub use reads::Reads;
pub use role::{Role, lost_its_role, unfit};

use answer::Questions;
use believe::Seen;
use peers::Peer;
use reads::Replicas;
use rounds::Rounds;

/// What to ask for, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the master in the configuration of the Sentinels.
    pub name: String,
    /// The Sentinels to begin with. At least one.
    pub sentinels: Vec<Address>,
    /// The login at all Sentinels.
    pub login: Login,
    /// Whether replicas are to be read from.
    pub wants_replicas: bool,
    /// The limits.
    pub limits: Limits,
}

/// Why a connection is closed whose server another one has [taken the place of](Output::Changed).
pub const LEFT: &str = "Sentinels name another server by now";

/// What the host must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Connect to this Sentinel and send these bytes, a login among them. Report what
    /// [comes](Sentinels::handle_input) and [the end](Sentinels::handle_closed).
    Open {
        /// The name of the connection.
        line: LineId,
        /// The Sentinel.
        address: Address,
        /// What to send.
        send: Bytes,
    },
    /// Close this connection, or stop opening it. Nothing is reported of it any more.
    Close {
        /// The connection.
        line: LineId,
    },
    /// The [server](Sentinels::server) for this role is another one, or it is confirmed, or there
    /// is none any more. Close connections for this role that have another
    /// [use number](Server::number), at once, and stop opening such.
    Changed(Role),
    /// The Sentinels were asked, and the master is not known. They are asked again; meanwhile
    /// [this](Sentinels::explain) says why.
    NotFound,
}

/// A server to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address.
    pub address: Address,
    /// A number that grows whenever the server for a role is another one. Connections with another
    /// number are not to be used.
    pub number: u64,
}

/// The policy of one client; see the [module](self).
///
/// After each call that changes something the host takes the [outputs](Self::poll_output) and asks
/// for the [deadline](Self::poll_deadline) anew. Time must not go backwards.
pub struct Sentinels {
    name: String,
    questions: Questions,
    limits: Limits,
    peers: Vec<Peer>,
    rounds: Rounds,
    /// The newest that a Sentinel told, even if too few answered.
    told: Option<Seen>,
    /// The one that was learned last.
    seen: Option<Seen>,
    /// How many Sentinels there were when a majority of them last showed the master.
    known: usize,
    /// The number of the master that was learned last.
    number: u64,
    /// Whether it may be connected to.
    is_confirmed: bool,
    reads: Replicas,
    outputs: VecDeque<Output>,
    /// Lines that were opened.
    opened: u64,
    is_closed: bool,
    /// Why the last connection to the master failed.
    failure: Option<String>,
}

impl Sentinels {
    /// A client that knows no master yet, so it first asks for it. `seed` is for pauses and the
    /// choice of a replica: clients should have different seeds.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Sentinels {
        let Settings { name, sentinels, login, wants_replicas, limits } = settings;
        let mut peers: Vec<Peer> = Vec::new();
        for address in sentinels {
            if peers.iter().all(|peer| peer.address != address) {
                peers.push(Peer::new(address, true));
            }
        }
        Sentinels {
            questions: Questions::new(&name, &login, wants_replicas),
            name,
            peers,
            rounds: Rounds::new(&limits, seed),
            told: None,
            seen: None,
            known: 0,
            number: 0,
            is_confirmed: false,
            reads: Replicas::new(wants_replicas, seed),
            limits,
            outputs: VecDeque::new(),
            opened: 0,
            is_closed: false,
            failure: None,
        }
    }

    /// The server for this role that may be connected to now; `None` if none is known.
    #[must_use]
    pub fn server(&self, role: Role) -> Option<Server> {
        match role {
            Role::Master if self.is_confirmed && !self.is_closed => {
                let address = self.seen.as_ref()?.address.clone();
                Some(Server { address, number: self.number })
            }
            Role::Master => None,
            Role::Replica => self.reads.server(),
        }
    }

    /// A connection to this server was opened, and it has its role.
    pub fn handle_ready(&mut self, now: Time, role: Role, number: u64) {
        if role == Role::Master && number == self.number {
            self.rounds.succeeded(now);
            self.failure = None;
        }
    }

    /// A connection to this server was lost, could not be opened, or its server is not fit for its
    /// role. `why` is for messages.
    pub fn handle_lost(&mut self, now: Time, role: Role, number: u64, why: &str) {
        match role {
            Role::Master if number == self.number => {
                self.is_confirmed = false;
                self.failure = Some(why.to_owned());
                self.rounds.failed(now);
                self.rounds.want_another(now);
            }
            Role::Replica if self.reads.lost(now, number, self.limits.replica_rest) => {
                self.outputs.push_back(Output::Changed(Role::Replica));
                self.rounds.want(now);
            }
            // It is no longer used.
            Role::Master | Role::Replica => return,
        }
        self.settle(now);
    }

    /// Bytes came from a Sentinel.
    pub fn handle_input(&mut self, now: Time, line: LineId, bytes: &[u8]) {
        let Some(at) = self.peer_of(line) else { return };
        if let Some(line) = &mut self.peers[at].line {
            line.take_in(bytes);
        }
        while let Some(open) = &mut self.peers[at].line {
            match open.next() {
                Ok(Some(reply)) => self.take_reply(now, at, reply),
                Ok(None) => break,
                Err(why) => self.drop_line(at, Some(why)),
            }
        }
        self.settle(now);
    }

    /// A connection to a Sentinel could not be opened, or has ended. `why` is for messages.
    pub fn handle_closed(&mut self, now: Time, line: LineId, why: &str) {
        let Some(at) = self.peer_of(line) else { return };
        self.peers[at].fail(why);
        self.settle(now);
    }

    /// Time has passed.
    pub fn handle_time(&mut self, now: Time) {
        self.settle(now);
    }

    /// Asks nobody any more, and closes all connections to Sentinels.
    pub fn close(&mut self) {
        self.is_closed = true;
        for at in 0..self.peers.len() {
            self.drop_line(at, None);
        }
    }

    /// What to do next. Outputs must be carried out in this order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_time`](Self::handle_time) has something to do next.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Time> {
        if self.is_closed {
            return None;
        }
        let lines = self.peers.iter().filter_map(|peer| peer.line.as_ref());
        let due = lines.map(|line| line.deadline).min().unwrap_or(Time::NEVER);
        let due = due.min(self.rounds.due()).min(self.reads.due());
        (due != Time::NEVER).then_some(due)
    }

    /// What to say where the server for this role was not found in time.
    #[must_use]
    pub fn not_found(&self, role: Role) -> String {
        format!("{role} was not found: {}", self.explain())
    }

    /// What each Sentinel said last, and why the master could not be used, in one line.
    #[must_use]
    pub fn explain(&self) -> String {
        let said: Vec<String> = self.peers.iter().map(Peer::explain).collect();
        let lacks = self.lacks().map(|lacks| format!("{lacks}: ")).unwrap_or_default();
        let (name, said) = (self.name.escape_debug(), said.join("; "));
        let mut text = format!("asked for the master \"{name}\": {lacks}{said}");
        if let Some(seen) = &self.seen {
            text += &format!("; the newest that was learned is {}", seen.address);
        }
        if let Some(failure) = &self.failure {
            text += &format!(", and {failure}");
        }
        text
    }

    fn take_reply(&mut self, now: Time, at: usize, reply: Bytes) {
        let Some(line) = &mut self.peers[at].line else { return };
        if line.deadline == Time::NEVER {
            // Behind the answer come announcements.
            let message = Reply::read(&reply).ok();
            let new = message.and_then(|it| answer::switched_to(&it.0, &self.name));
            let used = self.server(Role::Master).map(|server| server.address);
            if new.is_some() && new != used {
                self.rounds.want_soon(now);
            }
            return;
        }
        line.replies.push(reply);
        if line.replies.len() < self.questions.replies() {
            return;
        }
        line.deadline = Time::NEVER;
        let replies = std::mem::take(&mut line.replies);
        match self.questions.read(&replies) {
            Ok(answer) => self.take_answer(now, at, answer),
            Err(why) => self.drop_line(at, Some(&why)),
        }
    }
}

impl std::fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sentinels")
            .field("name", &self.name)
            .field("seen", &self.seen)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
