//! The command `onetrip` as its users meet it.
#![allow(clippy::unwrap_used)]

mod bench;
mod database;
mod demo;
mod doctor;
mod process;
mod proxy;
mod redis;
