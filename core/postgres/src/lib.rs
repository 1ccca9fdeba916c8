//! PostgreSQL's protocol 3 for the onetrip engine, without I/O.
//!
//! * [`message`]: every message, in both directions, one place for each.
//! * [`client`]: everything that a client decides: statement names, transactions, pipelines, types.
//! * [`auth`]: SCRAM-SHA-256 and -PLUS, MD5, cleartext.
//! * [`startup`]: from the first byte to the first ReadyForQuery.
//! * [`session`]: which request each server message answers; the engine's `Protocol`.
//! * [`sql`]: what the text of a statement shows about its effects.
//! * `binary`, with the feature `values`: the binary forms of values, from and to numbers, texts and
//!   parts.
//!
//! Deliberately absent: sockets, clocks, randomness (nonces are arguments) and the values of a
//! language. A row is framed here and decoded by its reader, who may use `binary`.

pub mod auth;
#[cfg(feature = "values")]
pub mod binary;
mod bodies;
pub mod client;
pub mod message;
pub mod outdated;
pub mod session;
pub mod sql;
pub mod startup;

pub use session::{Event, Expect, Names, Postgres, StatementId};
