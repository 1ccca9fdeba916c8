//! What a client does, and what it says, when the server that takes writes changes: on servers and
//! standbys of the test's own.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;
mod switch;
mod sync_replication;
