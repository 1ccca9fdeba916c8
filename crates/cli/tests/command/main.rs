//! The command `onetrip` as its users meet it.
#![allow(clippy::unwrap_used)]

mod demo;
mod process;
mod proxy;
