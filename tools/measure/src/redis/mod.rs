//! `--preset redis`: commands of Redis or Valkey one by one and pipelined, the experiment of Redis'
//! own documentation, and a value that is read, changed and written, at each added round trip.
//!
//! All keys begin with `onetrip-bench:` and a random part, are known beforehand, and are removed at
//! the end. Nothing else on the server is changed, except that one script stays in its script
//! cache.

mod keys;
mod meter;
mod target;
mod task;
mod way;

pub(crate) use keys::{Keys, PATIENCE};
pub(crate) use meter::{Meters, rtt};
pub use target::{Line, Target, shown};
pub(crate) use task::Task;
pub(crate) use way::PUBLISHED_MS;
pub use way::{DEPTHS, PINGS, Update, Verb, WORKLOADS, Way};
