//! Prepared statements, and what a call may name as its statement.

use std::sync::Arc;

use onetrip_engine::{Request, Token};
use onetrip_postgres::message::{Close, Format, SYNC, Target};
use onetrip_postgres::sql::Traits;
use onetrip_postgres::{Expect, StatementId};
use postgres_types::Type;

use crate::core::Shared;
use crate::rows::{Column, Columns};

/// A statement that the server has parsed. Cheap to clone; it can be used on the connection that
/// prepared it. When the last clone is dropped, the server is told to forget it.
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

impl Drop for Prepared {
    fn drop(&mut self) {
        let mut bytes = bytes::BytesMut::new();
        // A name of ours holds no NUL.
        if (Close { target: Target::Statement(&self.name) }).encode(&mut bytes).is_err() {
            return;
        }
        bytes.extend_from_slice(&SYNC);
        let request = Request::isolated(Token::DISCARD, Expect::sync().close());
        self.shared.with(|core, now| {
            core.engine.protocol_mut().unregister(self.id);
            // Nobody waits for it: where the queue is full or the connection gone, it is left out.
            let _ = core.submit_one(now, request, &bytes, true);
        });
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
