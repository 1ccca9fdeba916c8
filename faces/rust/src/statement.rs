//! What a call may name as its statement: a text, or a prepared statement.

use std::sync::{Arc, Mutex, PoisonError};

use postgres_types::Type;

use crate::Error;
use crate::first_use::{formats_of, read_description};
use crate::metadata::{Metadata, MetadataCache};
use crate::oids::result_format;
use crate::rows::{Blocks, Column, Columns};
use crate::statements::Prepared;
use crate::types::TypeCache;
use onetrip_postgres::sql::Traits;

/// A statement whose types are known. Cheap to clone. Each connection of its client prepares it
/// with its first use there, which costs no trip of its own. When the last clone is dropped, the
/// server is told to forget it, together with what is sent next.
///
/// If the server lost it (DISCARD ALL), or if its plan went stale (the table has other columns
/// now), it is prepared anew, once per call. That happens only where it can't change what the call
/// means: outside of transactions and pipelines, and on a session only if nothing was sent behind
/// it.
#[derive(Clone, Debug)]
pub struct Statement(pub(crate) Arc<Explicit>);

#[derive(Debug)]
pub(crate) struct Explicit {
    pub(crate) metadata: Arc<Metadata>,
    /// The cache of the client that it belongs to.
    pub(crate) metadata_cache: Arc<MetadataCache>,
    /// The statement on each connection that has used it.
    prepared: Mutex<Vec<Arc<Prepared>>>,
    columns: Columns,
}

impl Statement {
    /// Reads the server's description of a statement.
    pub(crate) fn described(
        sql: &str,
        traits: Traits,
        (metadata_cache, known): (Arc<MetadataCache>, Arc<TypeCache>),
        description: &Blocks,
    ) -> Result<Statement, Error> {
        let (types, columns) = read_description(description, &result_format, &known)?;
        let results = formats_of(&columns);
        let metadata = Metadata::new(sql.into(), types, traits, results);
        let prepared = Mutex::default();
        Ok(Statement(Arc::new(Explicit { metadata, metadata_cache, prepared, columns })))
    }

    /// The types of its parameters, in order.
    pub fn params(&self) -> &[Type] {
        &self.0.metadata.types
    }

    /// Its columns as they were when it was prepared; empty if it returns no rows. If the table has
    /// changed since, a reply has the columns of its own time.
    pub fn columns(&self) -> &[Column] {
        &self.0.columns
    }
}

impl Explicit {
    /// Keeps the statement of one connection, and drops those that can't be used any more.
    pub(crate) fn hold(&self, prepared: Arc<Prepared>) {
        let mut list = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|other| !other.is_over());
        list.push(prepared);
    }
}

/// Has a statement parsed at each use, and never prepared by counting: for one whose generic plan
/// is worse than a plan for its parameters (`plan_cache_mode` in PostgreSQL's documentation), or
/// whose text is new each time.
///
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let sql = "select count(*) from event where kind = $1";
/// let rows = client.query(&onetrip::unprepared(sql), &[&"rare"]).await?;
/// # Ok(()) }
/// ```
pub fn unprepared(sql: &str) -> Unprepared<'_> {
    Unprepared(sql)
}

/// A statement that is never prepared by counting; made by [`unprepared`].
#[derive(Clone, Copy, Debug)]
pub struct Unprepared<'a>(&'a str);

/// What a call may name as its statement: a text, a [`Statement`], or an [`unprepared`] text.
pub trait ToStatement: sealed::Sealed {
    #[doc(hidden)]
    fn to_statement(&self) -> Source<'_>;

    /// Whether nothing else may share its connection while it runs.
    #[doc(hidden)]
    fn is_alone(&self) -> bool {
        false
    }
}

/// Runs a statement alone: meanwhile the client puts no other statement on its connection, if it
/// has another connection or may open one. The statement waits for a connection on which nothing is
/// unanswered, opens one if [`connections_max`](crate::Config::connections_max) allows it, and
/// counts as a caller that waits (`wait_timeout`).
///
/// The client learns by itself which texts take long, and runs them alone; also a text that it has
/// never seen. Use this for a text that is quick as a rule, but not always. On a session or in a
/// transaction it changes nothing: they have a connection to themselves.
///
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let report = "select count(*) from event where kind = $1";
/// let rows = client.query(&onetrip::alone(report), &[&"rare"]).await?;
/// # Ok(()) }
/// ```
pub fn alone<S: ToStatement + ?Sized>(statement: &S) -> Alone<'_, S> {
    Alone(statement)
}

/// A statement that runs alone; made by [`alone`].
#[derive(Debug)]
pub struct Alone<'a, S: ?Sized>(&'a S);

impl<S: ToStatement + ?Sized> ToStatement for Alone<'_, S> {
    fn to_statement(&self) -> Source<'_> {
        self.0.to_statement()
    }

    fn is_alone(&self) -> bool {
        true
    }
}

#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    Text(&'a str),
    Unprepared(&'a str),
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

impl ToStatement for Unprepared<'_> {
    fn to_statement(&self) -> Source<'_> {
        Source::Unprepared(self.0)
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
    impl Sealed for super::Unprepared<'_> {}
    impl Sealed for super::Statement {}
    impl<S: super::ToStatement + ?Sized> Sealed for super::Alone<'_, S> {}
}
