//! The final checks that only PostgreSQL has.

use std::collections::HashMap;

use onetrip_engine::{Cause, CloseReason, End, Failure, Outcome, SyncPoint};

use super::plan::Role;
use super::{Record, World};
use crate::model::Effect;
use crate::sim::book::{State, failed};

impl World {
    pub(super) fn check_wishes(&self, findings: &mut Vec<String>) {
        let wishes = self.book.own.wishes.iter();
        findings.extend(wishes.map(|wish| format!("the wish {wish} never ended")));
    }

    /// Checks that complete requests were committed, and provisional ones if and only if their
    /// segment was.
    pub(super) fn check_effects(&self, findings: &mut Vec<String>) {
        // How the segments ended that members were part of.
        let ends: HashMap<u64, End> = self
            .segments()
            .into_iter()
            .filter_map(|(member, last)| Some((member, self.book.records[&last].end()?)))
            .collect();
        for (record, op, entry) in self.effects() {
            if record.own.in_transaction || record.plan.own.role != Role::Plain {
                continue;
            }
            let id = record.plan.id;
            let stands = entry.effect == Effect::Committed;
            let what = match (record.end(), ends.get(&id)) {
                (Some(End::Complete), _) if !stands => "was not committed",
                (Some(End::Provisional), Some(End::Complete)) if !stands => {
                    "was not committed with its segment"
                }
                (
                    Some(End::Provisional),
                    Some(End::Failed(Failure { outcome: Outcome::Rejected, .. })),
                ) if stands => "was committed, and its segment was not",
                _ => continue,
            };
            findings.push(format!("{id}: {op} {what}: {:?}, {entry:?}", record.state));
        }
    }

    /// For each member the request that carries its sync point.
    fn segments(&self) -> Vec<(u64, u64)> {
        let mut by_place: Vec<&Record> =
            self.book.records.values().filter(|record| record.state != State::Waiting).collect();
        by_place.sort_by_key(|record| record.place);
        let mut segments = Vec::new();
        let mut members: Vec<u64> = Vec::new();
        for record in by_place {
            if record.plan.own.sync == SyncPoint::Member {
                members.push(record.plan.id);
            } else {
                segments.extend(members.drain(..).map(|member| (member, record.plan.id)));
            }
        }
        segments
    }

    /// Explicit transactions: compares the end of each with the effects of its statements.
    pub(super) fn check_transactions(&mut self, findings: &mut Vec<String>) {
        for ids in &self.side.transactions {
            let Some(committed) = self.verdict(ids) else { continue };
            self.book.report.count(match committed {
                true => "transaction committed",
                false => "transaction rolled back",
            });
            for id in ids {
                let Some(record) = self.book.records.get(id) else { continue };
                let confirmed = matches!(record.end(), Some(End::Complete | End::Provisional));
                for op in record.plan.ops.iter().filter(|_| record.plan.own.role == Role::Plain) {
                    let effect = self.log().entry(*op).effect;
                    let stands = effect == Effect::Committed;
                    if stands && !committed || committed && confirmed && !stands {
                        let what = if committed { "committed" } else { "rolled back" };
                        findings.push(format!("{op} is {effect:?} in a transaction {what}"));
                    }
                }
            }
        }
    }

    /// Whether the transaction was committed, where the host knows.
    fn verdict(&self, ids: &[u64]) -> Option<bool> {
        let began = self.book.records.get(ids.first()?)?.end();
        if !matches!(began, Some(End::Complete | End::Provisional)) {
            // Its BEGIN left the queue with a statement whose deadline had passed.
            return None;
        }
        let ends = ids.iter().filter_map(|id| self.book.records.get(id));
        for record in ends.filter(|record| record.plan.own.role != Role::Plain) {
            let complete = record.end() == Some(End::Complete);
            match record.plan.own.role {
                Role::Commit if complete => {
                    return Some(record.own.tags.iter().any(|tag| tag == "COMMIT"));
                }
                Role::Commit if record.end() == Some(failed(Outcome::Rejected, Cause::Server)) => {
                    return Some(false);
                }
                Role::Rollback if complete => return Some(false),
                Role::Commit
                    if !matches!(record.outcome(), Some(Outcome::Rejected | Outcome::NotSent)) =>
                {
                    // It may have run; then a ROLLBACK after it changes nothing.
                    return None;
                }
                _ => {}
            }
        }
        None
    }

    /// The sequence in which a request has to run in issue order.
    pub(super) fn order_of(&self, record: &Record) -> Option<usize> {
        // A reset may have dropped prepared statements, too.
        let lost = self.side.healing || self.side.owners.is_some() && record.plan.own.depends;
        let again = lost && record.plan.again && !record.own.in_order;
        // Pipelines of others may overtake requests that a failed reset has put back.
        let passes = self.book.own.guards_fail && record.group.is_some() && !record.own.in_order;
        (!again && !record.may_be_restarted()).then_some(usize::from(passes))
    }

    pub(super) fn check_goodbyes(&self, findings: &mut Vec<String>) {
        let goodbye = self.terminated && self.book.closed == Some(CloseReason::Host);
        if self.log().goodbyes() > u64::from(goodbye) {
            findings.push("the server got a Terminate that the host did not send".into());
        }
    }
}
