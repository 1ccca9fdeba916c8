//! PostgreSQL's protocol 3 for the onetrip engine, without I/O.
//!
//! * [`message`]: every message, in both directions, one place for each.
//! * [`client`]: what a client decides: names of statements.
//! * [`auth`]: SCRAM-SHA-256 and -PLUS, MD5, cleartext.
//! * [`startup`]: from the first byte to the first ReadyForQuery.
//! * [`session`]: whose message is this; the engine's `Protocol`.
//! * [`sql`]: what the text of a statement shows of what it does.
//!
//! Deliberately absent: sockets, clocks, randomness (nonces are arguments), and values: a row is
//! framed here and decoded by whoever asked for it.

pub mod auth;
mod bodies;
pub mod client;
pub mod message;
pub mod session;
pub mod sql;
pub mod startup;

pub use session::{Event, Expect, Names, Postgres, StatementId};
