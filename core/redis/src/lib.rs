//! RESP2 and RESP3, the protocol of Redis and Valkey, for the onetrip engine, without I/O.
//!
//! * [`command`]: what a client sends, and the arguments of it.
//! * [`scan`]: where a reply ends, found without looking at a byte twice.
//! * [`reply`]: a view of what a whole reply holds; [`value`]: the same, owned.
//! * [`protocol`]: whose reply is this; the engine's `Protocol`.
//! * [`table`]: what is known of each command before it is sent.
//! * [`slots`], [`redirect`]: a cluster, as its nodes speak of it.
//! * [`client`]: what a client decides: what goes where in a cluster.
//!
//! Deliberately absent: sockets, clocks, randomness, and what values mean to a caller: a reply is framed
//! and read here, and converted by whoever asked for it.

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
