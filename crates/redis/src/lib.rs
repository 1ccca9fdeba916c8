//! RESP2 and RESP3, the protocol of Redis and Valkey, for the onetrip engine, without I/O.
//!
//! * [`command`]: what a client sends, and the arguments of it.
//! * [`scan`]: where a reply ends, found without looking at a byte twice.
//! * [`protocol`]: whose reply is this; the engine's `Protocol`.
//!
//! Deliberately absent: sockets, clocks, randomness, and what values mean to a caller: a reply is framed
//! here and decoded by whoever asked for it.

pub mod command;
mod head;
pub mod protocol;
pub mod scan;
pub mod table;

pub use command::{Command, ToArg};
pub use protocol::{Event, Expect, Redis};
pub use table::{Place, Spec};
