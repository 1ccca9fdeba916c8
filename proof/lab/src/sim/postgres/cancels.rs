//! Cancels: how they travel, what they may hit, and what the host is told.

use std::collections::HashSet;
use std::time::Duration;

use onetrip_engine::{CancelEnd, Group, SyncPoint, Time, Token, Wanted};

use super::{Record, World};

/// The cancel that is under way.
#[derive(Default)]
pub(crate) struct Cancels {
    way: Option<(Stage, Time)>,
    /// Until then, it may hit the statement that the server runs.
    strikes_until: Option<Time>,
}

/// The stage of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The engine asked for it, and the host gets ready.
    Asked,
    /// It travels to the server.
    Sent,
    /// Its connection was closed, and the host will hear of it.
    Closed,
}

/// The requests that may fail as cancelled.
#[derive(Default)]
pub(crate) struct Wishes {
    /// Runs: requests that share a sync point fail together.
    runs: HashSet<u64>,
    /// By the token of the group.
    groups: HashSet<u64>,
    /// Whether a cancel got lost or may come late: then a request that is not sent again may be
    /// hit.
    pub(super) unprotected: bool,
}

impl Wishes {
    /// Whether the host wanted this request cancelled.
    pub(super) fn want(&self, record: &Record) -> bool {
        self.runs.contains(&record.run)
    }

    /// Whether this request may fail as cancelled, and not be sent again.
    pub(super) fn allow(&self, record: &Record) -> bool {
        let comes_again = record.plan.own.resend && record.own.restarts == 0;
        self.runs.contains(&record.run)
            || record.group.is_some_and(|group| self.groups.contains(&group))
            || self.unprotected && !comes_again
    }
}

impl Cancels {
    /// When something happens to it next.
    pub(super) fn next(&self) -> Time {
        let moves = self.way.map_or(Time::NEVER, |(_, at)| at);
        moves.min(self.strikes_until.unwrap_or(Time::NEVER))
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.way.is_some()
    }
}

impl World {
    /// The host cancels a request or a group, at any stage.
    pub(super) fn want_cancel(&mut self) {
        match self.rng.one_in(4) {
            true => self.want_cancel_of_group(),
            false => self.want_cancel_of_request(),
        }
        self.drain();
    }

    fn want_cancel_of_request(&mut self) {
        let open: Vec<u64> = self.book.submitted().collect();
        if open.is_empty() {
            return;
        }
        let id = self.rng.pick(&open);
        let wanted = self.driven.want_cancel(self.now, Token(id));
        self.note(|_| format!("{id} is to be cancelled: {wanted:?}"));
        self.book.report.count("cancel wanted");
        let record = &self.book.records[&id];
        let run = record.run;
        let ends_segment = record.plan.own.sync != SyncPoint::Member && record.group.is_none();
        let fits = match wanted {
            Wanted::TakenBack => true,
            Wanted::Noted(Token(victim)) => victim == id && ends_segment,
            Wanted::NotPossible => !ends_segment || record.plan.own.joins,
            // It has ended, and the host was not told yet.
            Wanted::Unknown => false,
        };
        if !fits {
            self.book.complain(format!("{id} was to be cancelled: {wanted:?}"));
        }
        self.book.own.wishes_to_cancel.runs.insert(run);
    }

    fn want_cancel_of_group(&mut self) {
        let candidates = self.side.floors.iter().filter(|floor| floor.granted && floor.plain);
        let candidates: Vec<(u64, Group)> =
            candidates.map(|floor| (floor.token, floor.group)).collect();
        if candidates.is_empty() {
            return;
        }
        let (token, group) = self.rng.pick(&candidates);
        let wanted = self.driven.want_cancel_group(self.now, group);
        self.note(|_| format!("group {token} is to be cancelled: {wanted:?}"));
        self.book.report.count("cancel of a group wanted");
        self.book.own.wishes_to_cancel.groups.insert(token);
    }

    /// The engine asks for a cancel.
    pub(super) fn prepare_cancel(&mut self) {
        if self.side.cancels.way.is_some() {
            self.book.complain("a second cancel while one is under way");
        }
        self.book.own.yields = self.settings.network.limits.yield_after != Duration::MAX;
        self.side.cancels.way = Some((Stage::Asked, self.some_time()));
    }

    /// Does the next step of the cancel under way, if it is due.
    pub(super) fn move_cancel(&mut self) {
        if self.side.cancels.strikes_until.is_some_and(|until| until <= self.now) {
            self.end_strike();
        }
        let Some((stage, _)) = self.side.cancels.way.take_if(|(_, at)| *at <= self.now) else {
            return;
        };
        self.moved = true;
        match stage {
            Stage::Asked => self.begin_cancel(),
            Stage::Sent => self.strike(),
            Stage::Closed => {
                self.note(|_| "the cancel has ended".into());
                self.driven.handle_cancel_end(self.now, CancelEnd::Closed);
            }
        }
        self.drain();
    }

    fn begin_cancel(&mut self) {
        if self.rng.one_in(10) {
            self.note(|_| "no cancel can be sent".into());
            return self.driven.handle_cancel_end(self.now, CancelEnd::NotSent);
        }
        if !self.driven.begin_cancel(self.now) {
            self.book.report.count("cancel no longer wanted");
            return;
        }
        self.note(|_| "a cancel is sent".into());
        self.book.report.count("cancel sent");
        self.side.cancels.way = Some((Stage::Sent, self.some_time()));
    }

    /// The cancel reaches the server, or gets lost.
    fn strike(&mut self) {
        let lost = self.settings.own.cancel_lag > Duration::ZERO && self.rng.one_in(4);
        if lost {
            self.note(|_| "the cancel is lost".into());
            self.book.own.wishes_to_cancel.unprotected = true;
            self.driven.handle_cancel_end(self.now, CancelEnd::Lost);
        } else {
            self.side.cancels.way = Some((Stage::Closed, self.some_time()));
        }
        if lost && self.rng.one_in(2) || self.links[0].server.is_closed() {
            return;
        }
        self.links[0].server.cancel();
        self.side.cancels.strikes_until = Some(self.now);
        self.interrupt_server();
        match self.settings.own.cancel_lag {
            Duration::ZERO => self.end_strike(),
            lag => {
                self.book.own.wishes_to_cancel.unprotected = true;
                let nanos = self.rng.up_to(1 + lag.as_nanos() as usize) as u64;
                self.side.cancels.strikes_until = Some(self.now.after(Duration::from_nanos(nanos)));
            }
        }
    }

    /// Hits the work of the server: the next message, if it is complete.
    fn interrupt_server(&mut self) {
        while self.links[0].server.is_to_be_cancelled() && self.links[0].server.wants_bytes() {
            if self.links[0].up.frozen_until != Time::NEVER {
                self.links[0].up.frozen_until = Time::ZERO;
            }
            if self.links[0].up.next() > self.now {
                break;
            }
            self.server_read(0);
        }
    }

    /// Makes statements take time, so that a cancel can hit one.
    pub(super) fn keep_server_busy(&mut self) {
        if self.settings.own.cancels && self.rng.one_in(3) {
            let trip = self.settings.network.trip();
            let nanos = self.rng.below(2 * trip.as_nanos() as u64 + 1_000_000);
            let until = self.now.after(Duration::from_nanos(nanos));
            self.links[0].up.frozen_until = self.links[0].up.frozen_until.max(until);
        }
    }

    fn end_strike(&mut self) {
        self.side.cancels.strikes_until = None;
        let hit = self.links[0].server.forget_cancel();
        self.note(|_| format!("  the cancel {}", if hit { "has hit" } else { "hit nothing" }));
        self.book.report.count(if hit { "cancel hit" } else { "cancel hit nothing" });
    }

    fn some_time(&mut self) -> Time {
        let trip = self.settings.network.trip();
        self.now.after(Duration::from_nanos(self.rng.below(trip.as_nanos() as u64 + 1)))
    }
}
