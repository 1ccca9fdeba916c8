//! The profiler from outside: bytes in, a profile out.

mod dependence;
mod line;
mod loops;
mod programs;
mod report;
mod rivals;
mod sessions;
mod speaker;
mod split;
mod units;
