//! What failures mean to a transaction: what its end has come to, and whether it may be run again.

use onetrip_engine::Outcome;

/// A failure as a language keeps it.
pub trait Failure: Clone {
    /// By what the server answered the statement, if it did and the session goes on.
    fn answer(&self) -> Option<&str>;
    /// Whether the server has skipped it, since something in front of it failed.
    fn is_skipped(&self) -> bool;
    /// What is known of the effect.
    fn outcome(&self) -> Outcome;
    /// The same with another outcome.
    #[must_use]
    fn with_outcome(self, outcome: Outcome) -> Self;
    /// The same, with what it is about in front of its text.
    #[must_use]
    fn about(self, what: &'static str) -> Self;
    /// Something was rolled back, as `text` says, by reason of this failure where that is known.
    fn rolled_back(text: &'static str, why: Option<Self>) -> Self;
}

/// The code of what was rolled back though its caller wanted it to stand.
pub const ROLLED_BACK: &str = "rolled_back";

/// What is said of a transaction whose COMMIT was answered by ROLLBACK.
pub const AT_COMMIT: &str =
    "the transaction was rolled back at its commit, since a statement in it had failed";

/// Whether it is a serialization failure (40001) or a deadlock (40P01): the same transaction may
/// succeed when it is run again from its beginning (PostgreSQL documentation, "Serialization Failure
/// Handling").
pub fn is_conflict(failure: &impl Failure) -> bool {
    matches!(failure.answer(), Some("40001" | "40P01"))
}

/// Whether a transaction whose begin or end failed so is run again. Where nobody knows what became of it, it
/// is not.
pub fn runs_again(failure: &impl Failure) -> bool {
    // Also where a statement reported it and the commit has repeated that.
    failure.outcome() == Outcome::Rejected && is_conflict(failure)
}

/// What COMMIT has come to where the server answered it by this tag. `failure` is what made the transaction
/// fail, where that is known.
///
/// # Errors
/// It was rolled back.
pub fn committed<E: Failure>(tag: Option<&str>, failure: Option<E>) -> Result<(), E> {
    match tag {
        Some("COMMIT") => Ok(()),
        _ => Err(E::rolled_back(AT_COMMIT, failure)),
    }
}

/// A savepoint that could not be released, since of this failure where it is known. It was rolled back to.
pub fn not_released<E: Failure>(failure: Option<E>) -> E {
    E::rolled_back(
        "the savepoint was rolled back to, since a statement behind it had failed",
        failure,
    )
}

/// What is known of the last statement of a transaction that failed so, once the COMMIT behind it has succeeded,
/// or failed so.
pub fn with_commit(statement: Outcome, commit: Option<Outcome>) -> Outcome {
    match (statement, commit) {
        // It ran: a failure would have been answered by ROLLBACK.
        (_, None) => Outcome::Applied,
        // Also where the statement is not known to have failed: the commit was refused, and with it whatever it did.
        (Outcome::Rejected, _) | (_, Some(Outcome::Rejected)) => Outcome::Rejected,
        _ => Outcome::Unknown,
    }
}

/// What the last statement of a transaction and the COMMIT behind it have come to together.
///
/// # Errors
/// One of the two.
pub fn both<T, E: Failure>(result: Result<T, E>, committed: Result<(), E>) -> Result<T, E> {
    match result {
        Ok(value) => committed.map(|()| value),
        Err(error) => {
            let outcome = with_commit(error.outcome(), committed.err().map(|it| it.outcome()));
            Err(error.with_outcome(outcome))
        }
    }
}
