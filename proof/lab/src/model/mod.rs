//! A model of a PostgreSQL server. It does on demand, and repeatably, what a real server can't be
//! made to do.
//!
//! [`Server`] is one session without I/O, written with the message codecs of `onetrip-postgres`. It
//! knows no SQL. The text of a statement says what will happen ([`Statement`]) and has an identity,
//! which every reply to it repeats. [`Log`] records what became of each identity, so a test can
//! compare what a client was told with what happened. The log also records whose state each
//! statement found in its session ([`Kind`]), and how resets ended.
//!
//! Two hosts drive it: the simulation ([`crate::sim`]), in memory and in virtual time, and
//! [`serve`], on a real socket, for tests of clients.
//!
//! If its configuration has a [`Schema`], its sessions share tables, which may be migrated between any
//! two messages; `tables` says how.
//!
//! Deliberately absent: types other than int8 and text outside of tables, COPY but for a binary one
//! into a table, savepoints, TLS, and everything about a server that a client can't see.

mod config;
mod copy;
mod extended;
mod reply;
mod rows;
mod serve;
mod server;
mod session;
mod simple;
mod startup;
mod statement;
mod tables;
mod transaction;

pub use crate::seeded::{Effect, Entry, Log, Rng, Seen};
pub use config::{Auth, Config, Noise};
pub use reply::{code, fatal};
pub use rows::{COLUMNS, INT8, TEXT, row_len, value};
pub use serve::{Fault, Model, serve};
pub use server::{SEND_BUFFER_LEN, Server};
pub use session::{Act, Kind, Sabotage};
pub use statement::{Fail, Statement, Verb};
pub use tables::{Change, Column, LABELS, NAMES, PATHS, Schema, Stored, Table, Told, Type, Value};
