//! One run: an engine, a model server, what lies between them, and a host that does anything a host
//! may.

use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::{Connection, Ticket, Time};
use onetrip_postgres::StatementId;

use super::book::Book;
use super::cancels::Cancels;
use super::floor::Floor;
use super::mutation::{Mutation, Mutator};
use super::owners::Owners;
use super::plan::{Plan, PreparedText};
use super::protocol::Observed;
use super::settings::Settings;
use super::{Run, Trace};
use crate::model::{Config, Log, Noise, Rng, Server};
use crate::seeded::{Ending, Pipe};

/// Everything in one run.
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) settings: Settings,
    pub(super) now: Time,
    pub(super) engine: Connection<Observed>,
    pub(super) server: Server,
    /// Client to server.
    pub(super) up: Pipe,
    /// Server to client.
    pub(super) down: Pipe,
    pub(super) input: BytesMut,
    /// How many bytes of input the engine needs to go on.
    pub(super) need: usize,
    /// Everything that was handed to the transport.
    pub(super) wrote: Vec<u8>,
    pub(super) book: Book,
    pub(super) cancels: Cancels,
    pub(super) mutator: Mutator,
    /// Those that have the session, one after the other.
    pub(super) owners: Option<Owners>,
    trace: Trace,
    // --- the host ---
    pub(super) next_id: u64,
    /// Requests and groups in the order in which they were submitted.
    pub(super) next_place: u64,
    pub(super) tickets: Vec<(u64, Ticket)>,
    /// What callers that wait for room have in hand, by token.
    pub(super) parked: Vec<(u64, Vec<Plan>)>,
    /// A caller whose turn it is, with what it has in hand.
    pub(super) turn: Option<Vec<Plan>>,
    pub(super) floors: Vec<Floor>,
    pub(super) prepared: Vec<(StatementId, PreparedText)>,
    /// Explicit transactions.
    pub(super) transactions: Vec<Vec<u64>>,
    pub(super) terminated: bool,
    pub(super) garbled: bool,
    /// Whether prepared statements were lost or went stale, so that requests were sent again.
    pub(super) healing: bool,
    /// Nothing more is begun.
    pub(super) finishing: bool,
    /// When bytes last moved, or began to wait.
    pub(super) last_moved: Time,
    /// The longest request and the longest segment so far.
    pub(super) bytes_max: usize,
    pub(super) run_max: usize,
    pub(super) reply_max: usize,
    /// Whether anything moved in the last round.
    pub(super) moved: bool,
}

impl World {
    pub(super) fn new(seed: u64, mutation: Option<Mutation>, trace: Trace) -> World {
        let mut rng = Rng::new(seed);
        let settings = Settings::new(&mut rng);
        let noise = Noise { rng: rng.split(), one_in: settings.noise };
        let config = Config { noise: Some(noise), ..Config::default() };
        let mut limits = settings.limits.clone();
        if mutation == Some(Mutation::LooseLimits) {
            limits.in_flight_max = limits.in_flight_max * 2 + 1;
        }
        let mut world = World {
            now: Time::ZERO,
            engine: Connection::new(Time::ZERO, Observed::new(mutation), limits),
            server: Server::ready(config, Log::default()),
            up: Pipe::new(settings.caps[0], settings.delays[0]),
            down: Pipe::new(settings.caps[1], settings.delays[1]),
            settings,
            input: BytesMut::new(),
            need: 1,
            wrote: Vec::new(),
            book: Book::default(),
            cancels: Cancels::default(),
            mutator: Mutator::new(mutation, rng.split()),
            owners: Owners::new(seed),
            rng,
            trace,
            next_id: 1,
            next_place: 0,
            tickets: Vec::new(),
            parked: Vec::new(),
            turn: None,
            floors: Vec::new(),
            prepared: Vec::new(),
            transactions: Vec::new(),
            terminated: false,
            garbled: false,
            healing: false,
            finishing: false,
            last_moved: Time::ZERO,
            bytes_max: 0,
            run_max: 1,
            reply_max: 0,
            moved: false,
        };
        match world.settings.ending {
            Ending::CutUp(byte) => world.up.cut_at = Some(byte),
            Ending::CutDown(byte) => world.down.cut_at = Some(byte),
            _ => {}
        }
        world.note(|world| format!("{:?}", world.settings));
        world.note(|world| format!("{:?}", world.owners.as_ref().map(|owners| &owners.ways)));
        world.first_owner();
        world
    }

    /// Lives the whole run, and says what was wrong with it.
    pub(super) fn live(mut self) -> Run {
        for step in 0..self.settings.steps {
            if self.is_over() {
                break;
            }
            self.fate(step);
            self.step();
            self.drain();
        }
        self.finish();
        self.check();
        self.book.report.count("runs");
        self.book.report.add("requests", self.book.records.len() as u64);
        Run {
            findings: self.book.findings,
            report: self.book.report,
            mutated: self.mutator.has_struck() || self.engine.protocol().has_struck(),
        }
    }

    pub(super) fn note(&mut self, what: impl FnOnce(&World) -> String) {
        if let Some(mut trace) = self.trace.take() {
            trace(&format!("{:>12} {}", self.now.as_nanos() / 1000, what(self)));
            self.trace = Some(trace);
        }
    }

    fn is_over(&self) -> bool {
        !self.book.findings.is_empty() || self.engine.is_closed() && self.transmit_is_empty()
    }

    pub(super) fn transmit_is_empty(&self) -> bool {
        self.engine.transmit().is_empty()
    }

    /// What the seed has in store for this step.
    fn fate(&mut self, step: usize) {
        match self.settings.ending {
            Ending::Terminate(at) if at == step => self.terminate(),
            Ending::Reset(at) if at == step => {
                self.book.report.count("cut: reset");
                self.fail_transport();
            }
            Ending::Fatal(at) if at == step => {
                self.note(|_| "the server is shut down".into());
                self.server.shut_down();
            }
            Ending::Hostile(at) if at == step => self.garble(),
            Ending::Silence(at) if at == step => {
                self.note(|_| "the server falls silent".into());
                self.down.frozen_until = Time::NEVER;
            }
            Ending::Stall(at) if at == step => {
                self.note(|_| "the server takes nothing more".into());
                self.up.frozen_until = Time::NEVER;
            }
            _ => {}
        }
    }

    fn step(&mut self) {
        if self.is_being_left() {
            self.change_owners();
        }
        if self.rng.one_in(self.settings.idleness) {
            self.act();
        }
        if self.rng.one_in(self.settings.calm) {
            self.pump();
        }
        match self.rng.below(12) {
            0 | 1 => self.client_write(),
            2 | 3 => self.server_read(),
            4 | 5 => self.server_write(),
            6 | 7 => self.client_read(),
            8 => self.pass_some_time(),
            9 => self.consume(),
            10 => self.use_floor(),
            11 if self.rng.one_in(2) => self.move_cancel(),
            _ => self.server_moment(),
        }
    }

    /// Lets the network do its work for a while.
    pub(super) fn pump(&mut self) {
        let soon = self.now.after(self.settings.delays[0] + self.settings.delays[1]);
        for _ in 0..self.settings.rounds {
            self.moved = false;
            self.move_bytes();
            let next = self.up.next().min(self.down.next()).min(self.cancels.next());
            if self.engine.is_closed() || !self.moved && (next > soon || !self.wait_for_next()) {
                break;
            }
        }
    }

    fn move_bytes(&mut self) {
        self.client_write();
        self.server_read();
        self.server_write();
        self.client_read();
        self.move_cancel();
        self.drain();
    }

    /// Ends what was begun, moves everything, and sees to it that everything ends.
    fn finish(&mut self) {
        self.finishing = true;
        for _ in 0..STEPS_MAX {
            if self.is_over() || self.is_settled() {
                return self.hang_up();
            }
            self.moved = false;
            self.take_turn();
            self.close_floors();
            self.consume();
            self.move_bytes();
            if !self.moved && !self.wait_for_next() {
                self.nothing_moves();
            }
        }
        let what = format!("it does not end: {:?} {:?}", self.engine, self.server);
        self.book.complain(what);
    }

    /// Nothing more is to come.
    fn is_settled(&self) -> bool {
        self.engine.is_idle()
            && self.transmit_is_empty()
            && self.floors.is_empty()
            && self.parked.is_empty()
            && self.turn.is_none()
            && !self.cancels.is_under_way()
            && self.up.is_empty()
            && self.down.is_empty()
            && self.server.transmit().is_empty()
            && !self.server.is_closed()
            && !(self.garbled || self.up.has_ended() || self.down.has_ended())
    }

    /// No byte moves and no deadline comes: that may only be where nothing gets through.
    fn nothing_moves(&mut self) {
        let dead = self.up.frozen_until == Time::NEVER || self.down.frozen_until == Time::NEVER;
        if !dead {
            let (floors, parked) = (self.floors.len(), self.parked.len());
            self.book.complain(format!(
                "it is stuck with {floors} groups and {parked} who wait: {:?} {:?} {:?} {:?}",
                self.engine, self.server, self.up, self.down
            ));
        }
        if let Some(token) = self.book.overdue(Time::NEVER) {
            self.book.complain(format!("{token} has a deadline, and it never came"));
        }
        self.book.report.count("cut: silence");
        self.fail_transport();
        self.drain();
    }

    /// The client closes its socket: what is on its way arrives in part, and the server works it
    /// off.
    fn hang_up(&mut self) {
        if !self.book.findings.is_empty() {
            return;
        }
        if self.engine.is_closed() && !self.terminated {
            self.tear_up();
        }
        self.up.end();
        self.up.frozen_until = Time::ZERO;
        self.now = Time::from_nanos(self.now.as_nanos() + HANG_UP_NANOS);
        while !self.server.is_closed() {
            // Nobody reads.
            self.server.handle_written(self.server.transmit().len());
            if self.server.wants_bytes() {
                let bytes = self.up.pop(self.now, usize::MAX);
                match bytes.is_empty() {
                    true => self.server.handle_closed(),
                    false => self.server.handle_bytes(&bytes),
                }
            }
        }
    }

    /// Lets time pass until something can happen; false if nothing will.
    fn wait_for_next(&mut self) -> bool {
        let up = if self.server.wants_bytes() { self.up.next() } else { Time::NEVER };
        let down = if self.engine.is_closed() { Time::NEVER } else { self.down.next() };
        let deadline = self.engine.poll_deadline().unwrap_or(Time::NEVER);
        let deadline =
            if self.mutator.is(Mutation::LateDeadlines) { Time::NEVER } else { deadline };
        let next = up.min(down).min(deadline).min(self.cancels.next());
        // Bytes that could have been read and were not are nothing to wait for.
        if next == Time::NEVER || next <= self.now && deadline > self.now {
            return false;
        }
        self.now = self.now.max(next);
        self.handle_time();
        true
    }

    fn pass_some_time(&mut self) {
        let nanos = match self.rng.below(4) {
            0 => self.rng.below(100_000_000),
            _ => self.rng.below(600_000),
        };
        self.now = self.now.after(Duration::from_nanos(nanos));
        self.handle_time();
    }

    fn handle_time(&mut self) {
        let late = self.mutator.is(Mutation::LateDeadlines);
        if !late
            && (self.rng.one_in(4) || self.engine.poll_deadline().is_some_and(|at| at <= self.now))
        {
            self.engine.handle_time(self.now);
        }
        self.drain();
        let next = self.engine.poll_deadline();
        if !late && next.is_some_and(|next| next <= self.now) {
            self.book.complain(format!("the next deadline {next:?} is over, it is {:?}", self.now));
        }
        let before = self.now.as_nanos().saturating_sub(RESOLUTION_NANOS);
        if let Some(token) = self.book.overdue(Time::from_nanos(before)) {
            self.book.complain(format!("{token} outlived its deadline"));
        }
    }
}

/// Rounds in which a run has to come to its end: some hundred kilobytes, a byte at a time.
const STEPS_MAX: usize = 300_000;

/// Deadlines are kept to the millisecond.
const RESOLUTION_NANOS: u64 = 1_000_001;

/// Whatever is on its way arrives within this.
const HANG_UP_NANOS: u64 = 1_000_000_000;
