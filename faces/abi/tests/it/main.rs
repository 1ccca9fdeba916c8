//! The interface as a host uses it: through the exported functions, with a plain socket.

#![allow(unsafe_code, clippy::unwrap_used, reason = "it is a host")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a host has socket and clock"
)]

mod begin;
mod classify;
mod cluster;
mod connect;
mod echo;
mod flow;
mod header;
mod host;
mod login;
mod memory;
mod pace;
mod pool;
mod positions;
mod redis;
mod requests;
mod statements;
