//! When all is over: was the host told the truth?

use std::collections::{HashMap, HashSet};

use onetrip_engine::{Cause, End, Failure, Outcome};

use super::super::model::{Effect, Entry};
use super::book::{Record, State, failed};
use super::plan::Kind;
use super::world::World;

impl World {
    /// Compares what the host was told with what happened at the server.
    pub(super) fn check(&mut self) {
        if !self.book.findings.is_empty() {
            return;
        }
        let mut findings = Vec::new();
        self.check_ends(&mut findings);
        self.check_outcomes(&mut findings);
        self.check_order(&mut findings);
        self.check_wire(&mut findings);
        self.check_pushes(&mut findings);
        findings
            .extend(self.server.log().violations().iter().map(|what| format!("server: {what}")));
        findings.into_iter().for_each(|finding| self.book.complain(finding));
    }

    fn check_ends(&self, findings: &mut Vec<String>) {
        let open = self.book.records.values().filter(|record| record.is_open());
        findings.extend(open.map(|record| format!("{} never ended", record.plan.id)));
        if !self.parked.is_empty() {
            findings.push("a caller waits for ever".into());
        }
        let unknown = failed(Outcome::Unknown, Cause::Closed);
        let taken_along = self.book.records.values().filter(|it| it.end() == Some(unknown)).count();
        let window = self.settings.network.limits.in_flight_max.max(1);
        if taken_along > window {
            findings.push(format!("{taken_along} are unknown, and the window is {window}"));
        }
    }

    fn check_outcomes(&self, findings: &mut Vec<String>) {
        for record in self.book.records.values() {
            for op in &record.plan.ops {
                let entry = self.server.log().entry(*op);
                if let Err(what) = judge(record, *op, entry) {
                    let id = record.plan.id;
                    findings.push(format!("{id}: {op} {what}: {:?}, {entry:?}", record.state));
                }
            }
        }
    }

    /// Commands run in issue order, but for those that are sent again behind others.
    fn check_order(&mut self, findings: &mut Vec<String>) {
        let mut places: HashMap<u64, u64> = HashMap::new();
        for record in self.book.records.values().filter(|it| !it.may_be_sent_again_behind()) {
            places.extend(record.plan.ops.iter().map(|op| (*op, record.place)));
        }
        let mut order = self.server.log().order();
        order.retain(|op| places.contains_key(op));
        let distinct: HashSet<u64> = order.iter().copied().collect();
        self.mutator.strike_order(&mut order);
        // The commands of one request are numbered in their order.
        if !order.is_sorted_by_key(|op| (places[op], *op)) {
            findings.push(format!("they ran in another order: {order:?}"));
        }
        if distinct.len() != order.len() {
            findings.push(format!("one ran twice: {order:?}"));
        }
    }

    /// What was written is the requests that were not taken back, in issue order, whole; and what the end
    /// of the connection found unwritten is NotSent.
    fn check_wire(&self, findings: &mut Vec<String>) {
        if self.engine.healed() > 0 {
            return;
        }
        let mut records: Vec<&Record> =
            self.book.records.values().filter(|record| record.is_on_wire()).collect();
        records.sort_by_key(|record| record.place);
        let mut rest = &self.wrote[..];
        for record in records {
            let bytes = &record.plan.bytes[..];
            let len = rest.len().min(bytes.len());
            if rest[..len] != bytes[..len] {
                return findings.push(format!("other bytes than those of {}", record.plan.id));
            }
            let not_sent = record.end() == Some(failed(Outcome::NotSent, Cause::Closed));
            let unknown = record.end() == Some(failed(Outcome::Unknown, Cause::Closed));
            if not_sent && !rest.is_empty() || unknown && rest.is_empty() {
                findings.push(format!(
                    "{} ended as {:?}, and {len} bytes of it were written",
                    record.plan.id, record.state
                ));
            }
            rest = &rest[len..];
        }
        if !rest.is_empty() {
            findings.push(format!("{} bytes that belong to no request", rest.len()));
        }
    }

    /// What was pushed came in order, and all of it if nothing was in the way.
    fn check_pushes(&self, findings: &mut Vec<String>) {
        let (sent, came) = (self.server.pushes(), &self.book.pushes);
        if !sent.starts_with(came) {
            findings.push("the pushes are not those that were sent".into());
        }
        if self.book.closed.is_none() && came.len() < sent.len() {
            findings.push(format!("{} of {} pushes came", came.len(), sent.len()));
        }
    }
}

impl Record {
    /// Whether it may run behind what was submitted after it.
    fn may_be_sent_again_behind(&self) -> bool {
        matches!(self.plan.kind, Kind::Script(_)) && self.plan.again && !self.plan.in_order
    }

    /// Whether its bytes went to the connection, as far as the host knows.
    fn is_on_wire(&self) -> bool {
        match self.state {
            State::Waiting => false,
            State::Submitted => true,
            State::Ended(End::Failed(Failure { outcome: Outcome::NotSent, cause })) => {
                cause == Cause::Closed && self.place != 0
            }
            State::Ended(_) => true,
        }
    }
}

/// What is wrong with a request that ended so, one of whose commands left this behind.
fn judge(record: &Record, op: u64, entry: Entry) -> Result<(), &'static str> {
    let stands = entry.effect == Effect::Committed;
    if entry.executed > 1 {
        return Err("ran more than once");
    }
    match (record.state, record.outcome()) {
        (State::Waiting, _) => Err("waits for ever"),
        (State::Ended(End::Complete), _) if stands == record.failed.contains(&op) => {
            Err("is not what its reply says")
        }
        (_, Some(Outcome::NotSent)) if entry.received > 0 => Err("was sent"),
        (_, Some(Outcome::Rejected)) if stands || entry.effect == Effect::Partial => {
            Err("took effect")
        }
        (_, Some(Outcome::Applied)) if !stands => Err("did not take effect"),
        _ => Ok(()),
    }
}
