//! One run: what is driven, a model server, what lies between them, and a host that does anything a
//! host may.

use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::{CloseReason, Ticket, Time};

use super::book::{Book, PlanOf};
use super::driven::Driven;
use super::mutation::{Mutation, Mutator};
use super::pipe::Pipe;
use super::settings::{Ending, Settings};
use super::side::{Peer, Side};
use super::{Run, Trace};
use crate::seeded::Rng;

/// Everything in one run.
pub struct World<S: Side> {
    pub(crate) rng: Rng,
    pub(crate) settings: Settings<S::Settings>,
    pub(crate) now: Time,
    pub(crate) driven: S::Driven,
    pub(crate) server: S::Server,
    /// What only this side has.
    pub(crate) side: S,
    /// Client to server.
    pub(crate) up: Pipe,
    /// Server to client.
    pub(crate) down: Pipe,
    pub(crate) input: BytesMut,
    /// How many bytes of input are needed to go on.
    pub(crate) need: usize,
    /// The most bytes of input so far.
    pub(crate) input_max: usize,
    /// Everything that was handed to the transport.
    pub(crate) wrote: Vec<u8>,
    pub(crate) book: Book<S>,
    pub(crate) mutator: Mutator<S::Mutation>,
    trace: Trace,
    // --- the host ---
    pub(crate) next_id: u64,
    /// Requests and groups in the order in which they were submitted.
    pub(crate) next_place: u64,
    pub(crate) tickets: Vec<(u64, Ticket)>,
    /// What callers that wait for room have in hand, by token.
    pub(crate) parked: Vec<(u64, Vec<PlanOf<S>>)>,
    /// A caller whose turn it is, with what it has in hand.
    pub(crate) turn: Option<Vec<PlanOf<S>>>,
    pub(crate) terminated: bool,
    pub(crate) garbled: bool,
    /// When bytes last moved, or began to wait.
    pub(crate) last_moved: Time,
    /// The longest request and the longest run of requests so far.
    pub(crate) bytes_max: usize,
    pub(crate) run_max: usize,
    /// Whether anything moved in the last round.
    pub(crate) moved: bool,
}

impl<S: Side> World<S> {
    pub(crate) fn new(seed: u64, mutation: Option<Mutation<S::Mutation>>, trace: Trace) -> Self {
        let mut rng = Rng::new(seed);
        let mut settings = Settings::new::<S>(&mut rng);
        let limits = settings.network.limits.clone();
        let server = S::server(&mut rng, &settings);
        let mutator = Mutator::new(mutation, rng.split());
        if mutator.is(Mutation::LooseLimits) {
            settings.network.limits.in_flight_max = limits.in_flight_max * 2 + 1;
        }
        let (side, driven) = S::driven(seed, &settings, mutator.own());
        settings.network.limits = limits;
        let (caps, delays) = (settings.network.caps, settings.network.delays);
        let mut world = World {
            now: Time::ZERO,
            driven,
            server,
            side,
            up: Pipe::new(caps[0], delays[0]),
            down: Pipe::new(caps[1], delays[1]),
            settings,
            input: BytesMut::new(),
            need: 1,
            input_max: 0,
            wrote: Vec::new(),
            book: Book::new(),
            mutator,
            rng,
            trace,
            next_id: 1,
            next_place: 0,
            tickets: Vec::new(),
            parked: Vec::new(),
            turn: None,
            terminated: false,
            garbled: false,
            last_moved: Time::ZERO,
            bytes_max: 0,
            run_max: 1,
            moved: false,
        };
        match world.settings.ending {
            Ending::CutUp(byte) => world.up.cut_at = Some(byte),
            Ending::CutDown(byte) => world.down.cut_at = Some(byte),
            _ => {}
        }
        world.note(|world| format!("{:?}", world.settings));
        S::begin(&mut world);
        world
    }

    /// Lives the whole run, and says what was wrong with it.
    pub(crate) fn live(mut self) -> Run {
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
            mutated: self.mutator.has_struck() || S::has_struck(&self.driven),
        }
    }

    pub(crate) fn note(&mut self, what: impl FnOnce(&World<S>) -> String) {
        if let Some(mut trace) = self.trace.take() {
            trace(&format!("{:>12} {}", self.now.as_nanos() / 1000, what(self)));
            self.trace = Some(trace);
        }
    }

    fn is_over(&self) -> bool {
        !self.book.findings.is_empty() || self.driven.is_closed() && self.transmit_is_empty()
    }

    pub(crate) fn transmit_is_empty(&self) -> bool {
        self.driven.transmit().is_empty()
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
        S::prepare_step(self);
        if self.rng.one_in(self.settings.idleness) {
            S::act(self);
        }
        if self.rng.one_in(self.settings.calm) {
            self.pump();
        }
        match self.rng.below(S::MOMENTS) {
            0 | 1 => self.client_write(),
            2 | 3 => self.server_read(),
            4 | 5 => self.server_write(),
            6 | 7 => self.client_read(),
            8 => self.pass_some_time(),
            9 => S::consume(self),
            moment => S::moment(self, moment),
        }
    }

    /// Lets the network do its work for a while.
    pub(crate) fn pump(&mut self) {
        let soon = self.now.after(self.settings.network.trip());
        for _ in 0..self.settings.rounds {
            self.moved = false;
            self.move_bytes();
            let next = self.up.next().min(self.down.next()).min(S::next(self));
            if self.driven.is_closed() || !self.moved && (next > soon || !self.wait_for_next()) {
                break;
            }
        }
    }

    fn move_bytes(&mut self) {
        self.client_write();
        self.server_read();
        self.server_write();
        self.client_read();
        S::move_on(self);
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
            S::wind_up(self);
            S::consume(self);
            self.move_bytes();
            if !self.moved && !self.wait_for_next() {
                self.nothing_moves();
            }
        }
        let what = format!("it does not end: {:?} {:?}", self.driven, self.server);
        self.book.complain(what);
    }

    /// Nothing more is to come.
    fn is_settled(&self) -> bool {
        self.driven.is_idle()
            && self.transmit_is_empty()
            && !S::is_busy(self)
            && S::is_settled(self)
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
        if !(dead || self.garbled && S::HOSTILE_MAY_STALL) {
            self.book.complain(format!(
                "it is stuck with {} who wait: {:?} {:?} {:?} {:?}",
                self.parked.len(),
                self.driven,
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

    /// The client closes its socket: what is on its way arrives in part, and the server works it
    /// off.
    fn hang_up(&mut self) {
        if !self.book.findings.is_empty() {
            return;
        }
        if self.driven.is_closed() && !self.terminated && self.rng.one_in(2) {
            let keep = self.rng.index(20_000);
            self.up.tear(keep);
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
        let down = if self.driven.is_closed() { Time::NEVER } else { self.down.next() };
        let late = self.mutator.is(Mutation::LateDeadlines);
        let deadline = self.driven.poll_deadline().filter(|_| !late).unwrap_or(Time::NEVER);
        let next = up.min(down).min(deadline).min(S::next(self));
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
        let due = self.driven.poll_deadline().is_some_and(|at| at <= self.now);
        let unread = !self.driven.wants_bytes() && self.down.next() <= self.now;
        if !late && (self.rng.one_in(4) || due) {
            self.driven.handle_time(self.now);
        }
        self.drain();
        if unread && self.book.closed == Some(CloseReason::Stalled) {
            self.book.complain("it was declared dead, and what it sent had not been read");
        }
        let next = self.driven.poll_deadline();
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
