//! Reports: what stands in them, that other tools can read them, and how they look in a browser.

#![allow(clippy::unwrap_used, missing_docs)]

mod browser;
mod files;
mod page;
mod samples;
mod scratch;
#[path = "../it/speaker.rs"]
mod speaker;
