//! Tests of what the lab offers, and with it of the core: as one program, which is linked once.
#![allow(clippy::unwrap_used)]

mod cluster_sim;
mod migrations_sim;
mod model;
mod model_session;
mod owners;
mod patroni;
mod pgbouncer;
mod private_postgres;
mod private_redis;
mod proxy;
mod redis_cache_sim;
mod redis_cluster;
mod redis_commands;
mod redis_model;
mod redis_sim;
mod router_model;
mod sentinel_sim;
mod sim;
mod simulated;
