//! Prepared statements, and what a call may name as its statement.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;

use onetrip_engine::{Request, Time, Token};
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{
    Close, Describe, Format, ParameterDescription, SYNC, Target, parse,
};
use onetrip_postgres::sql::Traits;
use onetrip_postgres::{Expect, StatementId};
use postgres_types::Type;

use crate::Error;
use crate::core::{Core, Shared};
use crate::oids::{result_format, type_of};
use crate::params::unencodable;
use crate::rows::{Blocks, Column, Columns, columns_of};

/// A statement that the server has parsed. Cheap to clone; it can be used on the connection that
/// prepared it. When the last clone is dropped, the server is told to forget it, together with what
/// is sent next.
///
/// If the server lost it (DISCARD ALL) or its plan went stale (the table has other columns now), it
/// is prepared anew by itself, once per call, where that can't change what the call means: outside
/// of transactions and pipelines.
#[derive(Clone, Debug)]
pub struct Statement(pub(crate) Arc<Prepared>);

#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) shared: Arc<Shared>,
    pub(crate) name: String,
    pub(crate) traits: Traits,
    sql: String,
    /// By which it is prepared anew; once its description has come.
    pub(crate) id: Option<StatementId>,
    pub(crate) params: Arc<[Type]>,
    /// May change when the statement is prepared anew.
    results: Mutex<Results>,
}

/// What a statement returns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    pub(crate) columns: Columns,
    /// Formats of the columns; empty for all binary.
    pub(crate) formats: Arc<[Format]>,
}

impl Statement {
    /// The types of its parameters, in order.
    pub fn params(&self) -> &[Type] {
        &self.0.params
    }

    /// Its columns; none if it returns no rows. They change where it had to be prepared anew since
    /// a table has other columns now.
    pub fn columns(&self) -> Arc<[Column]> {
        self.0.results().columns
    }
}

impl Prepared {
    /// A statement that is on its way to the server.
    pub(crate) fn new(shared: Arc<Shared>, name: String, sql: &str, traits: Traits) -> Prepared {
        Prepared {
            shared,
            name,
            traits,
            sql: sql.to_owned(),
            id: None,
            params: Arc::default(),
            results: Mutex::default(),
        }
    }

    /// Takes the server's description of it, and registers how it is prepared anew: with the same
    /// types of parameters, since calls that were encoded before must keep their meaning.
    pub(crate) fn describe(&mut self, description: &Blocks) -> Result<(), Error> {
        for (tag, body) in description.messages() {
            if tag == backend::PARAMETER_DESCRIPTION {
                let described = ParameterDescription::decode(body).map_err(|_| unreadable())?;
                self.params = described.types.map(type_of).collect();
            }
        }
        self.update(description)?;
        let mut heal = BytesMut::new();
        let target = Target::Statement(&self.name);
        let oids: Vec<u32> = self.params.iter().map(Type::oid).collect();
        Close { target }.encode(&mut heal).map_err(unencodable)?;
        parse::write(&mut heal, &self.name, &self.sql, &oids).map_err(unencodable)?;
        Describe { target }.encode(&mut heal).map_err(unencodable)?;
        let heal = heal.freeze();
        self.id = Some(self.shared.with(|core, _| core.engine.protocol_mut().register(heal)));
        Ok(())
    }

    pub(crate) fn results(&self) -> Results {
        self.lock().clone()
    }

    /// Takes note of what it returns, as a description or a reply behind one says.
    fn update(&self, reply: &Blocks) -> Result<(), Error> {
        for (tag, body) in reply.messages() {
            match tag {
                backend::ROW_DESCRIPTION => {
                    let columns = columns_of(body, Some(&result_format)).ok_or_else(unreadable)?;
                    let formats = match columns.iter().any(Column::is_text) {
                        true => columns.iter().map(Column::format).collect(),
                        false => Arc::default(),
                    };
                    *self.lock() = Results { columns, formats };
                    return Ok(());
                }
                backend::NO_DATA => *self.lock() = Results::default(),
                _ => {}
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Statement {
    /// A use of it has ended with this reply. Says which columns the reply has. Called in the order
    /// of the replies, since one that prepared the statement anew changes those behind it.
    pub(crate) fn replied(&self, reply: &Blocks) -> Columns {
        if reply.is_healed() {
            // An unreadable description shows when a row is read.
            let _ = self.0.update(reply);
        }
        self.0.lock().columns.clone()
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // It may be dropped where the connection is locked: the Close leaves with what comes next.
        self.shared.close_later(self.id, std::mem::take(&mut self.name));
    }
}

impl Shared {
    /// Submits the Closes of dropped statements.
    pub(crate) fn close_dropped(&self, core: &mut Core, now: Time) {
        for (id, name) in self.take_dropped() {
            if let Some(id) = id {
                core.engine.protocol_mut().unregister(id);
            }
            let mut bytes = BytesMut::new();
            let target = Target::Statement(&name);
            // A name of ours holds no NUL.
            if (Close { target }).encode(&mut bytes).is_ok() {
                bytes.extend_from_slice(&SYNC);
                let request = Request::isolated(Token::DISCARD, Expect::sync().close());
                core.submit_along(now, request, &bytes);
            }
        }
    }
}

fn unreadable() -> Error {
    Error::unreadable("the description of the statement can't be read")
}

/// What a call may name as its statement: its text, or a [`Statement`].
pub trait ToStatement: sealed::Sealed {
    #[doc(hidden)]
    fn to_statement(&self) -> Source<'_>;
}

#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    Text(&'a str),
    Prepared(&'a Statement),
}

impl ToStatement for str {
    fn to_statement(&self) -> Source<'_> {
        Source::Text(self)
    }
}

impl ToStatement for String {
    fn to_statement(&self) -> Source<'_> {
        Source::Text(self)
    }
}

impl ToStatement for Statement {
    fn to_statement(&self) -> Source<'_> {
        Source::Prepared(self)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for str {}
    impl Sealed for String {}
    impl Sealed for super::Statement {}
}
