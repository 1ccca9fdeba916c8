//! The Redis client against a real server: one server for the whole binary, one file per feature.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../kept/spans.rs"]
mod kept;

mod atomic;
mod backpressure;
mod blocking;
mod cached;
mod closing;
mod cluster;
mod commands;
mod conformance;
mod connecting;
mod crashes;
mod documented;
mod published;
mod refusals;
mod scripts;
mod sentinel;
mod sharded;
mod spans;
mod streams;
mod subscriptions;
mod support;
mod tls;
mod typed_ordered;
mod typed_values;
mod ways;
