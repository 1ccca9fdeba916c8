//! The actions that only PostgreSQL's hosts have.

use super::mutation::Own;
use super::{Plan, World};
use crate::sim::Mutation;

impl World {
    /// An event at the server that no client caused.
    pub(super) fn server_moment(&mut self) {
        if self.mutator.is(Mutation::Own(Own::StrayCancel)) {
            self.links[0].server.cancel();
        }
        if self.settings.losses && !self.side.prepared.is_empty() {
            match self.rng.below(3) {
                0 if self.links[0].server.is_idle() => {
                    self.note(|_| "  prepared statements are lost".into());
                    self.links[0].server.lose_statements();
                }
                1 => {
                    self.note(|_| "  prepared statements go stale".into());
                    self.links[0].server.make_stale();
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

    /// A prepared statement leaves the cache, maybe while requests use it.
    pub(super) fn forget_prepared(&mut self) {
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
}
