//! What the replies said that the ledger does not record: positions in lists and values of
//! counters.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::keys::base;
use crate::ledger::Claim;

#[derive(Debug, Default)]
pub(crate) struct Book(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    /// Tag, position in the tag's list as the reply gave it, and number.
    placed: Vec<(u64, u64, i64)>,
    /// INCRs by task, as they were called.
    counted: BTreeMap<u32, Vec<Counted>>,
}

/// What the client said of one INCR, and the value in its reply.
pub(crate) type Counted = (Claim, Option<i64>);

impl Book {
    pub(crate) fn placed(&self, tag: u64, position: u64, n: i64) {
        self.0.lock().unwrap().placed.push((tag, position, n));
    }

    pub(crate) fn counted(&self, task: u32, counted: impl IntoIterator<Item = Counted>) {
        self.0.lock().unwrap().counted.entry(task).or_default().extend(counted);
    }

    /// Positions that are not those of their numbers. If the server `loses` writes, that of a number
    /// which is gone may be another's.
    pub(crate) fn misplaced(&self, rows: &[Vec<i64>], loses: bool) -> Vec<String> {
        let pages = self.0.lock().unwrap();
        let at = |tag: u64, position: u64| {
            let index = usize::try_from(position).ok()?.checked_sub(1)?;
            rows.get(tag as usize)?.get(index).copied()
        };
        let is_gone = |tag: u64, n: i64| loses && !rows[tag as usize].contains(&n);
        let wrong = pages
            .placed
            .iter()
            .filter(|(tag, position, n)| at(*tag, *position) != Some(*n) && !is_gone(*tag, *n));
        wrong
            .map(|(tag, position, n)| {
                let other = at(*tag, *position);
                format!("row {n} was said to be at {position} of list {tag}, where {other:?} is")
            })
            .collect()
    }

    /// The counters whose replies can't be those of their own INCRs in the order of the calls.
    pub(crate) fn miscounted(&self, end: impl Fn(u32) -> i64) -> Vec<String> {
        let pages = self.0.lock().unwrap();
        let wrong = |(task, counted): (&u32, &Vec<Counted>)| {
            let why = miscounted(counted, base(*task), end(*task))?;
            Some(format!("the counter of task {task}: {why}"))
        };
        pages.counted.iter().filter_map(wrong).collect()
    }
}

/// What is wrong with the replies of one counter, which began and ended at these values.
fn miscounted(counted: &[Counted], begin: i64, end: i64) -> Option<String> {
    let (mut least, mut most, mut last) = (begin, begin, begin);
    for (at, (claim, value)) in counted.iter().enumerate() {
        most += i64::from(claim.is_there() != Some(false));
        least += i64::from(claim.is_there() == Some(true));
        let Some(value) = *value else { continue };
        if value <= last || !(least..=most).contains(&value) {
            return Some(format!(
                "INCR {at} answered {value} behind {last}, and {least} to {most} is possible"
            ));
        }
        last = value;
    }
    (!(least..=most).contains(&end))
        .then(|| format!("it is {end} in the end, and {least} to {most} is possible"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ok(value: i64) -> Counted {
        (Claim::Acknowledged, Some(value))
    }

    const LOST: Counted = (Claim::Unknown, None);
    const ABSENT: Counted = (Claim::NotSent, None);

    #[test]
    fn replies_that_ascend_by_one_are_accepted() {
        assert_eq!(miscounted(&[ok(11), ok(12), ABSENT, ok(13)], 10, 13), None);
    }

    #[test]
    fn what_is_unknown_may_count_or_not_and_at_any_time_later() {
        for (replies, end) in [([12, 13], 13), ([11, 12], 12), ([11, 13], 13), ([11, 12], 13)] {
            let counted = [LOST, ok(replies[0]), ok(replies[1])];
            assert_eq!(miscounted(&counted, 10, end), None, "{replies:?}");
        }
    }

    #[test]
    fn a_reply_of_another_or_out_of_order_is_refused() {
        for counted in [&[ok(12), ok(11)][..], &[ok(12)], &[ok(5)], &[ok(11), ok(11)]] {
            assert!(miscounted(counted, 10, 12).is_some(), "{counted:?}");
        }
        assert!(miscounted(&[ok(12), LOST], 10, 12).is_some(), "it counts what was called later");
        assert!(miscounted(&[ABSENT, ok(12)], 10, 12).is_some(), "it counts what was not sent");
    }

    #[test]
    fn a_lost_or_doubled_increment_is_refused_at_the_end() {
        assert!(miscounted(&[ok(11), ok(12)], 10, 11).is_some());
        assert!(miscounted(&[ok(11), ok(12)], 10, 13).is_some());
    }

    #[test]
    fn a_position_is_that_of_its_number() {
        let book = Book::default();
        book.placed(0, 2, 7);
        assert!(book.misplaced(&[vec![6, 7]], false).is_empty());
        for rows in [vec![vec![7, 6]], vec![vec![7]], vec![]] {
            assert_eq!(book.misplaced(&rows, false).len(), 1, "{rows:?}");
        }
        assert!(book.misplaced(&[vec![6, 8]], true).is_empty(), "it is gone");
        assert_eq!(book.misplaced(&[vec![7, 6]], true).len(), 1, "it is elsewhere");
    }
}
