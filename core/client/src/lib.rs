//! The client that every face stands on: what is decided of a connection, its statements and its
//! commands, of a pool, of replicas and of a cluster.
//!
//! A host keeps the socket, the clock and the randomness. It hands over the bytes that arrive,
//! writes the bytes to be sent, submits requests, and walks the records of what happened.
//!
//! * [`completion`]: these records.
//! * `connection`: one connection, of either protocol.
//! * [`connect`]: the plan of connecting to a server.
//! * `pool`: the policy of a pool over the host's connections.
//! * `postgres`: login, statements, requests.
//! * `replicas`: where reads go, and the position of what was written.
//! * `redis`: login and commands.
//! * `cluster`: the routing of a Redis cluster; `routing` with what a host in Rust keeps of it.
//! * `cache`: replies of Redis that are kept.
//! * `sentinel`: which servers are the master and a replica, as Redis Sentinels say.
//! * `echo`: an engine without a server, to test how bytes cross the boundary of a host.
//!
//! Deliberately absent: sockets, clocks, randomness, threads, and values. The host decodes rows.

pub mod completion;
pub mod connect;
pub mod flag;

#[cfg(feature = "redis")]
mod cache;
#[cfg(feature = "redis")]
mod cluster;
mod connection;
mod echo;
mod lent;
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

#[cfg(feature = "redis")]
pub use cluster::Cluster;
pub use connect::Connect;
pub use connection::Connection;
pub use pool::Pool;
pub use replicas::Replicas;
#[cfg(feature = "redis")]
pub use sentinel::Sentinel;

/// What hosts hand over and get back.
pub mod host {
    pub use crate::completion::Record;
    pub use crate::flag;
    pub use crate::lent::Lent;
    pub use crate::postgres::blocks::Act;
    pub use crate::postgres::flow::Part;
    pub use crate::postgres::request::{Portal, Submission, Types};
    pub use crate::postgres::{Holder, Refused, SharedTexts};
    #[cfg(feature = "redis")]
    pub use crate::{
        cache::{Cache, CacheCounts},
        cluster::{AGAIN, Unanswered, flag as cluster_flag},
        redis::look::{Traits, traits},
        redis::packed::Packed,
        redis::submission::{Submission as Commands, flag as redis_flag},
        routing::{Flight, Routed, Routing},
    };
}
