//! The command `onetrip`, run as a process.
#![allow(clippy::unwrap_used)]

mod bench;
mod database;
mod demo;
mod doctor;
mod process;
mod profile;
mod profile_tls;
mod proxy;
mod redis;
mod sidecar;
mod wire;
