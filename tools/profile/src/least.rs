//! The least number of trips that would do.
//!
//! Exchanges keep their order, so from left to right each joins the trip before it unless it has to
//! wait for something in that trip. No other choice needs fewer trips.

use crate::exchange::{Exchange, Kind, TextId};
use crate::learn::Link;
use crate::piece::Nanos;
use crate::steps::Step;

/// What is kept of an exchange once its values are no longer needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) text: TextId,
    /// None for what belongs to the protocol, except the ends of transactions.
    pub(crate) step: Option<Step>,
    /// The statement for a row of whose result it ran, and whether it was the first to do so.
    pub(crate) row_of: Option<(TextId, bool)>,
    /// It repeats a read of its unit.
    pub(crate) is_repeat: bool,
    /// It has the inputs of the exchange of the same text before it.
    pub(crate) is_again: bool,
    pub(crate) begin: Nanos,
    pub(crate) end: Nanos,
    pub(crate) rows: u64,
    pub(crate) has_failed: bool,
    pub(crate) in_transaction: bool,
}

impl Item {
    pub(crate) fn of(exchange: &Exchange, step: Option<Step>) -> Item {
        Item {
            kind: exchange.kind,
            text: exchange.text,
            step,
            row_of: None,
            is_repeat: false,
            is_again: false,
            begin: exchange.begin,
            end: exchange.end,
            rows: exchange.answer.rows,
            has_failed: exchange.answer.has_failed(),
            in_transaction: exchange.in_transaction,
        }
    }
}

/// What is taken as proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Only waits of the protocol are folded.
    Wire,
    /// Also what was seen to be independent.
    Proven,
    /// Also what is unknown.
    Floor,
}

/// Why an exchange waits for one before it, or that it need not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Label {
    /// It left before the answer had come to the program.
    Overlapped,
    /// A wait of the protocol that can be folded.
    Folds,
    /// A wait of the protocol that can't be.
    Pinned,
    Data(Link),
}

/// What stands between an exchange and one after it. `is_early` says that it came sooner than the
/// answer can have gone to the program and a request back. `link` is asked of two statements.
pub(crate) fn label(
    a: &Item,
    b: &Item,
    is_redis: bool,
    is_early: bool,
    link: impl FnOnce() -> Link,
) -> Label {
    if is_early {
        return Label::Overlapped;
    }
    if a.kind == Kind::Login || b.kind == Kind::Login {
        return Label::Pinned;
    }
    // Behind a failed statement a transaction refuses all but its end.
    if a.has_failed && (a.in_transaction || matches!(b.kind, Kind::Rollback | Kind::Savepoint)) {
        return Label::Pinned;
    }
    // What is read under a WATCH can be sent with it: the server keeps the order.
    let watches = a.kind == Kind::Watch || b.kind == Kind::Watch;
    if watches || a.kind.goes_ahead() || b.kind.goes_ahead() {
        return Label::Folds;
    }
    // Redis has only queued it.
    if is_redis && a.in_transaction {
        return Label::Folds;
    }
    if matches!(a.kind, Kind::Copy | Kind::Wait) || matches!(b.kind, Kind::Copy | Kind::Wait) {
        return Label::Pinned;
    }
    // What comes behind a COMMIT may need to know that it was one.
    if a.kind == Kind::Commit && !is_redis {
        return Label::Pinned;
    }
    let link = match (a.step, b.step) {
        (Some(_), Some(_)) => link(),
        _ => Link::Unknown,
    };
    // A COMMIT behind a failed statement rolls back, so it need not wait for a write unless the
    // program was seen to decide by it.
    let ends = b.kind == Kind::Commit && a.rows == 0 && a.kind != Kind::Read;
    if ends && link != Link::Control {
        return Label::Folds;
    }
    Label::Data(link)
}

/// Whether it has to wait.
pub(crate) fn waits(label: Label, mode: Mode) -> bool {
    match label {
        Label::Overlapped | Label::Folds => false,
        Label::Pinned | Label::Data(Link::Strong | Link::Control) => true,
        Label::Data(Link::Independent { .. }) => mode == Mode::Wire,
        Label::Data(Link::Unknown) => mode != Mode::Floor,
    }
}

/// The number of the trip of each item.
pub(crate) fn trips(len: usize, mut waits: impl FnMut(usize, usize) -> bool) -> Vec<u32> {
    let (mut trips, mut first) = (Vec::with_capacity(len), 0);
    for b in 0..len {
        if (first..b).any(|a| waits(a, b)) {
            first = b;
        }
        let trip = match trips.last() {
            None => 0,
            Some(last) => last + u32::from(first == b),
        };
        trips.push(trip);
    }
    trips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_joins_the_trip_before_it_unless_it_has_to_wait() {
        assert!(trips(0, |_, _| true).is_empty());
        assert_eq!(trips(4, |_, _| false), [0, 0, 0, 0]);
        assert_eq!(trips(4, |_, _| true), [0, 1, 2, 3]);
        // The third waits for the first, the fourth for the second: both go with the third.
        let waits = |a, b| matches!((a, b), (0, 2) | (1, 3));
        assert_eq!(trips(4, waits), [0, 0, 1, 1]);
    }
}
