//! What only PostgreSQL's hosts do.

use onetrip_engine::{Feed, Request};
use onetrip_postgres::Expect;

use super::mutation::Own;
use super::owners::Owners;
use super::reply::Part;
use super::workload::reply_len_max;
use super::{Plan, Record, World};
use crate::sim::Mutation;
use crate::sim::book::State;
use crate::sim::side::Bounds;

impl World {
    /// Does something that a host does.
    pub(super) fn act_any(&mut self) {
        if self.side.owners.as_mut().is_some_and(Owners::is_leaving) {
            return;
        }
        if self.side.owners.is_some() && self.rng.one_in(3) {
            return self.act_as_owner();
        }
        if self.settings.own.cancels && self.rng.one_in(3) {
            self.want_cancel();
        }
        match self.rng.below(16) {
            0..=6 => self.submit_one(),
            7 if self.rng.one_in(2) => {
                for _ in 0..self.rng.up_to(20) {
                    self.submit_one();
                }
            }
            7..=9 => self.submit_segment(),
            10 | 11 => self.open_group(),
            12 | 13 => self.take_back(),
            14 => self.forget_prepared(),
            _ => self.take_turn(),
        }
    }

    /// Something that happens at the server by itself.
    pub(super) fn server_moment(&mut self) {
        if self.mutator.is(Mutation::Own(Own::StrayCancel)) {
            self.server.cancel();
        }
        if self.settings.losses && !self.side.prepared.is_empty() {
            match self.rng.below(3) {
                0 if self.server.is_idle() => {
                    self.note(|_| "  prepared statements are lost".into());
                    self.server.lose_statements();
                }
                1 => {
                    self.note(|_| "  prepared statements go stale".into());
                    self.server.make_stale();
                }
                _ => return,
            }
            self.side.healing = true;
        } else if self.rng.one_in(8) {
            self.freeze();
        }
    }

    pub(super) fn submit_segment(&mut self) {
        let plans = self.plan_segment();
        let bytes = plans.iter().map(|plan| plan.bytes.len()).sum();
        if self.driven.has_room(plans.len(), bytes) {
            self.submit_all(plans);
        } else if self.rng.one_in(4) {
            self.book.report.count("refused");
        } else {
            self.wait(plans);
        }
    }

    /// Requests of an explicit transaction, for which there is room.
    pub(super) fn submit_in_transaction(&mut self, plans: Vec<Plan>) {
        let ids: Vec<u64> = plans.iter().map(|plan| plan.id).collect();
        self.submit_all(plans);
        for id in ids {
            if let Some(record) = self.book.records.get_mut(&id) {
                record.own.in_transaction = true;
            }
        }
    }

    pub(super) fn request_of(&self, plan: &Plan, reserved: bool) -> Request<Expect> {
        let own = &plan.own;
        Request {
            token: plan.token(),
            expect: self.side.owners.as_ref().map_or(own.expect, |owners| owners.expect(plan)),
            sync: own.sync,
            deadline: plan.deadline,
            again: plan.again,
            joins: own.joins,
            group: own.floor.map(|at| self.side.floors[at].group),
            in_order: self.is_lent(),
            pinned: own.pinned,
            resend: own.resend,
            cancel_late: own.cancel_late,
            reserved,
            feed: Feed::Whole,
            metered: false,
        }
    }

    /// What is known of a request that was taken.
    pub(super) fn record_of(&mut self, plan: Plan) -> Record {
        self.side.reply_max = self.side.reply_max.max(reply_len_max(&plan));
        if let Some(owners) = &mut self.side.owners {
            owners.keep(&plan);
        }
        let floor = plan.own.floor;
        let place = match floor {
            Some(at) => {
                let place = &mut self.side.floors[at].place;
                place.1 += 1;
                *place
            }
            None => self.take_place(),
        };
        let mut record = Record::new(plan, State::Submitted, place);
        record.own.in_order = self.is_lent();
        if record.plan.own.depends {
            let columns = Part::Columns { op: 0, format: Default::default() };
            record.own.healed = vec![Part::ParseComplete, Part::Parameters(3), columns];
        }
        if let Some(at) = floor {
            let floor = &mut self.side.floors[at];
            floor.pending += 1;
            record.run = floor.run;
            record.group = Some(floor.token);
            record.own.in_transaction = floor.transaction.is_some();
        }
        record
    }

    /// A prepared statement leaves the cache, maybe while requests use it.
    fn forget_prepared(&mut self) {
        if !self.side.prepared.is_empty() && self.rng.one_in(4) {
            let at = self.rng.index(self.side.prepared.len());
            let (id, _) = self.side.prepared.swap_remove(at);
            self.driven.protocol_mut().unregister(id);
        }
    }

    pub(super) fn register_prepared(&mut self) {
        for prepared in std::mem::take(&mut self.book.own.confirmed) {
            let id = self.driven.protocol_mut().register(prepared.heal());
            self.side.prepared.push((id, prepared));
        }
    }

    pub(super) fn bounds(&self) -> Bounds {
        let limits = &self.settings.network.limits;
        let window = limits.in_flight_max.max(1);
        let request = self.bytes_max + ADDED_MAX;
        let bytes = limits.in_flight_bytes_max + request;
        let wishes = self.side.floors.len();
        Bounds {
            added: ADDED_MAX,
            queued: 2 * (limits.queue_max + self.run_max) + wishes,
            queued_bytes: 2 * (limits.queue_bytes_max + self.run_max * request),
            undelivered_bytes: bytes + (window + 1).saturating_mul(self.side.reply_max),
            owed: OWED_MAX,
        }
    }
}

/// Bytes that the engine may add to a request: what prepares its statement anew, and a Flush.
const ADDED_MAX: usize = 200;
/// A reset, which no request has to wait for.
const OWED_MAX: usize = 1000;
