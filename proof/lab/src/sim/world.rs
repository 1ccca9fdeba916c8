//! One run: what is driven, model servers, what lies between them, and a host that does anything a
//! host may.

use std::time::Duration;

use onetrip_engine::{CloseReason, Ticket, Time};

use super::book::{Book, PlanOf};
use super::driven::Driven;
use super::link::Link;
use super::mutation::{Mutation, Mutator};
use super::settings::{Ending, Settings};
use super::side::{Peer, Side};
use super::{Run, Trace};
use crate::seeded::{Log, Rng};

/// Everything in one run.
pub struct World<S: Side> {
    pub(crate) rng: Rng,
    pub(crate) settings: Settings<S::Settings>,
    pub(crate) now: Time,
    pub(crate) driven: S::Driven,
    /// To each server one.
    pub(crate) links: Vec<Link<S::Server>>,
    /// What only this side has.
    pub(crate) side: S,
    /// The most bytes of input so far.
    pub(crate) input_max: usize,
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
        let servers = S::servers(&mut rng, &settings);
        let mutator = Mutator::new(mutation, rng.split());
        if mutator.is(Mutation::LooseLimits) {
            settings.network.limits.in_flight_max = limits.in_flight_max * 2 + 1;
        }
        let (side, driven) = S::driven(seed, &settings, mutator.own());
        settings.network.limits = limits;
        let mut world = World {
            now: Time::ZERO,
            driven,
            links: servers.into_iter().map(|it| Link::new(it, &settings.network)).collect(),
            side,
            settings,
            input_max: 0,
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
        let at = world.any_link();
        match world.settings.ending {
            Ending::CutUp(byte) => world.links[at].up.cut_at = Some(byte),
            Ending::CutDown(byte) => world.links[at].down.cut_at = Some(byte),
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
        (0..self.links.len()).all(|at| self.driven.transmit(at).is_empty())
    }

    /// What happened at all servers.
    pub(crate) fn log(&self) -> &Log {
        self.links[0].server.log()
    }

    /// Where there is one, nothing is drawn.
    pub(crate) fn any_link(&mut self) -> usize {
        if self.links.len() == 1 { 0 } else { self.rng.index(self.links.len()) }
    }

    /// What the seed has in store for this step.
    fn fate(&mut self, step: usize) {
        let link = self.settings.ending.link(step, self.links.len());
        match self.settings.ending {
            Ending::Terminate(at) if at == step => self.terminate(),
            Ending::Reset(at) if at == step => {
                self.book.report.count("cut: reset");
                self.fail_transport(link);
            }
            Ending::Fatal(at) if at == step && !self.links[link].server.is_closed() => {
                self.note(|_| "the server is shut down".into());
                self.links[link].server.shut_down();
            }
            Ending::Hostile(at) if at == step => self.garble(link),
            Ending::Silence(at) if at == step => {
                self.note(|_| "the server falls silent".into());
                self.links[link].down.frozen_until = Time::NEVER;
            }
            Ending::Stall(at) if at == step => {
                self.note(|_| "the server takes nothing more".into());
                self.links[link].up.frozen_until = Time::NEVER;
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
        let at = self.any_link();
        match self.rng.below(S::MOMENTS) {
            0 | 1 => self.client_write(at),
            2 | 3 => self.server_read(at),
            4 | 5 => self.server_write(at),
            6 | 7 => self.client_read(at),
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
            let links = self.links.iter().map(Link::next).min().unwrap_or(Time::NEVER);
            let next = links.min(S::next(self));
            if self.driven.is_closed() || !self.moved && (next > soon || !self.wait_for_next()) {
                break;
            }
        }
    }

    fn move_bytes(&mut self) {
        for at in 0..self.links.len() {
            self.client_write(at);
            self.server_read(at);
            self.server_write(at);
            self.client_read(at);
        }
        S::move_on(self);
        self.drain();
    }

    /// Ends what was begun, moves everything, and sees to it that everything ends.
    fn finish(&mut self) {
        if self.links.len() > 1 {
            self.lose_silent_link();
        }
        for _ in 0..STEPS_MAX {
            if self.is_over() || self.is_settled() {
                return self.hang_up_all();
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
        let what = format!("it does not end: {:?} {:?}", self.driven, self.links);
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
            && !(self.garbled && self.links.len() == 1)
            && (0..self.links.len()).all(|at| {
                self.links[at].is_quiet() || self.links.len() > 1 && self.driven.is_link_closed(at)
            })
    }

    /// Where others go on, it is the network that gives up a link over which nothing comes.
    fn lose_silent_link(&mut self) {
        if let Some(at) = self.links.iter().position(Link::is_frozen) {
            self.book.report.count("cut: silence");
            self.links[at].thaw();
            self.fail_transport(at);
        }
    }

    /// No byte moves and no deadline comes: that may only be where nothing gets through.
    fn nothing_moves(&mut self) {
        let dead = self.links.iter().position(Link::is_frozen);
        if !(dead.is_some() || self.garbled && S::HOSTILE_MAY_STALL) {
            self.book.complain(format!(
                "it is stuck with {} who wait: {:?} {:?}",
                self.parked.len(),
                self.driven,
                self.links
            ));
        }
        if let Some(token) = self.book.overdue(Time::NEVER) {
            self.book.complain(format!("{token} has a deadline, and it never came"));
        }
        self.book.report.count("cut: silence");
        self.fail_transport(dead.unwrap_or(0));
        self.drain();
    }

    /// The client closes its sockets.
    fn hang_up_all(&mut self) {
        if self.book.findings.is_empty() {
            (0..self.links.len()).for_each(|at| self.hang_up(at));
        }
    }

    /// The client closes a socket: what is on its way arrives in part, and the server works it off.
    pub(crate) fn hang_up(&mut self, at: usize) {
        let is_torn = self.driven.is_link_closed(at) && !self.terminated && self.rng.one_in(2);
        let keep = if is_torn { self.rng.index(20_000) } else { usize::MAX };
        self.links[at].hang_up(keep);
    }

    /// Lets time pass until something can happen; false if nothing will.
    fn wait_for_next(&mut self) -> bool {
        let links = (0..self.links.len()).map(|at| self.next_of(at)).min().unwrap_or(Time::NEVER);
        let late = self.mutator.is(Mutation::LateDeadlines);
        let deadline = self.driven.poll_deadline().filter(|_| !late).unwrap_or(Time::NEVER);
        let next = links.min(deadline).min(S::next(self));
        // Bytes that could have been read and were not are nothing to wait for.
        if next == Time::NEVER || next <= self.now && deadline > self.now {
            return false;
        }
        self.now = self.now.max(next);
        self.handle_time();
        true
    }

    /// When bytes of a link can be read.
    fn next_of(&self, at: usize) -> Time {
        let link = &self.links[at];
        let up = if link.server.wants_bytes() { link.up.next() } else { Time::NEVER };
        let down = if self.driven.is_link_closed(at) { Time::NEVER } else { link.down.next() };
        up.min(down)
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
        let unread = (0..self.links.len())
            .any(|at| !self.driven.wants_bytes(at) && self.links[at].down.next() <= self.now);
        if !late && (self.rng.one_in(4) || due) {
            self.driven.handle_time(self.now);
        }
        self.drain();
        if unread && self.book.closed == Some(CloseReason::Stalled) {
            self.book.complain("it was declared dead, and what it sent had not been read");
        }
        let yields = self.settings.network.limits.yield_after != Duration::MAX;
        if yields && !late && self.driven.poll_deadline().is_some_and(|at| at <= self.now) {
            // A request came behind one that is late.
            self.driven.handle_time(self.now);
            self.drain();
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
