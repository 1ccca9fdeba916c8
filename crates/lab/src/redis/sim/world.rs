//! One run: an engine, a model of a server, what lies between them, and a host that does anything a host
//! may.

use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::{CloseReason, Connection, Output, Ticket, Time, Token};
use onetrip_redis::scan::ScanLimits;
use onetrip_redis::{Event, Redis};

use super::super::model::{Log, Model, ModelConfig, Rng};
use super::book::Book;
use super::mutation::{Mistaken, Mutation, Mutator};
use super::plan::Plan;
use super::settings::Settings;
use super::{Run, Trace};
use crate::seeded::{Ending, Pipe};

/// Everything in one run.
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) settings: Settings,
    pub(super) now: Time,
    pub(super) engine: Connection<Mistaken>,
    pub(super) server: Model,
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
    pub(super) mutator: Mutator,
    trace: Trace,
    // --- the host ---
    pub(super) next_id: u64,
    pub(super) next_place: u64,
    pub(super) tickets: Vec<(u64, Ticket)>,
    /// What callers that wait for room have in hand.
    pub(super) parked: Vec<Plan>,
    /// What a caller has in hand whose turn it is.
    pub(super) turn: Option<Plan>,
    /// For whom there was room when it was submitted.
    pub(super) reserved: Option<u64>,
    /// Channels that somebody wanted to subscribe to.
    pub(super) channels: Vec<String>,
    pub(super) terminated: bool,
    pub(super) garbled: bool,
    /// When bytes last moved, or began to wait.
    pub(super) last_moved: Time,
    /// Bytes of metered replies that their callers have not taken.
    pub(super) untaken: usize,
    /// The most bytes that the engine was given at once.
    pub(super) input_max: usize,
    /// The longest request so far.
    pub(super) bytes_max: usize,
    /// Whether anything moved in the last round.
    pub(super) moved: bool,
}

impl World {
    pub(super) fn new(seed: u64, mutation: Option<Mutation>, trace: Trace) -> World {
        let mut rng = Rng::new(seed);
        let settings = Settings::new(&mut rng);
        let mut limits = settings.network.limits.clone();
        if mutation == Some(Mutation::LooseLimits) {
            limits.in_flight_max = limits.in_flight_max * 2 + 1;
        }
        let redis = match settings.subscriber {
            true => Redis::subscriber(ScanLimits::default()),
            false => Redis::new(ScanLimits::default()),
        };
        let config = ModelConfig {
            resp2: settings.subscriber,
            noise: Some((rng.split(), settings.noise)),
            refusals: Some((rng.split(), settings.refusals)),
        };
        let (caps, delays) = (settings.network.caps, settings.network.delays);
        let mut world = World {
            now: Time::ZERO,
            engine: Connection::new(Time::ZERO, Mistaken::new(redis, mutation), limits),
            server: Model::new(config, Log::default()),
            up: Pipe::new(caps[0], delays[0]),
            down: Pipe::new(caps[1], delays[1]),
            settings,
            input: BytesMut::new(),
            need: 1,
            wrote: Vec::new(),
            book: Book::default(),
            mutator: Mutator::new(mutation, rng.split()),
            rng,
            trace,
            next_id: 1,
            next_place: 0,
            tickets: Vec::new(),
            parked: Vec::new(),
            turn: None,
            reserved: None,
            channels: Vec::new(),
            terminated: false,
            garbled: false,
            last_moved: Time::ZERO,
            untaken: 0,
            input_max: 0,
            bytes_max: 0,
            moved: false,
        };
        match world.settings.ending {
            Ending::CutUp(byte) => world.up.cut_at = Some(byte),
            Ending::CutDown(byte) => world.down.cut_at = Some(byte),
            _ => {}
        }
        world.note(|world| format!("{:?}", world.settings));
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
        self.mutator.also_struck(self.engine.protocol().struck);
        self.check();
        self.book.report.count("runs");
        self.book.report.add("requests", self.book.records.len() as u64);
        self.book.report.add("sent again", self.engine.healed());
        Run {
            findings: self.book.findings,
            report: self.book.report,
            mutated: self.mutator.has_struck(),
        }
    }

    pub(super) fn note(&mut self, what: impl FnOnce(&World) -> String) {
        if let Some(mut trace) = self.trace.take() {
            trace(&format!("{:>12} {}", self.now.as_nanos() / 1000, what(self)));
            self.trace = Some(trace);
        }
    }

    fn is_over(&self) -> bool {
        !self.book.findings.is_empty()
            || self.engine.is_closed() && self.engine.transmit().is_empty()
    }

    /// What the seed has in store for this step.
    fn fate(&mut self, step: usize) {
        match self.settings.ending {
            Ending::Terminate(at) if at == step => self.terminate(),
            Ending::Reset(at) if at == step => {
                self.book.report.count("cut: reset");
                self.fail_transport();
            }
            Ending::Fatal(at) if at == step && !self.server.is_closed() => {
                self.note(|_| "the server ends the session".into());
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
        if self.rng.one_in(self.settings.idleness) {
            self.act();
        }
        if self.rng.one_in(self.settings.calm) {
            self.pump();
        }
        match self.rng.below(11) {
            0 | 1 => self.client_write(),
            2 | 3 => self.server_read(),
            4 | 5 => self.server_write(),
            6 | 7 => self.client_read(),
            8 => self.pass_some_time(),
            9 => self.consume(),
            _ => self.server_moment(),
        }
    }

    /// Lets the network do its work for a while.
    fn pump(&mut self) {
        let [up, down] = self.settings.network.delays;
        let soon = self.now.after(up + down);
        for _ in 0..self.settings.rounds {
            self.moved = false;
            self.move_bytes();
            let next = self.up.next().min(self.down.next());
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
        self.drain();
    }

    /// Ends what was begun, moves everything, and sees to it that everything ends.
    fn finish(&mut self) {
        for _ in 0..STEPS_MAX {
            if self.is_over() || self.is_settled() {
                return self.hang_up();
            }
            self.moved = false;
            self.take_turn();
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
            && self.engine.transmit().is_empty()
            && self.parked.is_empty()
            && self.turn.is_none()
            && self.up.is_empty()
            && self.down.is_empty()
            && self.server.transmit().is_empty()
            && !self.server.is_closed()
            && !(self.garbled || self.up.has_ended() || self.down.has_ended())
    }

    /// No byte moves and no deadline comes: that may only be where nothing gets through.
    fn nothing_moves(&mut self) {
        let dead = self.up.frozen_until == Time::NEVER || self.down.frozen_until == Time::NEVER;
        // What a string announced and never came is waited for.
        if !dead && !self.garbled {
            self.book.complain(format!(
                "it is stuck with {} who wait: {:?} {:?} {:?} {:?}",
                self.parked.len(),
                self.engine,
                self.server,
                self.up,
                self.down
            ));
        }
        if let Some(token) = self.book.overdue(Time::NEVER) {
            self.book.complain(format!("{token} has a deadline, and it never came"));
        }
        self.book.report.count("cut: silence");
        self.fail_transport();
        self.drain();
    }

    /// The client closes its socket: what is on its way arrives in part, and the server works it off.
    fn hang_up(&mut self) {
        if !self.book.findings.is_empty() {
            return;
        }
        if self.engine.is_closed() && !self.terminated && self.rng.one_in(2) {
            let keep = self.rng.index(20_000);
            self.up.tear(keep);
        }
        self.up.end();
        self.up.frozen_until = Time::ZERO;
        self.now = Time::from_nanos(self.now.as_nanos() + HANG_UP_NANOS);
        while !self.server.is_closed() {
            // Nobody reads.
            self.server.handle_written(self.server.transmit().len());
            let bytes = self.up.pop(self.now, usize::MAX);
            match bytes.is_empty() {
                true => self.server.handle_closed(),
                false => self.server.handle_bytes(&bytes),
            }
        }
    }

    /// Lets time pass until something can happen; false if nothing will.
    fn wait_for_next(&mut self) -> bool {
        let up = if self.server.is_closed() { Time::NEVER } else { self.up.next() };
        let down = if self.engine.is_closed() { Time::NEVER } else { self.down.next() };
        let late = self.mutator.is(Mutation::LateDeadlines);
        let deadline = self.engine.poll_deadline().filter(|_| !late).unwrap_or(Time::NEVER);
        let next = up.min(down).min(deadline);
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
        let due = self.engine.poll_deadline().is_some_and(|at| at <= self.now);
        let unread = !self.engine.wants_bytes() && self.down.next() <= self.now;
        if !late && (self.rng.one_in(4) || due) {
            self.engine.handle_time(self.now);
        }
        self.drain();
        if unread && self.book.closed == Some(CloseReason::Stalled) {
            self.book.complain("it was declared dead, and what it sent had not been read");
        }
        let next = self.engine.poll_deadline();
        if !late && next.is_some_and(|next| next <= self.now) {
            self.book.complain(format!("the next deadline {next:?} is over, it is {:?}", self.now));
        }
        let before = self.now.as_nanos().saturating_sub(RESOLUTION_NANOS);
        if let Some(token) = self.book.overdue(Time::from_nanos(before)) {
            self.book.complain(format!("{token} outlived its deadline"));
        }
    }

    /// Takes what happened until nothing more does.
    pub(super) fn drain(&mut self) {
        loop {
            let mut outputs: Vec<Output<Event>> =
                std::iter::from_fn(|| self.engine.poll_output()).collect();
            self.mutator.strike(&mut outputs, self.server.log());
            if outputs.is_empty() {
                break;
            }
            for output in outputs {
                self.note(|_| format!("{output:?}"));
                self.book.note(self.now, &output);
                self.react(output);
            }
        }
        self.check_limits();
        self.check_nobody_is_forgotten();
    }

    /// Who waits for the host's side of things waits for the engine's, too.
    fn check_nobody_is_forgotten(&mut self) {
        if self.engine.is_closed() {
            return;
        }
        if self.engine.waiting() != self.parked.len() {
            self.book.complain("a caller waits for room that was never announced");
        }
        if self.engine.in_flight() == 0 && self.engine.queued() > 0 {
            self.book.complain("the queue stands still");
        }
        if self.engine.is_idle() && self.turn.is_none() && self.book.full {
            self.book.complain("nothing is left to do, and Drained has not come");
        }
    }

    fn react(&mut self, output: Output<Event>) {
        match output {
            Output::Data { token, block } => self.note_received(token, block.len()),
            Output::Ended { token, block, .. } => {
                self.note_received(token, block.len());
                self.parked.retain(|plan| plan.id != token.0);
            }
            Output::Room { token } => self.room_for(token),
            Output::Closed(reason) => self.closed(&reason),
            _ => {}
        }
    }

    fn room_for(&mut self, token: Token) {
        if let Some(at) = self.parked.iter().position(|plan| plan.id == token.0) {
            self.turn = Some(self.parked.remove(at));
        }
        if self.rng.one_in(2) {
            self.take_turn();
        }
    }

    fn closed(&mut self, reason: &CloseReason) {
        match reason {
            CloseReason::Host if self.terminated => self.book.report.count("closed: goodbye"),
            CloseReason::Host => self.book.report.count("closed: transport"),
            CloseReason::Server(_) => self.book.report.count("closed: by an error"),
            CloseReason::Violation(_) => {
                self.book.report.count("closed: violation");
                if !self.garbled {
                    self.book.complain(format!("the server did nothing wrong: {reason:?}"));
                }
            }
            CloseReason::Unusable(why) => self.book.complain(format!("nobody may go on: {why}")),
            CloseReason::NoMemory => self.book.complain(format!("there is memory: {reason:?}")),
            CloseReason::Stalled => {
                self.book.report.count("closed: stalled");
                let silent = self.now.since(self.last_moved);
                if silent < self.settings.network.limits.stall_timeout {
                    self.book.complain(format!("bytes moved {silent:?} ago"));
                }
            }
        }
    }
}

/// Rounds in which a run has to come to its end: some hundred kilobytes, a byte at a time.
const STEPS_MAX: usize = 300_000;

/// Deadlines are kept to the millisecond.
const RESOLUTION_NANOS: u64 = 1_000_001;

/// Whatever is on its way arrives within this.
const HANG_UP_NANOS: u64 = 1_000_000_000;
