//! Compares the ledger with the table. It does no I/O, so its own tests can show what it finds.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::ledger::{Claim, Unit};
use crate::report::Tally;

/// When a fault struck.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

/// Which acknowledged writes the server promises to keep.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    All,
    /// Those that a replica had, too. The others may be lost if they were acknowledged shortly
    /// before one of these crashes, or during it.
    Copied {
        crashes: Vec<Window>,
    },
}

impl Kept {
    /// Whether the server may lose this unit although it was acknowledged.
    fn may_lose(&self, unit: &Unit) -> bool {
        let Kept::Copied { crashes } = self else { return false };
        let early = crashes.iter().map(|crash| {
            let from = crash.from.saturating_sub(COPYING_MAX);
            Window { from, to: crash.to }
        });
        !unit.claims.contains(&Claim::Copied) && in_flight(unit, &early.collect::<Vec<_>>())
    }
}

/// A replica that is silent for longer does not take over (the node timeout of the cluster).
const COPYING_MAX: Duration = Duration::from_secs(2);

/// The findings, and the counts made on the way.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) wrong: Vec<String>,
    pub(crate) tally: Tally,
}

/// How often each number is in the table.
pub(crate) type Table = HashMap<i64, u64>;

/// Compares what the client said of every write with the rows in the table.
pub(crate) fn check(units: &[Unit], windows: &[Window], table: &Table, kept: &Kept) -> Verdict {
    let mut verdict = Verdict::default();
    for unit in units {
        verdict.wrong.extend(wrong_with(unit, windows, table, kept).map(|why| {
            let Unit { what, task, numbers, began, ended, claims, said } = unit;
            format!(
                "{why}: {what} of task {task}, rows {numbers:?}, {began:?} to {ended:?}: \
                 {claims:?} {said:?}"
            )
        }));
        verdict.count(unit, windows, table);
    }
    let written = units.last().map_or(0, |unit| unit.numbers.end);
    let strangers = table.keys().filter(|number| !(0..written).contains(*number));
    verdict.wrong.extend(strangers.map(|number| format!("row {number} was never written")));
    verdict
}

/// The first thing that is wrong with a unit.
fn wrong_with(unit: &Unit, windows: &[Window], table: &Table, kept: &Kept) -> Option<&'static str> {
    let times = |number: &i64| table.get(number).copied().unwrap_or(0);
    let there = unit.numbers.clone().filter(|number| times(number) > 0).count();
    let is = |claim| unit.claims.contains(&claim);
    let is_there = |claim: &Claim| claim.is_there();
    if unit.ended.is_none() || unit.claims.is_empty() {
        return Some("it never ended");
    }
    if unit.numbers.clone().any(|number| times(&number) > 1) {
        return Some("a row is there more than once");
    }
    if there > 0 && there < unit.numbers.clone().count() {
        return Some("a part is there");
    }
    if there > 0 && unit.claims.iter().filter_map(is_there).any(|there| !there) {
        return Some("it is there, and should not be");
    }
    let has_rows = !unit.numbers.is_empty();
    let is_acknowledged = is(Claim::Acknowledged) || is(Claim::Copied);
    if has_rows && there == 0 && is_acknowledged && !kept.may_lose(unit) {
        return Some("it is lost");
    }
    if is(Claim::Late) && !unit.what.contains(WITH_DEADLINE) {
        return Some("it had no deadline, and was late");
    }
    (unit.verdict() == Some(Claim::Unknown) && !in_flight(unit, windows))
        .then_some("it is unknown, and no fault was at work")
}

/// Whether a unit was in flight at a fault.
fn in_flight(unit: &Unit, windows: &[Window]) -> bool {
    windows.iter().any(|window| {
        unit.began <= window.to && unit.ended.is_none_or(|ended| ended >= window.from)
    })
}

impl Verdict {
    fn count(&mut self, unit: &Unit, windows: &[Window], table: &Table) {
        let rows = unit.numbers.clone().count() as u64;
        let tally = &mut self.tally;
        if in_flight(unit, windows) {
            tally.in_flight += rows;
        }
        let Some(verdict) = unit.verdict() else { return };
        let count = match verdict {
            Claim::Acknowledged | Claim::Copied => &mut tally.acknowledged,
            Claim::NotSent => &mut tally.not_sent,
            Claim::Rejected => &mut tally.rejected,
            Claim::RolledBack => &mut tally.rolled_back,
            Claim::Unknown => &mut tally.unknown,
            Claim::Late => &mut tally.late,
            Claim::Forgotten => &mut tally.forgotten,
        };
        *count += rows;
        let there = unit.numbers.clone().filter(|number| table.contains_key(number)).count() as u64;
        match verdict {
            Claim::Unknown => tally.unknown_there += there,
            Claim::Acknowledged => tally.lost_by_server += rows - there,
            Claim::Copied => tally.copied += rows,
            _ => {}
        }
        let by_way: &mut BTreeMap<_, _> = tally.ways.entry(unit.what).or_default();
        *by_way.entry(format!("{verdict:?}")).or_default() += rows;
    }
}

/// The name of every write with a deadline of its own contains this word.
pub(crate) const WITH_DEADLINE: &str = "deadline";

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn unit(numbers: std::ops::Range<i64>, claims: &[Claim]) -> Unit {
        let claims = claims.to_vec();
        let (began, ended) = (10 * MS, Some(20 * MS));
        Unit { what: "single", task: 0, numbers, began, ended, claims, said: Vec::new() }
    }

    /// The findings for one unit, given these rows and a fault from 15 to 18 ms.
    fn wrong(unit: Unit, rows: &[i64]) -> Vec<String> {
        let mut table = Table::new();
        rows.iter().for_each(|number| *table.entry(*number).or_default() += 1);
        check(&[unit], &[Window { from: 15 * MS, to: 18 * MS }], &table, &Kept::All).wrong
    }

    /// The same on a server that crashed at this time and promises only what was copied.
    fn wrong_after(crash: Window, unit: Unit) -> Vec<String> {
        check(&[unit], &[], &Table::new(), &Kept::Copied { crashes: vec![crash] }).wrong
    }

    #[track_caller]
    fn refused(unit: Unit, rows: &[i64], why: &str) {
        let wrong = wrong(unit, rows);
        assert!(wrong.len() == 1 && wrong[0].starts_with(why), "{wrong:?}");
    }

    #[test]
    fn a_true_ledger_is_accepted() {
        for (claim, rows) in [
            (Claim::Acknowledged, &[0, 1][..]),
            (Claim::NotSent, &[]),
            (Claim::Rejected, &[]),
            (Claim::RolledBack, &[]),
            (Claim::Unknown, &[]),
            (Claim::Unknown, &[0, 1]),
            (Claim::Forgotten, &[]),
            (Claim::Forgotten, &[0, 1]),
        ] {
            assert!(wrong(unit(0..2, &[claim]), rows).is_empty(), "{claim:?}");
        }
        assert!(wrong(unit(0..0, &[Claim::Acknowledged]), &[]).is_empty());
    }

    #[test]
    fn a_doubled_row_is_refused_whatever_was_said() {
        for claim in [Claim::Acknowledged, Claim::Unknown, Claim::Forgotten, Claim::Late] {
            refused(unit(0..1, &[claim]), &[0, 0], "a row is there more than once");
        }
    }

    #[test]
    fn a_lost_row_is_refused() {
        refused(unit(0..1, &[Claim::Acknowledged]), &[], "it is lost");
        refused(unit(0..2, &[Claim::Unknown, Claim::Acknowledged]), &[], "it is lost");
    }

    #[test]
    fn a_crash_may_lose_what_was_acknowledged_shortly_before_and_not_copied() {
        let at = |second: u64| {
            let from = Duration::from_secs(second);
            Window { from, to: from + Duration::from_secs(1) }
        };
        assert!(wrong_after(at(1), unit(0..1, &[Claim::Acknowledged])).is_empty());
        for (crash, claim) in [(at(1), Claim::Copied), (at(3), Claim::Acknowledged)] {
            let wrong = wrong_after(crash, unit(0..1, &[claim]));
            assert!(wrong.len() == 1 && wrong[0].starts_with("it is lost"), "{claim:?}: {wrong:?}");
        }
    }

    #[test]
    fn a_row_that_should_be_absent_is_refused() {
        for claim in [Claim::NotSent, Claim::Rejected, Claim::RolledBack] {
            refused(unit(0..1, &[claim]), &[0], "it is there");
            refused(unit(0..1, &[Claim::Unknown, claim]), &[0], "it is there");
        }
    }

    #[test]
    fn claims_that_contradict_one_another_are_refused_either_way() {
        let claims = [Claim::NotSent, Claim::Acknowledged];
        refused(unit(0..1, &claims), &[0], "it is there");
        refused(unit(0..1, &claims), &[], "it is lost");
    }

    #[test]
    fn a_torn_transaction_is_refused_whatever_was_said() {
        for claim in [Claim::Acknowledged, Claim::Unknown, Claim::Forgotten, Claim::RolledBack] {
            refused(unit(0..3, &[claim]), &[0, 2], "a part is there");
        }
    }

    #[test]
    fn a_write_that_never_ended_is_refused() {
        refused(Unit { ended: None, ..unit(0..1, &[]) }, &[], "it never ended");
        refused(unit(0..1, &[]), &[], "it never ended");
    }

    #[test]
    fn what_is_unknown_while_all_is_well_is_refused() {
        let late = Unit { began: 19 * MS, ended: Some(30 * MS), ..unit(0..1, &[Claim::Unknown]) };
        refused(late, &[], "it is unknown");
        let early = Unit { began: MS, ended: Some(14 * MS), ..unit(0..1, &[Claim::Unknown]) };
        refused(early, &[0], "it is unknown");
    }

    #[test]
    fn who_had_no_deadline_is_not_late() {
        refused(unit(0..1, &[Claim::Late]), &[], "it had no deadline");
        let hurried = Unit { what: "single with a deadline", ..unit(0..1, &[Claim::Late]) };
        assert!(wrong(hurried, &[]).is_empty());
    }

    #[test]
    fn a_row_of_nobody_is_refused() {
        refused(unit(0..1, &[Claim::Acknowledged]), &[0, 5], "row 5 was never written");
    }

    #[test]
    fn rows_are_counted_by_what_is_known_of_them() {
        let units = [
            unit(0..2, &[Claim::Acknowledged]),
            unit(2..3, &[Claim::Unknown]),
            unit(3..4, &[Claim::Unknown, Claim::NotSent]),
        ];
        let table = Table::from([(0, 1), (1, 1), (2, 1)]);
        let tally = check(&units, &[Window { from: MS, to: 30 * MS }], &table, &Kept::All).tally;
        assert_eq!((tally.acknowledged, tally.unknown, tally.not_sent), (2, 1, 1));
        assert_eq!((tally.unknown_there, tally.in_flight), (1, 4));
    }
}
