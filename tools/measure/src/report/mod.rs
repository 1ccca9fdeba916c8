//! Reports of a run: on the terminal, as files, and compared with another run. All of them are made
//! from [`Results`](crate::results::Results) alone.
//!
//! A *grid* lays cells out in two dimensions, and is what tables, sheets and charts have in common.
//! A *view* is a chart with the sentence that says what it shows.

mod answer;
pub mod benchmarks;
mod chart;
mod charts;
mod compare;
mod csv;
mod details;
mod flat;
mod format;
mod grid;
mod headlines;
mod html;
mod json;
mod key_figures;
mod measure;
mod percentiles;
mod picture;
mod plots;
mod redis;
mod setting;
mod sheets;
mod summary;
mod tables;
mod terminal;
mod write;

pub use compare::{Comparison, Pair, compare};
pub use json::read;
pub use terminal::terminal;
pub use write::{check_writable, write_all};
