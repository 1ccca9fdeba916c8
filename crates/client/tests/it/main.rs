//! The client against a real server: one server for the whole binary, one file per feature.
#![allow(clippy::unwrap_used, missing_docs)]

mod auto_prepare;
mod cancellation;
mod certificates;
mod connecting;
mod faults;
mod limits;
mod outcomes;
mod parameters;
mod pipelines;
mod prepared;
mod queries;
mod refusals;
mod rows;
mod sessions;
mod simple;
mod support;
mod tls;
mod tls_line;
mod tls_relay;
mod transactions;
mod trips;
mod types_errors;
mod types_learned;
mod types_table;
mod types_text;
