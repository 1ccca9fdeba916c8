//! Private PostgreSQL servers for tests, the demo and benchmarks.
//!
//! [`PrivatePostgres::start`] gives a server within a fraction of a second. It listens on 127.0.0.1
//! only, asks for a password, touches no other server of the machine and ends with the process
//! that started it, however that process ends.
//!
//! This module has: finding the binaries (`installation`), the data directories that servers are
//! copied from (`template`), a server's life (`server`), its streaming standbys and its pauses
//! (`standby`), a pooler in front of it (`pgbouncer`), and clusters of servers under Patroni
//! (`patroni`). The parts common to servers of any kind are in `private`. Nothing here speaks the
//! protocol: SQL is for the client under test.
//!
//! ```no_run
//! use onetrip_lab::postgres::{Options, PrivatePostgres};
//!
//! let server = PrivatePostgres::start(Options::default())?;
//! println!("{} answers at {}", server.version(), server.url());
//! server.stop()?;
//! # Ok::<(), onetrip_lab::postgres::LabError>(())
//! ```

mod installation;
pub mod patroni;
pub mod pgbouncer;
mod server;
mod standby;
mod template;

pub use crate::private::LabError;
pub use installation::{Installation, PG_BIN_VARIABLE, PG_MAJOR_VARIABLE, find, find_all};
pub use server::{
    CONNECTIONS_MAX_DEFAULT, Durability, Options, PrivatePostgres, Shutdown, USER, shared,
};
