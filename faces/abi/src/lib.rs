//! The engine behind plain exported functions: a native library for C, a WebAssembly module for
//! JavaScript. `include/onetrip.h` declares them, `MEMORY.md` says who owns which bytes.
//!
//! A host keeps the socket, the clock and the randomness. It hands over the bytes that arrive,
//! writes the bytes to be sent, and walks a table of completions. It encodes requests itself,
//! directly into the memory of the module.
//!
//! * [`export`], [`export_pool`], [`export_connect`] and [`export_replicas`]: the functions, and the only places that
//!   take pointers.
//! * [`completion`]: the records that a host walks.
//! * `connection`: one connection, of either protocol.
//! * `connect`: the plan of connecting to a server.
//! * `pool`: the policy of a pool over the host's connections.
//! * `postgres`: login, statements, requests.
//! * `replicas`: where reads go, and the position of what was written.
//! * `redis`, with `export_redis`: login and commands.
//! * `cluster`, with `export_cluster`: the routing of a Redis cluster.
//! * `cache`, with `export_cache`: replies of Redis that are kept.
//! * `sentinel`, with `export_sentinel`: which servers are the master and a replica, as Redis Sentinels say.
//! * `fuzzing`: a host without pointers, for the fuzzers.
//! * `echo`: an engine without a server, to test how bytes cross the boundary.
//!
//! Deliberately absent: sockets, clocks, randomness, threads, and values. The host decodes rows.

pub mod completion;
pub mod export;
#[cfg(feature = "redis")]
pub mod export_cache;
#[cfg(feature = "redis")]
pub mod export_cluster;
pub mod export_connect;
pub mod export_pool;
#[cfg(feature = "redis")]
pub mod export_redis;
#[cfg(feature = "reads")]
pub mod export_replicas;
#[cfg(feature = "redis")]
pub mod export_sentinel;
#[cfg(all(feature = "fuzzing", feature = "redis"))]
pub mod fuzzing;

#[cfg(feature = "redis")]
mod cache;
#[cfg(feature = "redis")]
mod cluster;
mod codes;
mod connect;
mod connection;
mod echo;
mod handle;
mod input;
mod memory;
mod pool;
mod postgres;
mod protocol;
#[cfg(feature = "redis")]
mod redis;
mod replicas;
#[cfg(feature = "redis")]
mod routing;
#[cfg(feature = "redis")]
mod sentinel;
mod settings;
mod time;

#[cfg(feature = "redis")]
pub use cluster::Cluster;
pub use connect::Connect;
pub use connection::Connection;
pub use pool::Pool;
pub use replicas::Replicas;
#[cfg(feature = "redis")]
pub use sentinel::Sentinel;

/// What hosts in Rust hand over and get back. Their functions are those of [`Connection`],
/// [`Pool`], [`Replicas`], [`Cluster`] and [`Sentinel`], which take no pointers.
pub mod host {
    pub use crate::codes::flag;
    pub use crate::completion::Record;
    pub use crate::handle::Lent;
    pub use crate::postgres::blocks::Act;
    pub use crate::postgres::flow::Part;
    pub use crate::postgres::request::{Portal, Submission, Types};
    pub use crate::postgres::{Holder, Refused};
    #[cfg(feature = "redis")]
    pub use crate::{
        cluster::Unanswered,
        redis::packed::Packed,
        routing::{Flight, Routed, Routing},
    };
}
