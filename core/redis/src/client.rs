//! What a client decides, whichever face it has: state machines without I/O that every face drives.
//!
//! * [`router`]: what goes where in a cluster, and what becomes of it.
//! * [`scripts`]: which scripts go by their hashes.
//! * [`topology`]: who has which hash slot.

pub mod router;
pub mod scripts;
pub mod topology;
