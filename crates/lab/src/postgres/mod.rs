//! A PostgreSQL server of one's own: for tests, the demo and benchmarks.
//!
//! [`PrivatePostgres::start`] gives a server within a fraction of a second. It listens on 127.0.0.1
//! only, asks for a password, touches no other server of the machine and ends with the process
//! that started it, however that process ends.
//!
//! Here belongs: finding the binaries (`installation`), the operating-system user that runs them
//! (`account`), the directories that they live in (`base`) and who removes them (`guard`), and
//! starting, watching and stopping the server (`supervisor`, `server`), and a pooler in front of it
//! (`pgbouncer`). Nothing here speaks the protocol: SQL is for the client
//! under test.
//!
//! ```no_run
//! use onetrip_lab::postgres::{Options, PrivatePostgres};
//!
//! let server = PrivatePostgres::start(Options::default())?;
//! println!("{} answers at {}", server.version(), server.url());
//! server.stop()?;
//! # Ok::<(), onetrip_lab::postgres::LabError>(())
//! ```

mod account;
mod base;
mod error;
mod guard;
mod installation;
pub mod pgbouncer;
mod server;
mod supervisor;

pub use error::LabError;
pub use installation::{Installation, PG_BIN_VARIABLE, PG_MAJOR_VARIABLE, find, find_all};
pub use server::{
    CONNECTIONS_MAX_DEFAULT, Durability, Options, PrivatePostgres, Shutdown, USER, shared,
};
