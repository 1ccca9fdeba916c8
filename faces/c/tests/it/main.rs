//! What the headers promise, by programs in C and C++ that a compiler makes here, against servers
//! of their own.

#![allow(clippy::unwrap_used, missing_docs)]

mod documented;
mod programs;
mod secured;
mod staged;
mod trips;
