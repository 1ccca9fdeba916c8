//! RESP2 and RESP3, the protocol of Redis and Valkey, for the onetrip engine, without I/O.
//!
//! * [`command`]: commands and their arguments.
//! * [`scan`]: finds the end of a reply without looking at a byte twice.
//! * [`reply`]: a view of a whole reply; [`value`]: the same, owned.
//! * [`protocol`]: which request a reply belongs to; the engine's `Protocol`.
//! * [`table`]: what is known of each command before it is sent.
//! * [`slots`], [`redirect`]: hash slots and redirects of a cluster.
//! * [`client`]: what a client decides, such as routing in a cluster.
//!
//! Deliberately absent: sockets, clocks, randomness, and the meaning of values. A reply is framed
//! and read here, and converted by its reader.

pub mod client;
pub mod command;
mod fields;
mod head;
pub mod protocol;
mod raw;
pub mod redirect;
mod refusal;
pub mod reply;
pub mod scan;
pub mod slots;
pub mod table;
pub mod value;

pub use command::{Command, ToArg};
pub use protocol::{Event, Expect, Redis};
pub use reply::{ErrorReply, Malformed, Reply};
pub use table::{Place, Spec};
pub use value::Value;
