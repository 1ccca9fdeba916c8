//! A binary COPY FROM STDIN into a table, by the simple protocol, and the guard that may run behind
//! it (`CopyReadBinaryAttribute` in src/backend/commands/copyfromparse.c).
//!
//! ```text
//! copy op=7 into=t from stdin (format binary);with recursive c (name, expected, oid) as (…
//! ```
//!
//! Its rows are an identity and a value of the column `v`. Nothing says which types those are of:
//! their bytes are read by the types that the table has by then. The guard is the client's SQL, of
//! which the model reads what it looks at and when it fails.

use onetrip_postgres::message::{
    CopyDirection, Field, Format, copy_response, data_row, row_description,
};

use super::extended::Ran;
use super::reply::{self, code};
use super::tables::{Column, Type, Value};
use super::{Server, Statement, Table};

/// A COPY whose data comes.
pub(super) struct Copying {
    statement: Statement,
    table: Table,
    data: Vec<u8>,
    /// What its text has behind it.
    pub(super) behind: Vec<String>,
}

/// The signature of the data, its flags, and the length of what else its header has.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// How a guard begins.
const GUARD: &str = "with recursive c (name, expected, oid) as (values ";
/// What a guard says of each column, and then when it fails.
const HAVING: &str = "having pg_catalog.bool_or(c.expected = c.oid) ";

/// What a guard expects of a column.
struct Expected<'a> {
    name: &'a str,
    oid: u32,
    table: &'a str,
}

impl Server {
    /// Begins a COPY: the session waits for its data. False if it failed.
    pub(super) fn begin_copy(&mut self, statement: Statement, behind: Vec<String>) -> bool {
        let op = statement.op;
        if self.transaction.has_failed() {
            self.fail(code::ABORTED, op);
            return false;
        }
        let Some(table) = self.table_of(statement.table.as_deref().unwrap_or_default()) else {
            self.fail(code::NO_TABLE, op);
            return false;
        };
        self.transaction.tables.insert(table);
        self.begin(&statement);
        self.put(|out| {
            copy_response::write(out, CopyDirection::In, Format::Binary, &[Format::Binary; 2])
                .expect("two columns");
        });
        self.flush();
        self.copying = Some(Copying { statement, table, data: Vec::new(), behind });
        true
    }

    /// More of the data. What comes behind a COPY that has failed is dropped.
    pub(super) fn copy_data(&mut self, data: &[u8]) {
        if let Some(copying) = &mut self.copying {
            copying.data.extend_from_slice(data);
        }
    }

    /// All data has come, or there is no more (`is_whole`).
    pub(super) fn end_copy(&mut self, is_whole: bool) {
        let Some(copying) = self.copying.take() else { return };
        let op = copying.statement.op;
        match if is_whole { self.copied(&copying) } else { Err(code::CANCELLED) } {
            Ok(rows) => {
                let ran = Ran::Complete { tag: copying.statement.tag(rows) };
                self.went_on(ran, copying.statement.verb, op, copying.behind);
            }
            Err(refused) => {
                self.fail(refused, op);
                self.end_query();
            }
        }
    }

    /// Stores the rows of the data. Returns how many, or the error.
    fn copied(&mut self, copying: &Copying) -> Result<u32, &'static str> {
        let schema = self.config.schema.clone().ok_or(code::NO_TABLE)?;
        let of = schema.columns(copying.table)[0].type_;
        let mut rest = copying.data.strip_prefix(HEADER).ok_or(code::BAD_COPY)?;
        for rows in 0.. {
            match take::<2>(&mut rest).map(i16::from_be_bytes) {
                Some(-1) if rest.is_empty() => return Ok(rows),
                Some(2) => {}
                _ => break,
            }
            let op = field(&mut rest).ok_or(code::BAD_COPY)?;
            let value = field(&mut rest).ok_or(code::BAD_COPY)?;
            let Value::Whole(op) = Type::Int8.receive(op)? else { break };
            schema.store(op as u64, of, &of.receive(value)?);
        }
        Err(code::BAD_COPY)
    }

    /// Runs a guard, if this text is one: none if it is another.
    pub(super) fn run_guard(&mut self, text: &str) -> Option<Ran> {
        let listed = text.trim_start().strip_prefix(GUARD)?;
        let having = text.split(HAVING).nth(1).and_then(|rest| rest.split(')').next());
        let mut told = Vec::new();
        for expected in listed.split("(E'").filter_map(Expected::read) {
            let Some(type_) = self.type_of(&expected) else {
                self.fail(code::NO_COLUMN, None);
                return Some(Ran::Failed);
            };
            let is_same = type_.oid() == expected.oid;
            let is_told = match having {
                Some("is not true") => !is_same,
                // Of a column that is there something is known.
                Some("is null") => false,
                _ => {
                    self.fail(code::SYNTAX, None);
                    return Some(Ran::Failed);
                }
            };
            if is_told {
                told.push(format!("{} is of type {type_:?}", expected.name));
            }
        }
        if told.is_empty() {
            self.put(|out| {
                let field = Field {
                    name: "case",
                    table_oid: 0,
                    column_id: 0,
                    type_oid: Type::Int4.oid(),
                    type_size: 4,
                    type_modifier: -1,
                    format: Format::Text,
                };
                row_description::write(out, std::iter::once(field)).expect("a short column");
                data_row::write(out, std::iter::once(Some(&b"0"[..]))).expect("a short row");
            });
            return Some(Ran::Complete { tag: "SELECT 1".to_owned() });
        }
        // A text that is no number, which is cast to one.
        let said = text.split("else (E'").nth(1).and_then(|rest| rest.split('\'').next());
        let mut error = reply::error("ERROR", code::INVALID_TEXT, None);
        error.message = format!("{}: \"{}{}\"", error.message, said?, told.join(", "));
        self.fail_with(error);
        Some(Ran::Failed)
    }

    fn table_of(&self, name: &str) -> Option<Table> {
        let at = super::NAMES.iter().position(|known| *known == name)?;
        Some((self.transaction.session.path(), at))
    }

    /// The type that the column has now.
    fn type_of(&self, expected: &Expected<'_>) -> Option<Type> {
        let schema = self.config.schema.as_ref()?;
        let op = Column { name: "op".to_owned(), type_: Type::Int8 };
        let mut columns = schema.columns(self.table_of(expected.table)?);
        columns.push(op);
        columns.iter().find(|column| column.name == expected.name).map(|column| column.type_)
    }
}

impl<'a> Expected<'a> {
    /// `v'::pg_catalog.text, 20::pg_catalog.oid, pg_catalog.pg_typeof((null::t)."v")::…`
    fn read(text: &'a str) -> Option<Expected<'a>> {
        let (name, rest) = text.split_once("'::pg_catalog.text, ")?;
        let (oid, rest) = rest.split_once("::pg_catalog.oid, ")?;
        let (_, rest) = rest.split_once("((null::")?;
        let (table, _) = rest.split_once(')')?;
        Some(Expected { name, oid: oid.parse().ok()?, table })
    }
}

/// So many bytes at the front.
fn take<const LEN: usize>(rest: &mut &[u8]) -> Option<[u8; LEN]> {
    let (taken, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*taken)
}

/// A value with its length; none is NULL here.
fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(i32::from_be_bytes(take(rest)?)).ok()?;
    let (value, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(value)
}
