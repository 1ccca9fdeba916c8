//! What a client of Redis decides, in every language alike: state machines without I/O.
//!
//! * [`router`]: routes commands to the nodes of a cluster, and handles redirects and failures.
//! * [`scripts`]: which scripts are called by their hashes.
//! * [`topology`]: which node has which hash slot.

pub mod router;
pub mod scripts;
pub mod topology;
