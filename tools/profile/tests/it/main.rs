//! The profiler from outside: bytes in, a profile out.

mod bad_input;
mod dependence;
mod findings;
mod folding;
mod handshakes;
mod line;
mod loops;
mod programs;
mod report;
mod rivals;
mod secrets;
mod sessions;
mod speaker;
mod split;
mod units;
