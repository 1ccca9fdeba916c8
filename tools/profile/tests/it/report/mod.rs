//! Reports: what stands in them, that other tools can read them, and how they look in a browser.

#![allow(clippy::unwrap_used)]

mod browser;
mod files;
mod page;
mod samples;
