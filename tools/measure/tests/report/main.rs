//! Reports: what they say, how they are written, and how they look in a browser.

#![allow(clippy::unwrap_used, missing_docs)]

mod browser;
mod comparing;
mod files;
mod odd;
mod page;
mod picture;
mod recorded;
mod redis;
mod scripts;
mod synthetic;
mod words;
