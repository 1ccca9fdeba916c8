//! The book-keeper: what was told is held against what happened at the server.

use std::collections::BTreeMap;

use onetrip_engine::{Cause, End, Failure, Outcome};
use onetrip_postgres::message::Format;

use super::World;
use super::plan::{Call, Ended, Face, What};
use super::read::{self, Error};
use super::remembered::Columns;
use crate::model::{Effect, code};

impl World {
    /// Each row is read by the names and types with which it was sent, and its values are those that
    /// the server had.
    pub(super) fn check_rows(&mut self, call: &Call, columns: &Columns) {
        let (rows, told) = (read::rows(&call.sent.reply), self.schema.told(call.id));
        let (_, told) = told.unwrap_or_default();
        if rows.is_empty() || !matches!(call.what, What::Insert | What::Select) {
            return;
        }
        self.report.add("rows read", rows.len() as u64);
        let zone = self.schema.zone();
        let form = |at: usize| match (call.face, call.sent.asked.get(at)) {
            (Face::Texts, _) => Format::Text,
            (Face::Learns, format) => format.copied().unwrap_or(Format::Binary),
        };
        let read = rows.iter().map(|row| {
            let cells = row.iter().zip(columns).enumerate();
            cells
                .map(|(at, (bytes, (name, oid)))| {
                    (name.clone(), *oid, read::value(*oid, form(at), bytes, zone))
                })
                .collect::<Vec<_>>()
        });
        let read: Vec<_> = read.collect();
        if read != told {
            self.find(format!("{} read {read:?}, and the server sent {told:?}", call.id));
        }
    }

    /// A call has ended: whether that is as it would be behind the last migration.
    pub(super) fn judge(&mut self, call: &Call, ended: &Ended) {
        match ended {
            Ended::Told(End::Complete | End::Provisional, _) => self.check_stored(call),
            Ended::Told(End::Failed(failure), error) => self.judge_failure(call, *failure, error),
            Ended::Misread => {
                self.report.count("misread");
                let told = self.schema.told(call.id);
                let version = told.map_or(self.schema.version(), |(version, _)| version);
                self.judge_migration(call, version, "its columns have changed");
            }
            Ended::Refused => {}
        }
    }

    fn check_stored(&mut self, call: &Call) {
        let Some(value) = &call.value else { return };
        let Some(stored) = self.schema.stored(call.id) else {
            return self.find(format!("{} is complete, and stored nothing", call.id));
        };
        self.report.count("values stored");
        let (type_, zone) = (stored.type_, self.schema.zone());
        let meant = type_.read(value, zone).map(|it| type_.write(&it, zone));
        if meant.as_ref() != Ok(&stored.text) {
            let (id, text) = (call.id, &stored.text);
            self.find(format!("{id} stored {text} as {type_:?}, and {value} is {meant:?}"));
        }
    }

    fn judge_failure(&mut self, call: &Call, failure: Failure, error: &Option<Error>) {
        let (id, is_cut) = (call.id, self.lines[call.line].is_closed);
        match (failure.cause, error) {
            (Cause::Server, Some(error)) => self.judge_error(call, failure.outcome, error),
            (Cause::Closed | Cause::Aborted, _) if is_cut => {}
            (Cause::Aborted, _) if call.unit.is_some_and(|it| self.has_failed(it)) => {}
            _ => self.find(format!("{id} failed without a reason: {failure:?} {error:?}")),
        }
    }

    fn judge_error(&mut self, call: &Call, outcome: Outcome, error: &Error) {
        let (id, code) = (call.id, &error.code[..]);
        if outcome != Outcome::Rejected {
            return self.find(format!("{id} failed with {code}, and its outcome is {outcome}"));
        }
        if code == code::ABORTED {
            if !call.unit.is_some_and(|it| self.has_failed(it)) {
                self.find(format!("{id} ran in a transaction that had not failed"));
            }
            return;
        }
        if code == code::NO_STATEMENT && self.settings.losses {
            return self.report.count("failed since statements were lost");
        }
        if self.is_its_own(call) {
            return self.report.count("failed as it would anew");
        }
        self.judge_migration(call, error.version, code);
    }

    /// Whether one of the types that its column has had since it was begun does not take its value.
    fn is_its_own(&self, call: &Call) -> bool {
        let zone = self.schema.zone();
        let types = self.schema.types_since(call.table, call.version);
        let fails = |value: &String| types.iter().any(|type_| type_.read(value, zone).is_err());
        call.value.as_ref().is_some_and(fails)
    }

    /// An error that only a migration explains: one for each client, with what was sent before it was
    /// told.
    fn judge_migration(&mut self, call: &Call, version: u32, what: &str) {
        let before = self.told[..call.told].contains(&version);
        self.told.push(version);
        self.report.count("failed for a migration");
        let id = call.id;
        if version == 0 {
            self.find(format!("{id} failed with {what}, and there was no migration"));
        } else if before {
            self.find(format!(
                "{id} failed with {what}, and its client knew of migration {version}"
            ));
        }
    }

    /// Whether an earlier call of a unit has failed.
    fn has_failed(&self, unit: u64) -> bool {
        let mut of_unit = self.calls.values().rev().filter(|call| call.unit == Some(unit));
        of_unit.any(|call| matches!(call.end, Some(Ended::Told(End::Failed(_), _))))
    }

    /// When all is over: whether outcomes are true, and units took effect whole or not at all.
    pub(super) fn check(&mut self) {
        let violations = self.log.violations();
        violations.into_iter().for_each(|it| self.find(format!("it broke the protocol: {it}")));
        let mut units: BTreeMap<u64, Vec<(u64, bool)>> = BTreeMap::new();
        let mut findings = Vec::new();
        for call in self.calls.values().filter(|call| call.end.is_some()) {
            let entry = self.log.entry(call.id);
            let stands = entry.effect == Effect::Committed;
            let times = 1 + u32::from(call.sent.again) + call.sent.restarts;
            if call.what.stores() && entry.executed > times {
                findings.push(format!("{} ran {} times", call.id, entry.executed));
            }
            let was_sent = !matches!(call.end, Some(Ended::Refused));
            if was_sent
                && call.what.stores()
                && let Some(unit) = call.unit
            {
                units.entry(unit).or_default().push((call.id, stands));
            }
            if let Some(finding) = outcome_of(call, stands, entry.received) {
                findings.push(finding);
            }
        }
        for (unit, inserts) in units {
            let stands = self.stands(unit);
            let wrong = inserts.iter().find(|(_, of)| stands.is_some_and(|it| it != *of));
            if let Some((id, of)) = wrong {
                findings.push(format!("{id} has stood: {of}, and its unit: {stands:?}"));
            }
        }
        findings.into_iter().for_each(|it| self.find(it));
    }

    /// Whether a unit took effect, as far as that was told.
    fn stands(&self, unit: u64) -> Option<bool> {
        let of_unit = || self.calls.values().filter(|call| call.unit == Some(unit));
        let last = of_unit().find(|call| matches!(call.what, What::Sync | What::Commit))?;
        let has_failed = self.has_failed(unit);
        match &last.end {
            Some(Ended::Told(End::Complete, _)) if !has_failed => Some(true),
            _ if self.lines[last.line].is_closed => None,
            _ => Some(false),
        }
    }
}

/// What is wrong with the outcome of a call, whose effect stands or not.
fn outcome_of(call: &Call, stands: bool, received: u32) -> Option<String> {
    // What only reads may have run before it was sent again.
    let (id, stands) = (call.id, stands && call.what.stores());
    match &call.end {
        Some(Ended::Told(End::Complete, _)) if call.unit.is_none() && !stands => {
            call.what.stores().then(|| format!("{id} is complete, and has no effect"))
        }
        Some(Ended::Told(End::Failed(Failure { outcome, .. }), _)) => match outcome {
            Outcome::Rejected if stands => Some(format!("{id} is rejected, and has an effect")),
            Outcome::NotSent if received > 0 => Some(format!("{id} is not sent, and arrived")),
            _ => None,
        },
        Some(Ended::Misread) if !stands && call.unit.is_none() && call.what.stores() => {
            Some(format!("{id} is misread, and has no effect"))
        }
        _ => None,
    }
}
