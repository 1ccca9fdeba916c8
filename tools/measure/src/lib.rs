//! The parts of `onetrip bench`: workloads, the load that runs them, the meters on client and
//! server, the figures, and the reports.
//!
//! A run is a list of *cells*: one workload with one set of parameters each. Every cell is run in
//! several *repetitions*, in turns with all others, so that a slow moment of the machine affects
//! all of them. The outcome is a [`Results`](results::Results), and all output is made from that
//! alone.

pub mod concurrency;
mod descriptors;
pub mod error;
pub mod fortunes;
pub mod load;
pub mod meter;
pub mod redis;
pub mod report;
pub mod results;
pub mod run;
pub mod schema;
pub mod script;
pub mod server;
pub mod spread;
mod sqlstate;
pub mod target;
pub mod timeline;
pub mod trips;

pub use error::{Error, Result};
