//! Relays and splices together, between real clients and real servers.
#![allow(clippy::unwrap_used)]

mod cancel;
mod clear;
mod direct;
mod redis;
mod refused;
mod support;
mod through;
