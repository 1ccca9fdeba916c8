//! The client that every face stands on: what is decided of a connection, its statements and its
//! commands, of a pool, of replicas and of a cluster.
//!
//! A host keeps the socket, the clock and the randomness. It hands over the bytes that arrive,
//! writes the bytes to be sent, submits requests, and walks the records of what happened.
//!
//! * [`Connection`]: one connection, of either protocol; [`completion`]: the records.
//! * [`connect`]: the plan of connecting to a server.
//! * [`Pool`]: the policy of a pool over connections that the host [lends](Lent) it.
//! * [`postgres`]: login, statements, transactions; [`flag`]: options of a statement.
//! * [`Replicas`]: where reads go, and the position of what was written.
//! * [`redis`]: login and commands.
//! * [`cluster`]: the routing of a Redis cluster; [`routing`]: the same with what a host keeps of it.
//! * [`cache`]: replies of Redis that are kept.
//! * [`Sentinel`]: which servers are the master and a replica, as Redis Sentinels say.
//! * `echo`: an engine without a server, to test how bytes cross the boundary of a host.
//!
//! Numbers and records whose layout is C's (`completion`, `redis::Traits`, `cache::CacheCounts`)
//! are those of the ABI, whose hosts walk them in memory.
//!
//! Deliberately absent: sockets, clocks, randomness, threads, and values. The host decodes rows.

#[cfg(feature = "redis")]
pub mod cache;
#[cfg(feature = "redis")]
pub mod cluster;
pub mod completion;
pub mod connect;
pub mod flag;
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "redis")]
pub mod routing;

mod connection;
mod echo;
mod lent;
mod pool;
mod protocol;
mod replicas;
#[cfg(feature = "redis")]
mod sentinel;
mod settings;

#[cfg(feature = "redis")]
pub use cluster::Cluster;
pub use connect::Connect;
pub use connection::Connection;
pub use lent::Lent;
pub use pool::Pool;
pub use replicas::Replicas;
#[cfg(feature = "redis")]
pub use sentinel::Sentinel;
