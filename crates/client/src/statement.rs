//! Prepared statements, and what a call may name as its statement.

use std::sync::Arc;

use onetrip_engine::{Request, Time, Token};
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{Close, Format, ParameterDescription, SYNC, Target};
use onetrip_postgres::sql::Traits;
use onetrip_postgres::{Expect, StatementId};
use postgres_types::Type;

use crate::Error;
use crate::core::{Core, Shared};
use crate::oids::{result_format, type_of};
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
    pub(crate) id: StatementId,
    pub(crate) name: String,
    pub(crate) traits: Traits,
    pub(crate) params: Vec<Type>,
    /// Formats of the columns; empty for all binary.
    pub(crate) results: Vec<Format>,
    pub(crate) columns: Columns,
}

impl Statement {
    /// The types of its parameters, in order.
    pub fn params(&self) -> &[Type] {
        &self.0.params
    }

    /// Its columns; none if it returns no rows.
    pub fn columns(&self) -> &[Column] {
        &self.0.columns
    }
}

impl Prepared {
    /// A statement that is on its way to the server.
    pub(crate) fn new(
        shared: Arc<Shared>,
        id: StatementId,
        name: String,
        traits: Traits,
    ) -> Prepared {
        let (params, results, columns) = (Vec::new(), Vec::new(), Columns::default());
        Prepared { shared, id, name, traits, params, results, columns }
    }

    /// Takes the server's description of it.
    pub(crate) fn read(&mut self, description: &Blocks) -> Result<(), Error> {
        let unreadable = || Error::unreadable("the description of the statement can't be read");
        for (tag, body) in description.messages() {
            match tag {
                backend::PARAMETER_DESCRIPTION => {
                    let described = ParameterDescription::decode(body).map_err(|_| unreadable())?;
                    self.params = described.types.map(type_of).collect();
                }
                backend::ROW_DESCRIPTION => {
                    self.columns = columns_of(body, Some(&result_format)).ok_or_else(unreadable)?;
                    if self.columns.iter().any(Column::is_text) {
                        self.results = self.columns.iter().map(Column::format).collect();
                    }
                }
                _ => {}
            }
        }
        Ok(())
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
            core.engine.protocol_mut().unregister(id);
            let mut bytes = bytes::BytesMut::new();
            let target = Target::Statement(&name);
            // A name of ours holds no NUL.
            if (Close { target }).encode(&mut bytes).is_ok() {
                bytes.extend_from_slice(&SYNC);
                let request = Request::isolated(Token::DISCARD, Expect::sync().close());
                // Where the queue is full or the connection gone, it is left out.
                let _ = core.submit_one(now, request, &bytes, true);
            }
        }
    }
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
