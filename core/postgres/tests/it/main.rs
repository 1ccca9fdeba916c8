//! The tests of PostgreSQL's protocol and client: one file per subject, one binary for all of them.
#![allow(clippy::unwrap_used, missing_docs)]

mod auth;
mod blocks;
mod bodies;
mod codec;
mod connect;
mod early;
mod files;
mod first_use;
mod flow;
mod keywords;
mod listener;
mod pipelines;
mod positions;
mod replicas;
mod resets;
mod runs;
mod session;
mod shared_sync;
mod sql;
mod startup;
mod statements;
mod transactions;
mod types;
mod yielding;
