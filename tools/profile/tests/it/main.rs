//! The profiler from outside: bytes in, a profile out.

mod dependence;
mod speaker;
mod units;
