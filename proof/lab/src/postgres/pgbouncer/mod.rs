//! Private PgBouncers in front of a private server, for tests of clients behind a pooler.
//!
//! [`PrivatePgBouncer::start`] takes a tenth of a second. Like the server it listens on 127.0.0.1
//! and on a Unix socket in a directory of its own, does not run as root, and ends with the process
//! that started it, however that process ends.
//!
//! This module has: finding the program (`program`), its configuration (`config`), and its life
//! (`pooler`).

mod config;
mod pooler;
mod program;

pub use config::{CLIENTS_MAX_DEFAULT, Login, Options, POOL_SIZE_DEFAULT, PoolMode};
pub use pooler::PrivatePgBouncer;
pub use program::{PGBOUNCER_VARIABLE, Program, find, find_all};
