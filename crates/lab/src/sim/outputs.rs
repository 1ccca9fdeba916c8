//! What the engine says, as the host takes it.

use bytes::Bytes;
use onetrip_engine::{CloseReason, Output, Token};
use onetrip_postgres::Event;

use super::book::letter;
use super::world::World;

impl World {
    /// Takes what happened until nothing more does.
    pub(super) fn drain(&mut self) {
        loop {
            let mut outputs: Vec<Output<Event>> =
                std::iter::from_fn(|| self.engine.poll_output()).collect();
            self.mutator.strike(&mut outputs, self.server.log());
            if outputs.is_empty() {
                break;
            }
            self.book.guards_fail =
                self.server.log().resets_failed()[0] > 0 || self.has_deallocated();
            for output in outputs {
                self.note(|world| {
                    let status = letter(world.engine.protocol().status());
                    format!("{status} {output:?}")
                });
                self.book.note(self.now, &output);
                self.react(output);
            }
        }
        self.register_prepared();
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
        if self.book.wishes.len() > self.engine.queued() {
            self.book.complain("a group waits for the floor, and the engine does not know");
        }
        let nobody_holds = !self.floors.iter().any(|floor| floor.granted);
        if self.engine.is_held() {
            return;
        }
        // It waits for the answer to a reset.
        let resets = self.engine.protocol().is_resetting();
        if nobody_holds && !resets && self.engine.in_flight() == 0 && self.engine.queued() > 0 {
            self.book.complain("the queue stands still, and nobody holds the floor");
        }
        if !self.engine.is_idle() || self.turn.is_some() {
            return;
        }
        if self.floors.is_empty() && self.book.full {
            self.book.complain("nothing is left to do, and Drained has not come");
        }
    }

    fn react(&mut self, output: Output<Event>) {
        match output {
            Output::Data { token, block } | Output::Piece { token, block, .. } => {
                self.received(token, &block, false)
            }
            Output::Ended { token, block, .. } => {
                self.received(token, &block, true);
                self.parked.retain(|(waiting, _)| *waiting != token.0);
                self.floors.retain(|floor| floor.token != token.0);
            }
            Output::Granted { token } => self.granted(token.0),
            Output::Cancel => self.prepare_cancel(),
            Output::Room { token } => {
                if let Some(at) = self.parked.iter().position(|(waiting, _)| *waiting == token.0) {
                    self.turn = Some(self.parked.remove(at).1);
                }
                if self.rng.one_in(2) {
                    self.take_turn();
                }
            }
            Output::Closed(reason) => self.closed(&reason),
            _ => {}
        }
    }

    fn received(&mut self, token: Token, block: &Bytes, ended: bool) {
        let group = self.book.records.get(&token.0).and_then(|record| record.group);
        if let Some(group) = group
            && let Some(floor) = self.floors.iter_mut().find(|floor| floor.token == group)
        {
            floor.unconsumed += block.len();
            floor.pending = floor.pending.saturating_sub(usize::from(ended));
        }
    }

    fn closed(&mut self, reason: &CloseReason) {
        self.floors.clear();
        match reason {
            CloseReason::Host if self.terminated => self.book.report.count("closed: goodbye"),
            CloseReason::Host => self.book.report.count("closed: transport"),
            CloseReason::Server(_) => self.book.report.count("closed: FATAL"),
            CloseReason::Violation(_) => {
                self.book.report.count("closed: violation");
                if !self.garbled {
                    self.book.complain(format!("the server did nothing wrong: {reason:?}"));
                }
            }
            CloseReason::Unusable(why) => self.closed_unusable(why),
            CloseReason::NoMemory => self.book.complain(format!("there is memory: {reason:?}")),
            CloseReason::Stalled => {
                self.book.report.count("closed: stalled");
                let silent = self.now.since(self.last_moved);
                if silent < self.settings.limits.stall_timeout {
                    self.book.complain(format!("bytes moved {silent:?} ago"));
                }
            }
        }
    }
}
