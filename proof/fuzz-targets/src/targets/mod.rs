//! The targets, one file each.

mod abi;
mod abi_postgres;
mod abi_redis;
mod backend;
mod catalog;
mod config;
mod frames;
mod frontend;
mod pool;
mod redis;
mod replies;
mod resp;
mod resp_peer;
mod rows;
mod scram;
mod server_error;
mod session;
mod sql;
mod startup;
mod values;

use crate::{Memory, Target};

/// All of them.
///
/// What a byte of the input may cost follows from what is made of it: a message of five bytes is noted
/// twice in 16 bytes (`frames`), each of the first 255 may be a request, whose places in the queue and in
/// the notes grow to 400 (`replies`), an empty value of four becomes an element of 32 in a list that doubles
/// (`rows`), a pair of JSON in seven becomes a map of 600, and a `numeric` of ten bytes has up to 131,072
/// digits where another number is made of it (`rows`, `values`). The input of `startup` may say that it
/// comes again and again, until it is longer than anything a stranger may say. The peer of `resp_peer` makes room for 64 KiB
/// of items before it looks for them, at each level. `abi_postgres` puts a message together that was announced, for which up
/// to a MiB is taken ahead.
pub const TARGETS: &[Target] = &[
    target("abi_postgres", abi_postgres::run, 2 << 20, 512),
    target("abi_redis", abi_redis::run, 64 << 10, 512),
    target("backend", backend::run, 4 << 10, 24),
    target("catalog", catalog::run, 64 << 10, 256),
    target("config", config::run, 64 << 10, 64),
    target("frames", frames::run, 4 << 10, 24),
    target("frontend", frontend::run, 16 << 10, 24),
    target("pool", pool::run, 1 << 20, 64),
    target("redis", redis::run, 8 << 10, 512),
    target("replies", replies::run, 8 << 10, 512),
    target("resp", resp::run, 8 << 10, 128),
    target("resp_peer", resp_peer::run, 8 << 20, 1 << 10),
    target("rows", rows::run, 1 << 20, 256),
    target("scram", scram::run, 16 << 10, 16),
    target("server_error", server_error::run, 16 << 10, 32),
    target("session", session::run, 1 << 20, 4 << 10),
    target("sql", sql::run, 1 << 10, 4),
    target("startup", startup::run, 1 << 20, 64),
    target("values", values::run, 1 << 20, 64),
];

const fn target(name: &'static str, run: fn(&[u8]), fixed: u64, per_byte: u64) -> Target {
    Target { name, run, memory: Memory { fixed, per_byte } }
}

/// The types of the target `rows`, in the order in which its inputs number them.
pub fn row_types() -> Vec<onetrip::types::Type> {
    rows::TYPES.iter().map(|case| (case.type_)()).collect()
}
