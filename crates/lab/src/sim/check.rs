//! When all is over: was the host told the truth?

use std::collections::{HashMap, HashSet};

use onetrip_engine::{Cause, CloseReason, End, Failure, Outcome, SyncPoint};

use super::book::{Record, State, failed};
use super::plan::Role;
use super::world::World;
use crate::model::{Effect, Entry};

impl World {
    /// Compares what the host was told with what happened at the server.
    pub(super) fn check(&mut self) {
        if !self.book.findings.is_empty() {
            return;
        }
        let mut findings = Vec::new();
        self.check_ends(&mut findings);
        self.check_outcomes(&mut findings);
        self.check_transactions(&mut findings);
        self.check_order(&mut findings);
        self.check_wire(&mut findings);
        self.check_server(&mut findings);
        self.check_owners(&mut findings);
        findings.into_iter().for_each(|finding| self.book.complain(finding));
    }

    fn check_ends(&self, findings: &mut Vec<String>) {
        let open = self.book.records.values().filter(|record| record.is_open());
        findings.extend(open.map(|record| format!("{} never ended", record.plan.id)));
        findings.extend(self.book.wishes.iter().map(|wish| format!("the wish {wish} never ended")));
        if !self.parked.is_empty() {
            findings.push("a caller waits for ever".into());
        }
    }

    fn check_outcomes(&self, findings: &mut Vec<String>) {
        let log = self.server.log();
        // How the segments ended that members were part of.
        let ends: HashMap<u64, End> = self
            .segments()
            .into_iter()
            .filter_map(|(member, last)| Some((member, self.book.records[&last].end()?)))
            .collect();
        for record in self.book.records.values() {
            let segment = ends.get(&record.plan.id).copied();
            for op in &record.plan.ops {
                let entry = log.entry(*op);
                if let Err(what) = judge(record, segment, entry) {
                    let end = record.state;
                    findings.push(format!("{} {what}: {end:?}, {entry:?}", record.plan.id));
                }
            }
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
            if record.plan.sync == SyncPoint::Member {
                members.push(record.plan.id);
            } else {
                segments.extend(members.drain(..).map(|member| (member, record.plan.id)));
            }
        }
        segments
    }

    /// Explicit transactions: what the end of each says of all that ran in it.
    fn check_transactions(&mut self, findings: &mut Vec<String>) {
        for ids in &self.transactions {
            let Some(committed) = self.verdict(ids) else { continue };
            self.book.report.count(match committed {
                true => "transaction committed",
                false => "transaction rolled back",
            });
            for id in ids {
                let Some(record) = self.book.records.get(id) else { continue };
                let confirmed = matches!(record.end(), Some(End::Complete | End::Provisional));
                for op in record.plan.ops.iter().filter(|_| record.plan.role == Role::Plain) {
                    let effect = self.server.log().entry(*op).effect;
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
            // Its BEGIN was taken out of the queue with a statement whose deadline had passed.
            return None;
        }
        let ends = ids.iter().filter_map(|id| self.book.records.get(id));
        for record in ends.filter(|record| record.plan.role != Role::Plain) {
            let complete = record.end() == Some(End::Complete);
            match record.plan.role {
                Role::Commit if complete => {
                    return Some(record.tags.iter().any(|tag| tag == "COMMIT"));
                }
                Role::Commit if record.end() == Some(failed(Outcome::Rejected, Cause::Server)) => {
                    return Some(false);
                }
                Role::Rollback if complete => return Some(false),
                Role::Commit if !matches!(record.end(), Some(End::Failed(f)) if f.outcome == Outcome::Rejected || f.outcome == Outcome::NotSent) =>
                {
                    // It may have run, and a ROLLBACK behind it changes nothing then.
                    return None;
                }
                _ => {}
            }
        }
        None
    }

    /// Requests run in issue order; a group runs where it asked for the floor.
    fn check_order(&mut self, findings: &mut Vec<String>) {
        let mut places: HashMap<u64, (u64, u64)> = HashMap::new();
        // Others' pipelines pass what a reset that failed has thrown back.
        let mut passing: HashSet<u64> = HashSet::new();
        for record in self.book.records.values() {
            // A reset may have taken what was prepared, too.
            let lost = self.healing || self.owners.is_some() && record.plan.depends;
            let again = lost && record.plan.again && !record.in_order || record.may_be_restarted();
            for op in record.plan.ops.iter().filter(|_| !again) {
                places.insert(*op, record.place);
            }
            if self.book.guards_fail && record.group.is_some() && !record.in_order {
                passing.extend(&record.plan.ops);
            }
        }
        let mut order = self.server.log().order();
        order.retain(|op| places.contains_key(op));
        let distinct: HashSet<u64> = order.iter().copied().collect();
        self.mutator.strike_order(&mut order);
        // The statements of one text are numbered in their order.
        let (groups, others): (Vec<u64>, Vec<u64>) =
            order.iter().partition(|op| passing.contains(op));
        let is_sorted = |ops: &[u64]| ops.is_sorted_by_key(|op| (places[op], *op));
        if !(is_sorted(&groups) && is_sorted(&others)) {
            findings.push(format!("they ran in another order: {order:?}"));
        }
        if distinct.len() != order.len() {
            findings.push(format!("one ran twice: {order:?}"));
        }
    }

    fn check_server(&self, findings: &mut Vec<String>) {
        let log = self.server.log();
        findings.extend(log.violations().into_iter().map(|what| format!("server: {what}")));
        let goodbye = self.terminated && self.book.closed == Some(CloseReason::Host);
        if log.goodbyes() > u64::from(goodbye) {
            findings.push("a goodbye that nobody said".into());
        }
    }
}

impl Record {
    /// Whether it was sent again, or was nobody's, so that nobody would hear of that.
    pub(super) fn may_be_restarted(&self) -> bool {
        let unheard =
            self.plan.discard || self.end() == Some(failed(Outcome::Unknown, Cause::Deadline));
        self.restarted || self.plan.resend && unheard
    }

    /// Whether its bytes went to the connection, as far as the host knows.
    pub(super) fn is_on_wire(&self) -> bool {
        match self.state {
            State::Waiting => false,
            State::Submitted => true,
            State::Ended(End::Failed(Failure { outcome: Outcome::NotSent, cause })) => {
                cause == Cause::Closed && self.place != (0, 0)
            }
            State::Ended(_) => true,
        }
    }
}

/// What is wrong with a request that ended so, whose segment ended so, and that left this behind.
fn judge(record: &Record, segment: Option<End>, entry: Entry) -> Result<(), &'static str> {
    let stands = entry.effect == Effect::Committed;
    if entry.executed > 1 + u32::from(record.may_be_restarted()) {
        return Err("ran more than once");
    }
    if entry.effect == Effect::Pending {
        return Err("is still pending");
    }
    let settled = !record.in_transaction && record.plan.role == Role::Plain;
    match record.state {
        State::Waiting => Err("waits for ever"),
        State::Submitted => Ok(()),
        State::Ended(End::Complete) if settled && !stands => Err("was not committed"),
        State::Ended(End::Provisional) if settled => match segment {
            Some(End::Complete) if !stands => Err("was not committed with its segment"),
            Some(End::Failed(Failure { outcome: Outcome::Rejected, .. })) if stands => {
                Err("was committed, and its segment was not")
            }
            _ => Ok(()),
        },
        State::Ended(End::Failed(Failure { outcome: Outcome::NotSent, .. }))
            if entry.received > 0 || entry.executed > 0 =>
        {
            Err("was sent")
        }
        State::Ended(End::Failed(Failure { outcome: Outcome::Rejected, .. }))
            if stands || entry.effect == Effect::Partial =>
        {
            Err("took effect")
        }
        State::Ended(End::Failed(Failure { outcome: Outcome::Applied, .. })) if !stands => {
            Err("did not take effect")
        }
        State::Ended(_) => Ok(()),
    }
}
