//! The targets, one file each.

mod abi;
mod abi_postgres;
mod abi_redis;
mod backend;
mod catalog;
mod config;
mod early;
mod frames;
mod frontend;
mod pool;
mod profile;
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
/// How much memory a byte of the input may cost depends on the target:
///
/// * `frames`: a message of five bytes is recorded twice, in 16 bytes each.
/// * `replies`: each of the first 255 bytes may be a request, whose entries in the queue and in the
///   target's own notes grow to 400 bytes.
/// * `rows`: an empty value of four bytes becomes an element of 32 in a list that doubles its
///   capacity, and a JSON pair of seven bytes becomes a map of 600.
/// * `rows`, `values`: a `numeric` of ten bytes has up to 131,072 digits when converted to another
///   type.
/// * `startup`: the input may be repeated until it is longer than a peer may send before the login.
/// * `resp_peer`: the other parser allocates 64 KiB of items at each level before it reads them.
/// * `profile`: it has room for counts of values and for a block of a capture, whatever comes; a
///   command of a few bytes becomes an exchange of 400, and each is kept twice.
/// * `abi_postgres`: for a message that was announced, up to 1 MiB is allocated ahead.
pub const TARGETS: &[Target] = &[
    target("abi_postgres", abi_postgres::run, 2 << 20, 512),
    target("abi_redis", abi_redis::run, 64 << 10, 512),
    target("backend", backend::run, 4 << 10, 24),
    target("catalog", catalog::run, 64 << 10, 256),
    target("config", config::run, 64 << 10, 64),
    target("early", early::run, 128 << 10, 24),
    target("frames", frames::run, 4 << 10, 24),
    target("frontend", frontend::run, 16 << 10, 24),
    target("pool", pool::run, 1 << 20, 64),
    target("profile", profile::run, 8 << 20, 4 << 10),
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

/// The types of the target `rows`, in the order of their numbers in its inputs.
pub fn row_types() -> Vec<onetrip::types::Type> {
    rows::TYPES.iter().map(|case| (case.type_)()).collect()
}
