//! What a host in Rust sees of the client. That it does as it should on real servers is tested
//! behind the ABI and in each face.

#![allow(clippy::unwrap_used)]

mod pool;
