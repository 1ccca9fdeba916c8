//! The same calls for programs without async: each blocks its thread until the result has arrived.
//!
//! ```no_run
//! use onetrip::blocking::Client;
//!
//! # fn f() -> Result<(), onetrip::Error> {
//! let client = Client::connect("postgres://alice@localhost/shop")?;
//! let total: i64 = client.query_one("select sum(price) from item", &[])?.get(0);
//!
//! // Two updates, one trip, one transaction.
//! let mut transfer = client.pipeline();
//! let debit = transfer
//!     .execute("update account set balance = balance - $1 where id = $2", &[&5, &1]);
//! let credit = transfer
//!     .execute("update account set balance = balance + $1 where id = $2", &[&5, &2]);
//! transfer.finish()?;
//! assert_eq!((debit.wait()?, credit.wait()?), (1, 1));
//! # Ok(()) }
//! ```
//!
//! The asynchronous client does the work; the calls here wait for it. What has no call here can be
//! run by [`Client::wait`] and its like, which run any future of the asynchronous client, also
//! several at once:
//!
//! ```no_run
//! # fn f(client: onetrip::blocking::Client) -> Result<(), onetrip::Error> {
//! let (orders, lines) = client.wait(|client| {
//!     let orders = client.query("select * from orders", &[]);
//!     let lines = client.query("select * from lines", &[]); // One trip for both.
//!     async { Ok((orders.await?, lines.await?)) }
//! })?;
//! # Ok(()) }
//! ```
//!
//! - **Threads.** All types may be used from many threads at once; clone the [`Client`] for each.
//! - **Async.** Inside asynchronous code a blocking call would hold up the runtime, so it fails
//!   with the code `blocking_in_async`, and nothing is sent. On a thread of `spawn_blocking` the
//!   calls work. (A future within `tokio::task::unconstrained` can't be told from such a thread;
//!   there tokio panics.)
//! - **Between calls** one thread per client resets, closes and replaces connections in time.

mod batch;
mod client;
mod drive;
mod listener;
mod pipeline;
mod session;

pub use batch::Batch;
pub use client::Client;
pub use listener::Listener;
pub use pipeline::{Pipeline, Reply};
pub use session::{Session, Transaction};

/// The calls that a client, a session and a transaction share; each has fields `inner` and
/// `runtime`. If the asynchronous types gain a call, it is added here.
macro_rules! blocking_methods {
    () => {
        /// Runs a statement and returns its rows.
        pub fn query(
            &self,
            statement: &(impl $crate::ToStatement + ?Sized),
            params: $crate::params::Params<'_>,
        ) -> Result<$crate::Rows, $crate::Error> {
            self.runtime.wait(|| self.inner.query(statement, params))
        }

        /// Runs a statement that returns exactly one row. No row, or several, is an error
        /// (`Applied`).
        pub fn query_one(
            &self,
            statement: &(impl $crate::ToStatement + ?Sized),
            params: $crate::params::Params<'_>,
        ) -> Result<$crate::Row, $crate::Error> {
            self.runtime.wait(|| self.inner.query_one(statement, params))
        }

        /// Runs a statement that returns at most one row. Several are an error (`Applied`).
        pub fn query_opt(
            &self,
            statement: &(impl $crate::ToStatement + ?Sized),
            params: $crate::params::Params<'_>,
        ) -> Result<Option<$crate::Row>, $crate::Error> {
            self.runtime.wait(|| self.inner.query_opt(statement, params))
        }

        /// Runs a statement and returns how many rows it inserted, updated, deleted or returned.
        pub fn execute(
            &self,
            statement: &(impl $crate::ToStatement + ?Sized),
            params: $crate::params::Params<'_>,
        ) -> Result<u64, $crate::Error> {
            self.runtime.wait(|| self.inner.execute(statement, params))
        }

        /// Prepares a statement: one trip. Afterwards each use sends its parameters only.
        pub fn prepare(&self, sql: &str) -> Result<$crate::Statement, $crate::Error> {
            self.runtime.wait(|| self.inner.prepare(sql))
        }

        /// Prepares a statement whose first parameters are of these types.
        pub fn prepare_typed(
            &self,
            sql: &str,
            types: &[$crate::types::Type],
        ) -> Result<$crate::Statement, $crate::Error> {
            self.runtime.wait(|| self.inner.prepare_typed(sql, types))
        }

        /// Sends a notification to a channel, with a payload that may be empty.
        pub fn notify(&self, channel: &str, payload: &str) -> Result<(), $crate::Error> {
            self.runtime.wait(|| self.inner.notify(channel, payload))
        }

        /// Makes a batch: many parameter sets for one statement. Nothing is sent until
        /// [`atomic`](crate::blocking::Batch::atomic) or
        /// [`isolated`](crate::blocking::Batch::isolated) is called.
        pub fn batch<'s, R>(
            &'s self,
            statement: &'s (impl $crate::ToStatement + ?Sized),
            rows: R,
        ) -> $crate::blocking::Batch<'s, R>
        where
            R: IntoIterator,
            R::Item: $crate::ParameterSet,
        {
            $crate::blocking::Batch::new(self.inner.batch(statement, rows), self.runtime.clone())
        }

        /// Begins a pipeline: statements that share one trip and one transaction.
        pub fn pipeline(&self) -> $crate::blocking::Pipeline {
            $crate::blocking::Pipeline::new(self.inner.pipeline(), self.runtime.clone())
        }
    };
}

use blocking_methods;
