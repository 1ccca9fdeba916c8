//! The tests of the Redis protocol and client. Each subject has a file, and all are in one binary.
#![allow(clippy::unwrap_used, missing_docs)]

mod cache;
mod command;
mod held;
mod multi;
mod replies;
mod reply;
mod router;
mod scan;
mod sentinel;
mod settings;
mod sharded;
mod table;
mod topology;
mod value;
