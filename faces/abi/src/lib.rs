//! The client behind plain exported functions: a native library for C, a WebAssembly module for
//! JavaScript. `include/onetrip.h` declares them, `MEMORY.md` says who owns which bytes.
//!
//! A host keeps the socket, the clock and the randomness. It hands over the bytes that arrive,
//! writes the bytes to be sent, and walks a table of completions. It encodes requests itself,
//! directly into the memory of the module. What is decided stands in [`onetrip_client`].
//!
//! * [`export`], [`export_pool`], [`export_connect`] and [`export_replicas`], and with Redis
//!   `export_redis`, `export_cluster`, `export_cache` and `export_sentinel`: the functions, and the
//!   only places that take pointers.
//! * `codes`: numbers that hosts pass in and get back.
//! * `room`: a connection with the memory that its host writes to.
//! * `handle`: a pool's reference to a connection of the host.
//! * `memory`: memory that a host asks for.
//! * `time`: the host's time.
//! * `fuzzing`: a host without pointers, for the fuzzers.
//!
//! Deliberately absent: sockets, clocks, randomness, threads, values, and decisions.

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

mod codes;
mod handle;
mod memory;
mod room;
mod time;

pub use export_pool::Pool;
#[cfg(feature = "redis")]
pub use onetrip_client::Cluster;
pub use onetrip_client::{Connect, completion};
pub use room::Connection;
