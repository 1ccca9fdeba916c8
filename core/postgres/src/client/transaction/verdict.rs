//! The meaning of failures for a transaction: how it ended, and whether it may be run again.

use onetrip_engine::Outcome;

use crate::client::migrated::columns_changed;
use crate::outdated::has_other_columns;

/// A failure, as the language keeps it.
pub trait Failure: Clone {
    /// The SQLSTATE with which the server answered the statement, and the function of the server
    /// that reported it; `None` if it did not answer, or the session is over.
    fn answer(&self) -> Option<(&str, Option<&str>)>;
    /// Whether the server skipped the statement because something in front of it failed.
    fn is_skipped(&self) -> bool;
    /// The outcome.
    fn outcome(&self) -> Outcome;
    /// The same failure with another outcome.
    #[must_use]
    fn with_outcome(self, outcome: Outcome) -> Self;
    /// The same failure, with `what` in front of its text.
    #[must_use]
    fn about(self, what: &'static str) -> Self;
    /// A rollback, as `text` says, because of the failure `why` if that is known.
    fn rolled_back(text: &'static str, why: Option<Self>) -> Self;
}

/// The error code when something was rolled back although its caller wanted it to stand.
pub const ROLLED_BACK: &str = "rolled_back";

/// The message for a transaction whose COMMIT was answered by ROLLBACK.
pub const AT_COMMIT: &str =
    "the transaction was rolled back at its commit, since a statement in it had failed";

/// The message for a transaction that can't be committed: see [`Block::leave_out`].
///
/// [`Block::leave_out`]: super::block::Block::leave_out
pub const INCOMPLETE: &str =
    "the transaction was rolled back, since a statement in it was not sent";

/// The same for a savepoint.
pub const INCOMPLETE_SAVEPOINT: &str =
    "the savepoint was rolled back to, since a statement behind it was not sent";

/// Whether the same transaction may succeed if it is run again from the beginning: it is a
/// serialization failure (40001) or a deadlock (40P01; PostgreSQL documentation, "Serialization
/// Failure Handling"), or the columns of a prepared statement have changed since. That one is
/// prepared anew by its next use.
pub fn is_conflict(failure: &impl Failure) -> bool {
    let Some((code, routine)) = failure.answer() else { return false };
    let is_stale = has_other_columns(Some(code.as_bytes()), routine.map(str::as_bytes));
    matches!(code, "40001" | "40P01") || is_stale || columns_changed(Some(code), routine)
}

/// Whether a transaction whose begin or end failed in this way is run again. It is not if its
/// outcome is unknown.
pub fn runs_again(failure: &impl Failure) -> bool {
    // This includes a conflict that a statement reported and the commit repeated.
    failure.outcome() == Outcome::Rejected && is_conflict(failure)
}

/// The result of a COMMIT that the server answered with this tag. `failure` is why the transaction
/// failed, if that is known.
///
/// # Errors
/// It was rolled back.
pub fn committed<E: Failure>(tag: Option<&str>, failure: Option<E>) -> Result<(), E> {
    match tag {
        Some("COMMIT") => Ok(()),
        _ => Err(E::rolled_back(AT_COMMIT, failure)),
    }
}

/// The failure of a COMMIT. `is_lost`: its connection ended, so all that was sent before it has
/// ended, too. `is_doomed`: the transaction can't be committed any more ([`Block::is_doomed`]), so
/// the server answers ROLLBACK, whether anybody hears of that or not.
///
/// [`Block::is_doomed`]: super::block::Block::is_doomed
#[must_use]
pub fn not_committed<E: Failure>(commit: E, is_lost: bool, is_doomed: bool) -> E {
    match commit.outcome() {
        Outcome::Unknown if is_lost && is_doomed => commit.with_outcome(Outcome::Rejected),
        _ => commit,
    }
}

/// How a statement of a segment ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberEnd {
    /// Without an error, as far as it went.
    Whole,
    /// The server skipped it.
    Skipped,
    /// It failed with this outcome. `Applied`: it was completed, and only its reply can't be read.
    Failed(Outcome),
}

/// Why a segment failed, all of which stands or falls together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFailure {
    /// The number of the statement that is the cause, from 0. `None`: the end of the segment is, or
    /// it is not known.
    pub cause: Option<usize>,
    /// What is known of the whole, and so of each statement that has no error of its own.
    pub outcome: Outcome,
}

/// What becomes of a segment. `end`: the outcome of its sync point, if that failed, or that of the
/// refusal because of which nothing was sent. `None` if it succeeded.
#[must_use]
pub fn of_segment(
    members: impl Iterator<Item = MemberEnd> + Clone,
    end: Option<Outcome>,
) -> Option<SegmentFailure> {
    let failed = members.clone().enumerate().find_map(|(number, member)| match member {
        // What can't be read is of no account where all is undone, for another reason.
        MemberEnd::Failed(Outcome::Applied) if end.is_some() => None,
        MemberEnd::Failed(outcome) => Some((number, outcome)),
        MemberEnd::Whole | MemberEnd::Skipped => None,
    });
    if let Some((number, outcome)) = failed {
        let outcome = of_pipeline(outcome, end);
        return Some(SegmentFailure { cause: Some(number), outcome });
    }
    let is_skipped = members.clone().any(|member| member == MemberEnd::Skipped);
    let outcome = end.or(is_skipped.then_some(Outcome::Rejected))?;
    Some(SegmentFailure { cause: None, outcome })
}

/// The outcome of a segment of which a statement failed so. What the server refused undoes the whole
/// segment, also if its end was never sent.
fn of_pipeline(statement: Outcome, end: Option<Outcome>) -> Outcome {
    match (statement, end) {
        (_, None) | (Outcome::Rejected, _) => statement,
        // The end was not sent, but the statement may have been.
        (Outcome::Applied | Outcome::Unknown, Some(Outcome::NotSent)) => Outcome::Unknown,
        (_, Some(end)) => end,
    }
}

/// The error for a savepoint that could not be released, and was rolled back to. `failure` is the
/// reason, if known.
pub fn not_released<E: Failure>(failure: Option<E>) -> E {
    E::rolled_back(
        "the savepoint was rolled back to, since a statement behind it had failed",
        failure,
    )
}

/// The outcome of a transaction's last statement, which failed with the outcome `statement`, given
/// the COMMIT behind it: `None` if that succeeded, and otherwise its outcome.
pub fn with_commit(statement: Outcome, commit: Option<Outcome>) -> Outcome {
    match (statement, commit) {
        // The statement ran; otherwise COMMIT would have been answered by ROLLBACK.
        (_, None) => Outcome::Applied,
        // Even if the statement may have succeeded, the commit was refused, and that undoes it.
        (Outcome::Rejected, _) | (_, Some(Outcome::Rejected)) => Outcome::Rejected,
        (Outcome::NotSent, Some(Outcome::NotSent)) => Outcome::NotSent,
        _ => Outcome::Unknown,
    }
}

/// What leaves a transaction or a savepoint, which so was not committed or kept; or a pipeline, of
/// which nothing was sent then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaver {
    /// A failure of its own. What took effect did so in the transaction, and nowhere else, and no
    /// COMMIT or RELEASE was sent. So nothing of it stays, also where the server has not answered
    /// the ROLLBACK, or can't: a transaction ends with its connection.
    Own,
    /// The failure of another statement, or of a command. If it took effect, it stands.
    Other,
    /// The failure of COMMIT.
    Commit,
}

/// The outcome of a failure that leaves a transaction, a savepoint or a pipeline: it speaks of the
/// whole. `has_left`: a part of that may have reached the server ([`Block::has_left`]).
///
/// [`Block::has_left`]: super::block::Block::has_left
#[must_use]
pub fn left(failure: Outcome, by: Leaver, has_left: bool) -> Outcome {
    match (failure, by) {
        // The server ran no COMMIT, so what it ran is undone.
        (Outcome::NotSent, _) if has_left => Outcome::Rejected,
        (Outcome::Applied | Outcome::Unknown, Leaver::Own) => Outcome::Rejected,
        (Outcome::Applied, Leaver::Other) => Outcome::Unknown,
        _ => failure,
    }
}

/// The joint result of a transaction's last statement and the COMMIT behind it.
///
/// # Errors
/// The error of one of the two.
pub fn both<T, E: Failure>(result: Result<T, E>, committed: Result<(), E>) -> Result<T, E> {
    match (result, committed) {
        (Ok(value), committed) => committed.map(|()| value),
        (Err(error), Err(commit)) => {
            let outcome = with_commit(error.outcome(), Some(commit.outcome()));
            // What can't be read is of no account where another failure has undone it.
            let cause = if error.outcome() == Outcome::Applied { commit } else { error };
            Err(cause.with_outcome(outcome))
        }
        (Err(error), Ok(())) => {
            let outcome = with_commit(error.outcome(), None);
            Err(error.with_outcome(outcome))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P62.
    #[test]
    fn what_leaves_a_transaction_took_no_effect_where_no_commit_was_sent() {
        use Outcome::{Applied, NotSent, Rejected, Unknown};
        let ends = [NotSent, Rejected, Applied, Unknown];
        let leave = |by, has_left| ends.map(|end| left(end, by, has_left));
        assert_eq!(leave(Leaver::Own, false), [NotSent, Rejected, Rejected, Rejected]);
        assert_eq!(leave(Leaver::Other, false), [NotSent, Rejected, Unknown, Unknown]);
        assert_eq!(leave(Leaver::Commit, false), ends);
    }

    #[test]
    fn what_was_not_sent_itself_leaves_a_whole_that_was_sent_and_undone() {
        use Outcome::{NotSent, Rejected};
        for by in [Leaver::Own, Leaver::Other, Leaver::Commit] {
            assert_eq!(left(NotSent, by, true), Rejected, "{by:?}");
        }
        assert_eq!(with_commit(NotSent, Some(NotSent)), NotSent);
    }

    #[test]
    fn what_the_server_refused_in_a_pipeline_undoes_it_however_that_ends() {
        use Outcome::{Applied, NotSent, Rejected, Unknown};
        for end in [None, Some(NotSent), Some(Rejected), Some(Unknown)] {
            assert_eq!(of_pipeline(Rejected, end), Rejected, "{end:?}");
        }
        assert_eq!(of_pipeline(Unknown, Some(NotSent)), Unknown);
        assert_eq!(of_pipeline(Unknown, None), Unknown);
        assert_eq!(of_pipeline(NotSent, Some(Unknown)), Unknown);
        assert_eq!(of_pipeline(Applied, Some(Rejected)), Rejected);
    }

    #[test]
    fn a_segment_fails_for_its_first_failure_and_for_what_cannot_be_read_only_where_it_stands() {
        use MemberEnd::{Failed, Skipped, Whole};
        use Outcome::{Applied, NotSent, Rejected, Unknown};
        let ends = |members: &[MemberEnd], end| {
            of_segment(members.iter().copied(), end).map(|it| (it.cause, it.outcome))
        };
        assert_eq!(ends(&[Whole, Whole], None), None);
        assert_eq!(ends(&[Whole, Failed(Applied)], None), Some((Some(1), Applied)));
        assert_eq!(ends(&[Failed(Applied), Whole], Some(Rejected)), Some((None, Rejected)));
        let both = [Failed(Applied), Failed(Rejected), Skipped];
        assert_eq!(ends(&both, Some(Unknown)), Some((Some(1), Rejected)));
        assert_eq!(ends(&[Whole, Skipped], None), Some((None, Rejected)));
        assert_eq!(ends(&[Whole, Whole], Some(NotSent)), Some((None, NotSent)));
        assert_eq!(ends(&[Whole, Failed(Unknown)], Some(Unknown)), Some((Some(1), Unknown)));
    }
}
