//! What becomes of a statement that was sent as its text was remembered, where that is no longer
//! what the server has: tables, functions and types were changed meanwhile.

use onetrip_engine::Outcome;
use onetrip_engine::pool::TextKey;

use crate::outdated::is_meaningless;
use crate::sql::Traits;

/// How often a statement is sent again since what it is has changed. Migrations that never end
/// would hold it up for ever.
pub const AGAIN_MAX: u8 = 3;

/// What stands in front of an error of the server's that says so ([`columns_changed`]).
pub const COLUMNS_CHANGED: &str = "the columns of the statement have changed: ";

/// Whether the server refused a statement since its columns have changed: by its plan, or by how
/// many it was asked for (`RevalidateCachedQuery` in src/backend/utils/cache/plancache.c and
/// `PortalSetResultFormat` in src/backend/tcop/pquery.c). Nothing else is wrong with its transaction.
#[must_use]
pub fn columns_changed(sqlstate: Option<&str>, routine: Option<&str>) -> bool {
    matches!(
        (sqlstate, routine),
        (Some("0A000"), Some("RevalidateCachedQuery"))
            | (Some("08P01"), Some("PortalSetResultFormat"))
    )
}

/// Whether an error shows by itself that something has changed: the columns of the statement, or the
/// attributes of a composite, of which the client has sent those that it remembers (`record_recv` in
/// src/backend/utils/adt/rowtypes.c).
#[must_use]
pub fn shows_change(sqlstate: Option<&str>, routine: Option<&str>) -> bool {
    columns_changed(sqlstate, routine)
        || (sqlstate, routine) == (Some("42804"), Some("record_recv"))
}

/// Whether an error of a statement that was sent as its text was remembered ends what is remembered
/// of all texts, so that none of them fails for the same reason: it shows what has changed, or the
/// server, which could describe it before, makes no sense of it by now. `has_context`: the error
/// says where it is from, so it may be of a function's own text, or of a value.
#[must_use]
pub fn ends_all(sqlstate: Option<&str>, routine: Option<&str>, has_context: bool) -> bool {
    let is_of_text = !has_context && is_meaningless(sqlstate.map(str::as_bytes));
    is_of_text || shows_change(sqlstate, routine)
}

/// What is known of a statement that does not go on as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Nothing else depends on it: it is outside of a transaction and of a pipeline, and nothing of
    /// its caller's was sent behind it.
    pub stands_alone: bool,
    /// What became of it.
    pub outcome: Outcome,
    /// It may run twice, as far as its text shows ([`is_plain_read`]).
    pub is_plain_read: bool,
    /// How often it was sent again before.
    pub again: u8,
}

/// Whether it is sent again, as its text is by now. What took effect is not, unless it is a read.
#[must_use]
pub fn goes_again(sent: Sent) -> bool {
    let may_run = match sent.outcome {
        Outcome::NotSent | Outcome::Rejected => true,
        Outcome::Applied => sent.is_plain_read,
        Outcome::Unknown => false,
    };
    sent.stands_alone && may_run && sent.again < AGAIN_MAX
}

/// Whether a statement only reads, and calls nothing that is not known to be harmless, as far as its
/// text shows.
#[must_use]
pub fn is_plain_read(traits: Traits, key: TextKey) -> bool {
    traits.read_only_select() && !key.may_lock()
}

/// Whether the server is told how many columns are expected, so that it refuses a statement with
/// more or fewer before it runs (`PortalSetResultFormat` in src/backend/tcop/pquery.c). That is for
/// a statement that can be sent again only where it did not run.
#[must_use]
pub fn counts_columns(stands_alone: bool, is_plain_read: bool) -> bool {
    stands_alone && !is_plain_read
}

/// The message for a result whose column came in a form in which its type is not read.
#[must_use]
pub fn misread(column: &str, type_: &str) -> String {
    format!(
        "the columns of the statement have changed: column \"{column}\" is of type {type_} by now, \
         and was not asked for as one. The next use asks anew"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::texts::text_key;
    use crate::sql::classify;

    /// P17.
    #[test]
    fn what_ran_is_sent_again_only_if_it_reads() {
        let sent = |outcome, is_plain_read| {
            goes_again(Sent { stands_alone: true, outcome, is_plain_read, again: 0 })
        };
        for outcome in [Outcome::NotSent, Outcome::Rejected] {
            assert!(sent(outcome, false) && sent(outcome, true), "{outcome:?}");
        }
        assert!(sent(Outcome::Applied, true) && !sent(Outcome::Applied, false));
        assert!(!sent(Outcome::Unknown, true));
    }

    /// P17.
    #[test]
    fn nothing_is_sent_again_in_a_transaction_or_for_ever() {
        let sent = Sent {
            stands_alone: true,
            outcome: Outcome::Rejected,
            is_plain_read: true,
            again: AGAIN_MAX - 1,
        };
        assert!(goes_again(sent));
        assert!(!goes_again(Sent { stands_alone: false, ..sent }));
        assert!(!goes_again(Sent { again: AGAIN_MAX, ..sent }));
    }

    #[test]
    fn what_has_lost_its_meaning_ends_what_is_remembered_of_all() {
        let columns = (Some("0A000"), Some("RevalidateCachedQuery"));
        assert!(ends_all(columns.0, columns.1, true));
        assert!(ends_all(Some("42883"), Some("op_error"), false));
        assert!(!ends_all(Some("42883"), Some("op_error"), true), "of a function that it calls");
        assert!(!ends_all(Some("22P02"), Some("pg_strtoint32"), false), "of a value");
        assert!(ends_all(Some("42804"), Some("record_recv"), true), "of attributes");
        assert!(!ends_all(None, None, false));
    }

    #[test]
    fn a_read_that_calls_what_is_not_known_is_no_plain_one() {
        let is_plain = |text: &str| {
            let traits = classify(text);
            is_plain_read(traits, text_key(text, traits))
        };
        assert!(is_plain("select * from t where a = $1"));
        for text in
            ["select store(1)", "insert into t values (1) returning *", "select nextval('s')"]
        {
            assert!(!is_plain(text), "{text}");
        }
    }
}
