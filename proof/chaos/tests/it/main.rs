//! The kinds of chaos, as one program, which is linked once. Each asks for most of a machine, so they
//! run one after another: `cargo test -p onetrip-chaos --test it -- --test-threads=1`.

mod chaos;
mod failover;
mod migrations;
mod redis;
mod redis_cluster;
mod redis_crashes;
mod runbooks;
mod sessions;
