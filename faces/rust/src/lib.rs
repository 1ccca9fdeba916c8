//! A PostgreSQL client that hides the round trip: statements leave as soon as they are issued, many
//! share one trip over the network, and every reply reaches exactly the caller that asked for it.
//!
//! ```no_run
//! use onetrip::{Client, Error};
//!
//! # async fn f() -> Result<(), Error> {
//! let client = Client::connect("postgres://alice@localhost/shop").await?;
//!
//! // Two statements, one trip: both were submitted when the calls were made.
//! let total = client.query_one("select sum(price) from item", &[]);
//! let count = client.query_one("select count(*) from item", &[]);
//! let total: i64 = total.await?.get(0);
//! let count: i64 = count.await?.get(0);
//!
//! // Two updates, one trip, one transaction.
//! let mut transfer = client.pipeline();
//! transfer.execute("update account set balance = balance - $1 where id = $2", &[&10, &1]);
//! transfer.execute("update account set balance = balance + $1 where id = $2", &[&10, &2]);
//! transfer.finish().await?;
//! # Ok(()) }
//! ```
//!
//! There are three ways to send:
//!
//! | | on | transaction | trips |
//! |---|---|---|---|
//! | [`Client`] | a connection that its clones share | each statement | shared with whatever else
//! is on its way |
//! | [`Pipeline`] | the same, or a session | from sync point to sync point | one for all |
//! | [`Session`], [`Transaction`] | a connection of one's own | as you say | BEGIN costs none |
//!
//! A connection is encrypted if the server supports TLS. To require TLS, and to verify the server,
//! set [`sslmode`](config::Settings::sslmode).
//!
//! Values use the traits of `postgres-types`: any type that implements its `ToSql` and `FromSql`
//! works here. The module [`types`] exports them, adds numeric, interval, ranges and others, and
//! lists the features for the types of other crates. Every [`Error`] has an [`Outcome`], which says
//! what is known of the statement's effect.
//!
//! The module [`blocking`] has the same calls without async. A [`Listener`] receives notifications.
//! [`Metrics`] counts what a client does. Two features export that:
//!
//! | feature | exports |
//! |---|---|
//! | `metrics` | the numbers, through the facade of the crate `metrics`, every five seconds |
//! | `tracing` | a span for each statement, and events for what happens to connections |
//!
//! # Types of other crates
//!
//! These appear in public signatures, so an incompatible version of one is an incompatible version
//! of this crate:
//!
//! | crate | what of it | where |
//! |---|---|---|
//! | postgres-types 0.2 | what [`types`] exports of it, by name | parameters, values and their types |
//! | bytes 1 | `Bytes`, `BytesMut` | pieces of COPY and of large values, values of Redis, `ToSql` and [`redis::FromReply`] |
//! | tokio 1 | `AsyncRead`, `ReadBuf` | what [`Client::execute_large`] reads; [`CopyOut`] and [`ValuePieces`] are such readers |
//! | futures-core 0.3 | `Stream` | rows, notifications, notices and messages are streams; [`redis::Client::stream_of`] takes one |
//! | bigdecimal 0.4, `rust_decimal` 1 | `BigDecimal`, `Decimal` | with their features, to and from [`types::Numeric`] and in [`types::AsNumeric`] |
//!
//! Implementations of traits that belong to `onetrip-engine`, `onetrip-postgres` or `onetrip-redis`
//! are for those crates, and may change with any version. `docs/reference/public-api` of the
//! repository lists every public name.

pub mod blocking;
pub mod config;
pub mod doctor;
pub mod redis;
pub mod types;

mod advice;
mod batch;
mod buffer;
mod cancel;
mod cancelled;
mod canceller;
mod checkout;
mod client;
mod connect;
mod core;
mod driver;
mod error;
mod executor;
mod fate;
mod first_use;
mod guard;
mod hedge;
mod home;
mod kept;
mod lead;
mod listener;
mod login;
mod metadata;
mod methods;
mod metrics;
mod notice;
mod notification;
mod oids;
mod open;
mod params;
mod parting;
mod pipeline;
mod pipelines;
mod pool;
mod reads;
mod repeat;
mod repeatable;
mod replicas;
mod replies;
mod reply;
mod room_waiters;
mod rows;
mod run;
mod savepoint;
mod session;
mod simple;
mod socket;
mod statement;
mod statements;
mod streams;
mod sync;
mod timed;
mod tls;
mod trace;
mod transaction;
mod transaction_options;
mod transport;
mod turns;

pub use batch::{Affected, Batch, BatchError, BatchReport, Parameter, ParameterSet};
pub use cancelled::Cancelled;
pub use canceller::Canceller;
pub use client::{Client, Pending};
pub use config::Config;
pub use error::{Error, Kind};
pub use listener::Listener;
pub use metrics::{
    CacheMetrics, ConnectionMetrics, Counts, Histogram, Metrics, ReadMetrics, ReplicaMetrics,
    SlowNeighbour,
};
pub use notice::{Notice, Notices};
pub use notification::{Event, Notification, Notifications};
pub use onetrip_engine::Outcome;
pub use onetrip_postgres::client::pipeline::PipelineStatus;
pub use onetrip_postgres::client::position::{Position, PositionError};
pub use onetrip_postgres::message::{ServerError, TransactionStatus};
pub use params::{Typed, typed};
pub use pipeline::Pipeline;

pub use reads::Reads;
pub use repeatable::Repeatable;
pub use reply::{FromReply, Reply};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use rows::fuzzing;
pub use rows::{Column, ColumnIndex, Iter, Row, RowRef, Rows};
pub use run::{Committed, RunOptions};
pub use savepoint::{Release, Savepoint};
pub use session::Session;
pub use simple::SimpleResult;
pub use statement::{Alone, Statement, ToStatement, Unprepared, alone, unprepared};
pub use streams::{
    BinaryCopyIn, BinaryCopyOut, CopyIn, CopyOut, CopyRow, CopyValue, Progress, RowPieces,
    RowStream, ValuePieces,
};
pub use timed::Timed;
#[doc(hidden)]
pub use tls::Setup as TlsSetup;
pub use transaction::Transaction;
pub use transaction_options::{Isolation, TransactionOptions};

/// Compiles the examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles the examples of docs/guide/rust.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/rust.md")]
struct Guide;

/// Compiles the examples of docs/guide/redis.md; tests/redis/documented.rs runs them.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/redis.md")]
struct RedisGuide;

/// Compiles the examples of docs/operations/observing.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/operations/observing.md")]
struct Observing;

/// Compiles the examples of docs/operations/clusters.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/operations/clusters.md")]
struct Clusters;

/// Compiles the examples of docs/concepts/slow-neighbours.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/concepts/slow-neighbours.md")]
struct SlowNeighbours;

/// Compiles the examples of docs/concepts/outcomes.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/concepts/outcomes.md")]
struct Outcomes;

/// Compiles the examples of docs/concepts/pipelining.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/concepts/pipelining.md")]
struct Pipelining;

/// Compiles the examples of docs/concepts/transactions.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/concepts/transactions.md")]
struct Transactions;

/// Compiles the examples of docs/concepts/streams.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/concepts/streams.md")]
struct Streams;

/// Compiles the examples of docs/concepts/cancelling.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/concepts/cancelling.md")]
struct Cancelling;

/// Compiles the examples of docs/reference/types.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/types.md")]
struct Types;
