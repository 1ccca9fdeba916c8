//! Prepared statements of this face, with the types of their parameters and their columns.
//! [`onetrip_postgres::client::statements`] decides when a name is used, and what is forgotten.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use onetrip_engine::Time;
use onetrip_postgres::client::exact::Parameters;
pub(crate) use onetrip_postgres::client::statements::Scope;
use onetrip_postgres::client::statements::{self, Fault, Wanted, fault};
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{Describe, EncodeError, Format, Target, parse};

use crate::Error;
use crate::first_use::oid_of;
use crate::metadata::Metadata;
use crate::oids::result_format;
use crate::rows::{Asked, Blocks, Columns, columns_of, learned_columns};
use crate::statement::Statement;
use crate::types::TypeCache;

/// The statements that one connection knows.
pub(crate) type Statements = statements::Statements<Learned>;

/// A statement on one connection.
pub(crate) type Prepared = statements::Prepared<Learned>;

/// How a request uses the statement that it names.
pub(crate) type Use = statements::Use<Learned>;

/// How a connection uses a statement.
pub(crate) type Way = statements::Way<Learned>;

/// What was learned about a statement on one connection.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(crate) metadata: Arc<Metadata>,
    /// The columns, and the state of the type cache with which their types were looked up.
    columns: Mutex<(Columns, u64)>,
    types: Arc<TypeCache>,
}

/// A statement that is to be bound by name, without what depends on the connection.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) metadata: Arc<Metadata>,
    /// The statement, if a caller prepared it.
    pub(crate) explicit: Option<Statement>,
}

impl Bound {
    pub(crate) fn wanted<'a>(
        &self,
        parse: &'a dyn Fn(&mut BytesMut, &str) -> Result<(), EncodeError>,
        data: &'a dyn Fn() -> Learned,
        parameters: Parameters<'a>,
        now: Time,
    ) -> Wanted<'a, Learned> {
        let is_explicit = self.explicit.is_some();
        Wanted { key: self.metadata.id, parse, data, is_explicit, parameters, now }
    }

    /// If this use prepares a caller's statement on this connection, keeps the result.
    pub(crate) fn hold(&self, used: &Use) {
        if let Some(statement) = self.explicit.as_ref().filter(|_| used.parses()) {
            statement.0.hold(used.prepared().clone());
        }
    }
}

impl Learned {
    pub(crate) fn new(metadata: &Arc<Metadata>, types: &Arc<TypeCache>) -> Learned {
        Learned { metadata: metadata.clone(), columns: Mutex::default(), types: types.clone() }
    }

    /// Notes the columns that a reply describes. Returns whether the next use has to request other
    /// formats.
    fn update(&self, reply: &Blocks) -> bool {
        let asked = self.metadata.formats();
        for (tag, body) in reply.messages() {
            match tag {
                backend::ROW_DESCRIPTION => {
                    // If the description can't be read, reading a row reports that.
                    let columns = columns_of(body, Asked::These(&asked)).unwrap_or_default();
                    let is_other = self.note_formats(&asked, &columns);
                    self.set_columns(columns);
                    return is_other;
                }
                backend::NO_DATA => {
                    self.set_columns(Columns::default());
                    return false;
                }
                _ => {}
            }
        }
        false
    }

    /// Returns whether the columns need other formats than the requested ones, and sets those. A
    /// column that was requested as text stays text: its type may have no binary form although its
    /// number does not tell.
    fn note_formats(&self, asked: &[Format], columns: &Columns) -> bool {
        let wanted = || columns.iter().map(|column| result_format(column.type_()));
        let fits = asked.is_empty() || asked.len() == columns.len();
        let lacks_text = wanted().enumerate().any(|(number, format)| {
            format == Format::Text && asked.get(number).is_none_or(|it| *it == Format::Binary)
        });
        if fits && !lacks_text {
            return false;
        }
        let any_text = wanted().any(|format| format == Format::Text);
        self.metadata.set_formats(if any_text { wanted().collect() } else { Vec::new() });
        true
    }

    fn set_columns(&self, columns: Columns) {
        let kept = &mut *self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = (columns, TypeCache::NEVER);
    }

    /// The columns as the server described them last, with their types as they are known by now.
    pub(crate) fn columns(&self) -> Columns {
        let (columns, state) = &mut *self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        let state_now = self.types.state();
        if *state != state_now {
            *state = state_now;
            if let Some(learned) = learned_columns(columns, &self.types) {
                *columns = learned;
            }
        }
        columns.clone()
    }
}

/// Handles the end of a use, with its reply and its error, if any. Returns the columns of the reply
/// unless it describes them itself. Called in the order of the replies, since one that prepares the
/// statement changes those behind it.
pub(crate) fn ended(used: &Use, reply: &Blocks, error: Option<&Error>) -> Option<Columns> {
    let prepared = used.prepared();
    if error.is_none() && used.is_usual(reply.first()) {
        return Some(prepared.data.columns());
    }
    let seen = reply.seen();
    used.ended(&seen, error.map(fault_of));
    if seen.described && prepared.data.update(reply) {
        // This reply has the formats that were requested; the next use prepares anew.
        prepared.make_stale();
    }
    (reply.is_described() || !used.describes()).then(|| prepared.data.columns())
}

/// Whether the error says that the server can't use the statement as it is.
pub(crate) fn shows_stale(error: &Error) -> bool {
    fault_of(error).is_stale()
}

/// What an error says of the statement that its request named.
pub(crate) fn fault_of(error: &Error) -> Fault {
    let routine = error.server().and_then(|server| server.routine.as_deref());
    fault(error.sqlstate().map(str::as_bytes), routine.map(str::as_bytes))
}

/// A function that writes the Parse of a statement.
pub(crate) fn parse_of(
    metadata: &Metadata,
) -> impl Fn(&mut BytesMut, &str) -> Result<(), EncodeError> {
    |out, name| parse::write(out, name, &metadata.sql, &metadata.oids)
}

/// Writes a Parse.
pub(crate) fn write_parse(
    out: &mut BytesMut,
    name: &str,
    sql: &str,
    types: &[postgres_types::Type],
) -> Result<(), EncodeError> {
    const FEW: usize = 16;
    let mut few = [0; FEW];
    match few.get_mut(..types.len()) {
        Some(few) => {
            few.iter_mut().zip(types).for_each(|(oid, type_)| *oid = oid_of(type_));
            parse::write(out, name, sql, few)
        }
        None => {
            let many: Vec<u32> = types.iter().map(oid_of).collect();
            parse::write(out, name, sql, &many)
        }
    }
}

pub(crate) fn describe_statement(out: &mut BytesMut, name: &str) -> Result<(), EncodeError> {
    Describe { target: Target::Statement(name) }.encode(out)
}
