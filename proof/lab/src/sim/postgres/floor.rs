//! Groups: which one holds the floor, what it does with it, and how slowly it reads.

use std::time::Duration;

use onetrip_engine::{Group, SyncPoint, Token};

use super::plan::Role;
use super::workload::OpenPortal;
use super::{Plan, World};
use crate::sim::host::Taken;

/// A group, from its wish for the floor until its replies are consumed.
pub(crate) struct Floor {
    pub(super) token: u64,
    pub(super) group: Group,
    pub(super) granted: bool,
    pub(super) closed: bool,
    mid_segment: bool,
    /// Its place in issue order, and the next one's within it.
    pub(super) place: (u64, u64),
    /// Bytes of replies that its reader has not taken.
    pub(super) unconsumed: usize,
    /// Whether it begins no transaction, so that it may be cancelled: if a cancel hit the end of a
    /// transaction, that would stay open.
    pub(super) plain: bool,
    /// Whether its unread bytes don't count against the window.
    uncounted: bool,
    /// Requests that have not ended.
    pub(super) pending: usize,
    /// The run of its requests: a segment or a transaction.
    pub(super) run: u64,
    /// Its explicit transaction.
    pub(super) transaction: Option<usize>,
    /// Whether COMMIT was sent with the last statement: if it did not end the transaction, that has
    /// to be rolled back.
    cleanup: bool,
    portal: Option<OpenPortal>,
}

impl World {
    pub(super) fn open_group(&mut self) {
        if self.side.floors.len() >= FLOORS_MAX {
            return;
        }
        let token = self.take_id();
        match self.driven.open_group(self.now, Token(token)) {
            Some(group) => {
                self.note(|_| format!("group {token} wants the floor"));
                self.book.own.wishes.push(token);
                let place = self.take_place();
                let late = self.settings.own.cancel_lag > Duration::ZERO;
                let plain = self.settings.own.cancels && (late || self.rng.one_in(2));
                let plain = plain || self.side.owners.is_some() && !self.is_lent();
                self.side.floors.push(Floor {
                    token,
                    group,
                    granted: false,
                    closed: false,
                    mid_segment: false,
                    place,
                    unconsumed: 0,
                    plain,
                    uncounted: false,
                    pending: 0,
                    run: 0,
                    transaction: None,
                    cleanup: false,
                    portal: None,
                });
            }
            None if self.terminated || self.driven.is_closed() => {}
            None => self.book.complain("an open connection opens no group"),
        }
        self.drain();
    }

    pub(super) fn granted(&mut self, token: u64) {
        let other = self.side.floors.iter().find(|floor| floor.granted && !floor.closed);
        if let Some(other) = other {
            let what = format!("{token} has the floor, and so has {}", other.token);
            self.book.complain(what);
        }
        if let Some(floor) = self.side.floors.iter_mut().find(|floor| floor.token == token) {
            floor.granted = true;
        }
    }

    /// A part of a reply came, which the reader of the group has to take.
    pub(super) fn received_in_floor(&mut self, token: Token, len: usize, ended: bool) {
        let group = self.book.records.get(&token.0).and_then(|record| record.group);
        let mut floors = self.side.floors.iter_mut();
        if let Some(floor) = floors.find(|floor| group == Some(floor.token)) {
            floor.unconsumed += len;
            floor.pending = floor.pending.saturating_sub(usize::from(ended));
        }
        if ended {
            self.side.floors.retain(|floor| floor.token != token.0);
        }
    }

    /// The group with the floor does something; now and then a wish for the floor is withdrawn.
    pub(super) fn use_floor(&mut self) {
        if self.is_being_left() {
            return;
        }
        let Some(at) = self.side.floors.iter().position(|floor| floor.granted && !floor.closed)
        else {
            if !self.side.floors.is_empty() && self.rng.one_in(30) {
                let at = self.rng.index(self.side.floors.len());
                if !self.side.floors[at].granted {
                    self.book.report.count("group withdrawn");
                    self.close_floor(at);
                }
            }
            return;
        };
        match self.rng.below(16) {
            0 => self.close_floor(at),
            3 if self.rng.one_in(3) => self.stop_counting(at),
            1 | 2 => {
                let before = self.driven.in_flight_bytes() + self.driven.queued_bytes();
                let group = self.side.floors[at].group;
                self.sending(|driven, now| driven.flush(now, group));
                let after = self.driven.in_flight_bytes() + self.driven.queued_bytes();
                self.book.report.add("group flushed", u64::from(after > before));
                self.drain();
            }
            _ => {
                for _ in 0..self.rng.up_to(4) {
                    if let Some(at) = self.side.floors.iter().position(|f| f.granted && !f.closed) {
                        self.submit_in_floor(at);
                    }
                }
            }
        }
    }

    /// The reader takes its replies only when all have come, so no other request may wait for it.
    fn stop_counting(&mut self, at: usize) {
        let group = self.side.floors[at].group;
        self.sending(|driven, now| driven.stop_counting(now, group));
        self.book.report.count("replies no longer counted");
        if self.driven.undelivered_bytes() > 0 {
            self.book.complain("replies still count");
        }
        self.side.floors[at].uncounted = true;
        self.drain();
    }

    fn submit_in_floor(&mut self, at: usize) {
        let Floor { mid_segment: mid, transaction, cleanup, plain, .. } = self.side.floors[at];
        let in_transaction = transaction.is_some();
        let portal = self.side.floors[at].portal.clone();
        let sync = self.rng.pick(&[SyncPoint::Member, SyncPoint::Member, SyncPoint::Own]);
        let mut next_portal = None;
        let plan = match self.rng.below(12) {
            _ if cleanup => self.plan_control(Role::Rollback, SyncPoint::Own),
            0 | 1 if !(mid || in_transaction || plain) => self.plan_control(Role::Begin, sync),
            0 if in_transaction => self.plan_control(Role::Commit, SyncPoint::Own),
            1 if in_transaction && !mid => self.plan_control(Role::Rollback, SyncPoint::Own),
            2 if !mid => self.plan_simple(),
            3 if mid => self.plan_sync(),
            4 | 5 => {
                let (plan, portal) = self.plan_portal();
                next_portal = Some(portal);
                plan
            }
            6..=8 if mid => match portal {
                Some(portal) => {
                    let (plan, portal) = self.plan_fetch(&portal, sync);
                    next_portal = Some(portal);
                    plan
                }
                None => self.plan_in_segment(sync),
            },
            _ => self.plan_in_segment(sync),
        };
        if self.submit_to_floor(at, plan)
            && let Some(floor) = self.side.floors.get_mut(at)
            && next_portal.is_some()
            && floor.mid_segment
        {
            floor.portal = next_portal;
        }
    }

    /// Submits a request of a group, and keeps the books on its segment and transaction.
    fn submit_to_floor(&mut self, at: usize, plan: Plan) -> bool {
        let (id, role, sync) = (plan.id, plan.own.role, plan.own.sync);
        let first = !self.side.floors[at].mid_segment && self.side.floors[at].transaction.is_none();
        if first {
            self.side.floors[at].run = id;
        }
        if role == Role::Begin {
            self.side.transactions.push(Vec::new());
            self.side.floors[at].transaction = Some(self.side.transactions.len() - 1);
        }
        // The state of the floor is read before the outputs are taken: they may end it.
        let token = self.side.floors[at].token;
        let taken = self.submit_quietly(plan, at);
        let Some(floor) = self.side.floors.iter_mut().find(|floor| floor.token == token) else {
            return false;
        };
        if taken != Taken::Yes {
            if role == Role::Begin {
                floor.transaction = None;
            }
            return false;
        }
        if let Some(transaction) = floor.transaction {
            self.side.transactions[transaction].push(id);
        }
        match role {
            Role::Commit if floor.mid_segment => floor.cleanup = true,
            Role::Commit | Role::Rollback => {
                floor.transaction = None;
                floor.cleanup = false;
            }
            _ => {}
        }
        floor.mid_segment = sync == SyncPoint::Member;
        if !floor.mid_segment {
            floor.portal = None;
        }
        self.drain();
        true
    }

    fn submit_quietly(&mut self, mut plan: Plan, at: usize) -> Taken {
        plan.own.floor = Some(at);
        // Within a group `reserved` means nothing: here it only defers the outputs.
        let taken = self.submit(plan, true);
        if taken == Taken::Full {
            self.book.report.count("refused in a group");
            self.drain();
        }
        taken
    }

    /// A group gives the floor back, or its wish for it.
    pub(super) fn end_floor(&mut self, at: usize) {
        if self.side.floors.get(at).is_some_and(|floor| !floor.closed) {
            self.close_floor(at);
        }
    }

    /// Ends what a group has begun and gives the floor back.
    fn close_floor(&mut self, at: usize) {
        let token = self.side.floors[at].token;
        if self.side.floors[at].mid_segment {
            let plan = self.plan_sync();
            if !self.submit_to_floor(at, plan) {
                if !self.driven.is_closed() {
                    self.book.complain("a group can't end its segment");
                }
                return;
            }
        }
        let Some(at) = self.side.floors.iter().position(|floor| floor.token == token) else {
            return;
        };
        if self.side.floors[at].transaction.is_some() {
            let plan = self.plan_control(Role::Rollback, SyncPoint::Own);
            if !self.submit_to_floor(at, plan) {
                return;
            }
        }
        let Some(floor) = self.side.floors.iter_mut().find(|floor| floor.token == token) else {
            return;
        };
        let (group, granted) = (floor.group, floor.granted);
        floor.closed = true;
        self.note(|_| format!("group {token} is closed"));
        self.moved = true;
        if !granted {
            self.side.floors.retain(|floor| floor.token != token);
            self.book.own.wishes.retain(|wish| *wish != token);
        }
        self.sending(|driven, now| driven.close_group(now, group));
        self.drain();
    }

    pub(super) fn close_floors(&mut self) {
        if let Some(at) = self.side.floors.iter().position(|floor| floor.granted && !floor.closed) {
            self.close_floor(at);
        }
    }

    /// Readers take some of what they were handed.
    pub(super) fn consume_some(&mut self) {
        for at in 0..self.side.floors.len() {
            let Some(Floor { unconsumed, group, uncounted, pending, .. }) =
                self.side.floors.get(at)
            else {
                break;
            };
            let (unconsumed, group) = (*unconsumed, *group);
            if unconsumed > 0 && !(*uncounted && *pending > 0) {
                let bytes = self.rng.up_to(unconsumed);
                self.side.floors[at].unconsumed -= bytes;
                self.sending(|driven, now| driven.handle_consumed(now, group, bytes));
                self.book.report.count("slow reader took some");
                self.moved = true;
            }
        }
        let before = self.side.floors.len();
        self.side.floors.retain(|f| !f.closed || f.unconsumed > 0 || f.pending > 0);
        self.moved |= self.side.floors.len() < before;
        self.drain();
    }
}

const FLOORS_MAX: usize = 3;
