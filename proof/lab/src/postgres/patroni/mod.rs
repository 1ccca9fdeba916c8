//! Private clusters of PostgreSQL under Patroni, for tests of failovers.
//!
//! [`Cluster::start`] takes some ten seconds. Each node is a Patroni and its PostgreSQL, and all
//! keep their agreement in one etcd. Everything listens on 127.0.0.1, does not run as root, and
//! ends with the process that started it, however that process ends. Whatever a node says to the
//! others, to etcd and to clients passes through proxies of its own, so that its network can be
//! cut.
//!
//! This module has: finding the programs (`programs`), what they are told (`config`), one node
//! (`node`), the cluster (`cluster`) with Patroni's REST API (`rest`), and an HAProxy in front of
//! it (`haproxy`).

mod cluster;
mod config;
mod haproxy;
mod node;
mod programs;
mod rest;

pub use cluster::{Cluster, NODES};
pub use config::{CONNECTIONS_MAX, LOOP_WAIT, TTL};
pub use haproxy::HaProxy;
pub use node::Node;
pub use programs::{Programs, found_or_skipped};
