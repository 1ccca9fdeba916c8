//! `--preset redis`: commands of Redis or Valkey one by one and many at once, the experiment of Redis' own
//! documentation, and a value that is read, changed and written, at each added round trip.
//!
//! All keys begin with `onetrip-bench:` and a random part, are known beforehand, and are removed at the end.
//! Nothing else of the server is touched; it keeps the text of one script in its cache, as of every client.

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
