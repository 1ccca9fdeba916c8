//! The final check: compares what the host was told with what happened.

use std::collections::{HashMap, HashSet};

use onetrip_engine::{Cause, Outcome};

use super::book::{Record, State, failed};
use super::side::{Side, Written};
use super::world::World;
use crate::seeded::{Effect, Entry};

impl<S: Side> World<S> {
    /// Compares what the host was told with what happened at the server.
    pub(crate) fn check(&mut self) {
        if !self.book.findings.is_empty() {
            return;
        }
        let mut findings = Vec::new();
        self.check_ends(&mut findings);
        self.check_outcomes(&mut findings);
        self.check_order(&mut findings);
        if !S::has_sent_again(self) {
            findings.extend(self.check_wire());
        }
        S::check(self, &mut findings);
        let violations = self.log().violations();
        findings.extend(violations.iter().map(|what| format!("server: {what}")));
        findings.into_iter().for_each(|finding| self.book.complain(finding));
    }

    fn check_ends(&self, findings: &mut Vec<String>) {
        let open = self.book.records.values().filter(|record| record.is_open());
        findings.extend(open.map(|record| format!("{} never ended", record.plan.id)));
        if !self.parked.is_empty() {
            findings.push("a caller waits for ever".into());
        }
    }

    fn check_outcomes(&self, findings: &mut Vec<String>) {
        for (record, op, entry) in self.effects() {
            if let Err(what) = judge(record, entry) {
                let (id, end) = (record.plan.id, record.state);
                findings.push(format!("{id}: {op} {what}: {end:?}, {entry:?}"));
            }
        }
    }

    /// What became of each identity of each request.
    pub(crate) fn effects(&self) -> impl Iterator<Item = (&Record<S>, u64, Entry)> {
        let of = |record| {
            let record: &Record<S> = record;
            record.plan.ops.iter().map(move |op| (record, *op))
        };
        let pairs = self.book.records.values().flat_map(of);
        pairs.map(|(record, op)| (record, op, self.log().entry(op)))
    }

    /// Checks that requests ran in issue order; a group has the place at which it asked for the
    /// floor.
    fn check_order(&mut self, findings: &mut Vec<String>) {
        let mut places: HashMap<u64, (usize, (u64, u64))> = HashMap::new();
        for record in self.book.records.values() {
            if let Some(line) = S::order(self, record) {
                places.extend(record.plan.ops.iter().map(|op| (*op, (line, record.place))));
            }
        }
        let mut order = self.log().order();
        order.retain(|op| places.contains_key(op));
        let distinct: HashSet<u64> = order.iter().copied().collect();
        self.mutator.strike_order(&mut order, |op| places[&op].0);
        // The statements of one request are numbered in their order.
        let mut last: HashMap<usize, ((u64, u64), u64)> = HashMap::new();
        let in_order = order.iter().all(|op| {
            let (line, place) = places[op];
            last.insert(line, (place, *op)).is_none_or(|before| before <= (place, *op))
        });
        if !in_order {
            findings.push(format!("they ran in another order: {order:?}"));
        }
        if distinct.len() != order.len() {
            findings.push(format!("one ran twice: {order:?}"));
        }
    }

    /// Checks that the bytes written are those of the requests that were not taken back, whole and
    /// in issue order, and that requests unwritten at the end of the connection are NotSent.
    fn check_wire(&self) -> Option<String> {
        let on_wire = self.book.records.values().filter(|record| record.is_on_wire());
        let mut records: Vec<&Record<S>> = on_wire.collect();
        records.sort_by_key(|record| record.place);
        let mut behind = &self.links[0].wrote[..];
        let mut nexts = records.iter().skip(1);
        for record in &records {
            let written = S::find_written(self, behind, record, nexts.next().copied())?;
            let Written { rest, bytes, is_untouched, may_be_missing } = written;
            let len = rest.len().min(bytes.len());
            let differs = rest[..len] != bytes[..len];
            if differs && may_be_missing {
                behind = rest;
                continue;
            }
            let id = record.plan.id;
            if differs && !is_untouched {
                return Some(format!("other bytes than those of {id}"));
            }
            let not_sent = record.end() == Some(failed(Outcome::NotSent, Cause::Closed));
            let unknown = record.end() == Some(failed(Outcome::Unknown, Cause::Closed));
            if not_sent && !is_untouched || unknown && is_untouched && !bytes.is_empty() {
                let (end, left) = (record.state, rest.len());
                return Some(format!(
                    "{id} ended as {end:?}, and {left} bytes from it on were written"
                ));
            }
            behind = if is_untouched { &[] } else { &rest[len..] };
        }
        let left = behind.len();
        (!S::may_be_last(self, behind)).then(|| format!("{left} bytes that belong to no request"))
    }
}

/// What is wrong with a request, given its end and its effect at the server.
fn judge<S: Side>(record: &Record<S>, entry: Entry) -> Result<(), &'static str> {
    let stands = entry.effect == Effect::Committed;
    if entry.executed > S::runs_max(record) {
        return Err("ran more than once");
    }
    match (record.state, record.outcome()) {
        _ if entry.effect == Effect::Pending => Err("is still pending"),
        (State::Waiting, _) => Err("waits for ever"),
        (_, Some(Outcome::NotSent)) if entry.received > 0 || entry.executed > 0 => Err("was sent"),
        (_, Some(Outcome::Rejected)) if stands || entry.effect == Effect::Partial => {
            Err("took effect")
        }
        (_, Some(Outcome::Applied)) if !stands => Err("did not take effect"),
        _ => Ok(()),
    }
}
