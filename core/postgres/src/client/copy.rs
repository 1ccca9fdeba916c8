//! COPY: which texts are one, the messages of its data, and the outcome of one that failed.
//!
//! The statement is sent with the first of its data, without waiting for an answer. If the server
//! refuses the statement, it skips the data (PostgreSQL documentation, "COPY Operations";
//! `PostgresMain` in src/backend/tcop/postgres.c accepts and ignores the messages of a copy that is
//! over).

use bytes::{BufMut, BytesMut};
use onetrip_engine::memory::make_room;
use onetrip_engine::{Connection, Outcome, Protocol, Ticket, Time, Token};

use crate::message::{CopyData, CopyFail, EncodeError, Header, empty};
use crate::session::Expect;
use crate::sql::Traits;

/// The usual length of a copy data message, in bytes: large enough that messages and writes cost
/// little per byte, and small beside what a socket takes.
pub const MESSAGE_LEN: usize = 64 << 10;

/// The direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// COPY … FROM STDIN.
    In,
    /// COPY … TO STDOUT.
    Out,
}

impl Direction {
    /// Whether a text with these traits is one COPY in this direction.
    pub fn is_of(self, traits: Traits) -> bool {
        let is_copy = match self {
            Direction::In => traits.copy_in(),
            Direction::Out => traits.copy() && !traits.copy_in(),
        };
        is_copy && !traits.several()
    }

    /// The reply to expect.
    pub const fn expect(self) -> Expect {
        match self {
            Direction::In => Expect::copy_in(),
            Direction::Out => Expect::copy_out(),
        }
    }
}

/// There is no memory for the data, or it is longer than a message can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Hands over data to a COPY. False if the COPY takes none now: not yet, or no longer.
///
/// # Errors
/// There is no memory for it, or it is longer than a message can be.
pub fn feed<P: Protocol>(
    engine: &mut Connection<P>,
    now: Time,
    token: Token,
    data: &[u8],
) -> Result<bool, NoRoom> {
    match engine.can_feed(token) {
        true => engine.feed(now, token, |out| {
            let is_room = make_room(out, data.len() + Header::LEN);
            is_room.then(|| CopyData { data }.encode(out).ok()).flatten().ok_or(NoRoom)
        }),
        false => Ok(false),
    }
}

/// Ends the data. False if the COPY takes none: not yet, or no longer.
pub fn finish<P: Protocol>(engine: &mut Connection<P>, now: Time, token: Token) -> bool {
    last(engine, now, token, |out| out.put_slice(&empty::COPY_DONE))
}

/// Gives up a COPY whose data is incomplete. If it was not sent yet, it is taken back.
pub fn fail<P: Protocol>(
    engine: &mut Connection<P>,
    now: Time,
    token: Token,
    ticket: Option<Ticket>,
    reason: &str,
) {
    // The server takes 10,000 bytes at most, and no NUL.
    let reason: String = reason.chars().filter(|c| *c != '\0').take(REASON_MAX).collect();
    let is_sent = last(engine, now, token, |out| {
        let _ = CopyFail { reason: &reason }.encode(out);
    });
    if let (false, Some(ticket)) = (is_sent, ticket) {
        engine.cancel(now, ticket);
    }
}

fn last<P: Protocol>(
    engine: &mut Connection<P>,
    now: Time,
    token: Token,
    write: impl FnOnce(&mut BytesMut),
) -> bool {
    let written: Result<bool, EncodeError> = engine.feed(now, token, |out| {
        write(out);
        Ok(())
    });
    engine.end_feed(now, token);
    written.unwrap_or(false)
}

/// How a guard looks at the types of a table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// By an expression of each column, which the server reads as it has the table then. It takes
    /// the table's name for that of its rows' type.
    ByRow,
    /// By the catalogue, as the statement sees it: right where each statement sees what was
    /// committed before it, and refused elsewhere. For a table whose name is found as that of another
    /// type.
    ByCatalog,
}

/// The statement that runs behind a binary COPY FROM STDIN in its implicit transaction, and fails
/// unless the table's columns have the types that the data was made for: so says no message of a
/// COPY. The COPY has locked the table, so they can't change in between, and nothing of it stands if
/// this fails.
///
/// `table`: the table as it stands in the COPY. `columns`: their names, and the numbers of their
/// types; of a domain, that of what it is based on.
pub fn guard(how: Guard, table: &str, columns: &[(&str, u32)]) -> String {
    let of = |(name, expected): &(&str, u32)| {
        let (column, literal) = (quoted(name, '"'), literal(name));
        let is = match how {
            Guard::ByRow => format!("pg_catalog.pg_typeof((null::{table}).{column})"),
            Guard::ByCatalog => format!(
                "(select a.atttypid from pg_catalog.pg_attribute a where a.attrelid = \
                 {}::pg_catalog.regclass and a.attname = {literal} and not a.attisdropped \
                 and pg_catalog.current_setting('transaction_isolation') like 'read %')",
                self::literal(table)
            ),
        };
        format!("({literal}::pg_catalog.text, {expected}::pg_catalog.oid, {is}::pg_catalog.oid)")
    };
    let columns: Vec<String> = columns.iter().map(of).collect();
    // A domain counts as what it is based on. The text of the error is what can't be a number.
    format!(
        "with recursive c (name, expected, oid) as (values {} union all \
         select c.name, c.expected, t.typbasetype from c join pg_catalog.pg_type t \
         on t.oid = c.oid where t.typtype = 'd'), \
         changed (what) as (select c.name || ' is of type ' || coalesce(pg_catalog.max(\
         c.oid::pg_catalog.regtype::pg_catalog.text), 'unknown') from c \
         group by c.name having pg_catalog.bool_or(c.expected = c.oid) is not true) \
         select case when told is null then 0 else ({} || told)::pg_catalog.int4 end \
         from (select pg_catalog.string_agg(what, ', ') from changed) t (told)",
        columns.join(", "),
        literal(TYPES_CHANGED)
    )
}

/// Whether the error of a binary COPY may come from columns that have other types than the data was
/// made for: what is wrong with data (class 22) or with names and types (class 42), or the messages
/// of a value (08P01).
#[must_use]
pub fn may_be_outdated(sqlstate: &str) -> bool {
    sqlstate.starts_with("22")
        || sqlstate.starts_with("42")
        || matches!(sqlstate, "08P01" | "XX000")
}

/// Whether the error of a binary COPY shows that the columns have other types than the data was made
/// for, so that what else was learned before that may be wrong as well: that of its guard, by what it
/// says, and that of data that is no value of its column's type (`CopyReadBinaryAttribute` in
/// src/backend/commands/copyfromparse.c, and the types' own functions): it has another length (22P03,
/// 08P01), elements or attributes of other types (42804), is no text (22021), or of no version that
/// the type has (XX000).
#[must_use]
pub fn types_changed(sqlstate: &str, message: &str) -> bool {
    matches!(sqlstate, "22P03" | "08P01" | "42804" | "22021" | "XX000")
        || sqlstate == "22P02" && message.contains(TYPES_CHANGED)
}

/// What the error of a guard says, in front of the columns.
pub const TYPES_CHANGED: &str = "the columns of the table have changed: ";

fn quoted(name: &str, by: char) -> String {
    let inner = name.replace(by, &format!("{by}{by}"));
    format!("{by}{inner}{by}")
}

/// A text in single quotes, whatever `standard_conforming_strings` is.
pub(super) fn literal(text: &str) -> String {
    format!("E{}", quoted(&text.replace('\\', "\\\\"), '\''))
}

/// The outcome of a COPY FROM STDIN that failed. Without the end of its data, no server completes
/// it.
pub fn outcome(outcome: Outcome, data_ended: bool) -> Outcome {
    match outcome {
        Outcome::Unknown if !data_ended => Outcome::Rejected,
        outcome => outcome,
    }
}

/// The most characters of a reason that are sent.
const REASON_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_is_no_value_of_its_columns_type_shows_a_change_and_a_wrong_value_does_not() {
        for sqlstate in ["22P03", "08P01", "42804", "22021", "XX000"] {
            assert!(types_changed(sqlstate, "") && may_be_outdated(sqlstate), "{sqlstate}");
        }
        let said = format!("invalid input syntax for type integer: \"{TYPES_CHANGED}a is of type");
        assert!(types_changed("22P02", &said));
        for sqlstate in ["22P02", "23505", "22003", "42501"] {
            assert!(!types_changed(sqlstate, "invalid input value for enum mood"), "{sqlstate}");
        }
        assert!(!may_be_outdated("23505"));
    }
}
