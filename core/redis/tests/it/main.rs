//! The tests of Redis' protocol and client: one file per subject, one binary for all of them.
#![allow(clippy::unwrap_used, missing_docs)]

mod held;
mod multi;
mod replies;
mod reply;
mod router;
mod scan;
mod table;
mod topology;
mod value;
