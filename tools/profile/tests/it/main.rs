//! The profiler from outside: bytes in, a profile out.

mod dependence;
mod loops;
mod programs;
mod rivals;
mod speaker;
mod units;
