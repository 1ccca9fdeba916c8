//! The Redis client against a real server: one server for the whole binary, one file per feature.
#![allow(clippy::unwrap_used, missing_docs)]

mod commands;
mod support;
