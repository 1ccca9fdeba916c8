//! The host takes outputs and checks limits.

use onetrip_engine::{Cause, CloseReason, End, Outcome, Output, Token};

use super::book::failed;
use super::driven::{Driven, Load};
use super::side::{Peer, Side};
use super::world::World;

impl<S: Side> World<S> {
    /// Takes outputs until there are no more.
    pub(crate) fn drain(&mut self) {
        loop {
            let mut outputs: Vec<_> = std::iter::from_fn(|| self.driven.poll_output()).collect();
            self.mutator.strike::<S>(&mut outputs, self.links[0].server.log());
            while let Some(at) = self.driven.poll_link() {
                self.open_link(at);
            }
            if outputs.is_empty() {
                break;
            }
            S::prepare_outputs(self);
            for output in outputs {
                self.note(|_| format!("{output:?}"));
                self.book.note(self.now, &output);
                self.react(output);
            }
        }
        S::drained(self);
        let load = self.driven.load();
        self.check_limits(load);
        self.check_nobody_is_forgotten(load);
    }

    fn react(&mut self, output: Output<<S::Driven as Driven>::Event>) {
        match output {
            Output::Data { token, block } => S::received(self, token, block.len(), false),
            Output::Ended { token, block, end, .. } => {
                self.check_unsent(token, end);
                S::received(self, token, block.len(), true);
                self.parked.retain(|(waiting, _)| *waiting != token.0);
            }
            Output::Room { token } => self.room_for(token),
            Output::Closed(reason) => self.closed(&reason),
            output => S::react(self, output),
        }
    }

    /// What the engine hands out for another connection was not sent, as the check of all outcomes
    /// holds against what the server saw; and it is what was submitted, whole and by itself.
    fn check_unsent(&mut self, token: Token, end: End) {
        let Some(bytes) = self.driven.take_unsent(token) else { return };
        self.book.report.count("could go on elsewhere");
        let is_unsent = end == failed(Outcome::NotSent, Cause::Closed);
        let is_whole = self.book.records.get(&token.0).is_some_and(|record| {
            record.plan.bytes == bytes && record.run == record.plan.id && record.group.is_none()
        });
        if !(is_unsent && is_whole) {
            self.book.complain(format!("{token:?} ended as {end:?} and was handed out"));
        }
    }

    fn room_for(&mut self, token: Token) {
        if let Some(at) = self.parked.iter().position(|(waiting, _)| *waiting == token.0) {
            self.turn = Some(self.parked.remove(at).1);
        }
        if self.rng.one_in(2) {
            self.take_turn();
        }
    }

    fn closed(&mut self, reason: &CloseReason) {
        let explained = S::closed(self, reason);
        match reason {
            _ if explained => {}
            CloseReason::Host if self.terminated => self.book.report.count("closed: goodbye"),
            CloseReason::Host => self.book.report.count("closed: transport"),
            CloseReason::Server(_) => self.book.report.count(S::CLOSED_BY_SERVER),
            CloseReason::Violation(_) => {
                self.book.report.count("closed: violation");
                if !self.garbled {
                    self.book.complain(format!("the server did nothing wrong: {reason:?}"));
                }
            }
            CloseReason::Unusable(why) => self.book.complain(format!("closed as unusable: {why}")),
            CloseReason::NoMemory => self.book.complain(format!("there is memory: {reason:?}")),
            CloseReason::Stalled => {
                self.book.report.count("closed: stalled");
                let silent = self.now.since(self.last_moved);
                if silent < self.settings.network.limits.stall_timeout {
                    self.book.complain(format!("bytes moved {silent:?} ago"));
                }
            }
            CloseReason::Silent => {
                self.book.report.count("closed: silent");
                let silent = self.now.since(self.last_moved);
                if silent < self.settings.network.limits.cancel_wait_max {
                    self.book.complain(format!("bytes moved {silent:?} ago"));
                }
            }
        }
    }

    /// Checks the limits that no step may exceed.
    fn check_limits(&mut self, load: Load) {
        let (limits, bounds) = (&self.settings.network.limits, S::bounds(self));
        let unwritten = (0..self.links.len()).map(|at| self.driven.transmit(at).len()).max();
        let window = limits.in_flight_max.max(1) + bounds.beyond;
        let bytes = limits.in_flight_bytes_max + self.bytes_max + bounds.added;
        let untaken = limits.untaken_bytes_max.saturating_add(self.input_max);
        let checks = [
            ("in flight", load.in_flight, window),
            ("bytes in flight", load.in_flight_bytes, bytes),
            ("queued", load.queued, bounds.queued),
            ("bytes queued", load.queued_bytes, bounds.queued_bytes),
            ("bytes undelivered", load.undelivered_bytes, bounds.undelivered_bytes),
            ("bytes untaken", load.untaken_bytes, untaken),
            // If a reply came early, the unwritten bytes of its request remain.
            ("bytes unwritten", unwritten.unwrap_or(0), 2 * bytes + bounds.owed),
        ];
        for (what, is, max) in checks {
            if is > max {
                self.book.complain(format!("{is} {what}, and {max} is the most"));
            }
        }
    }

    /// Checks that a caller that waits, as the host knows, also waits in the engine.
    fn check_nobody_is_forgotten(&mut self, load: Load) {
        if self.driven.is_closed() {
            return;
        }
        if load.waiting != self.parked.len() {
            self.book.complain("a caller waits for room that was never announced");
        }
        if load.in_flight == 0 && load.queued > 0 && !S::may_stand_still(self) {
            self.book.complain("the queue stands still without a reason");
        }
        let is_idle = self.driven.is_idle() && self.turn.is_none() && !S::is_busy(self);
        if is_idle && self.book.full {
            self.book.complain("nothing is left to do, and Drained has not come");
        }
    }
}
