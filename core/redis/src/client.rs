//! What a client of Redis decides, in every language alike: state machines without I/O.
//!
//! * [`cache`]: replies that are kept until the server says that they are not true any more.
//! * [`list`]: what the replies say of commands that run as one.
//! * [`login`]: who logs in, and with what.
//! * [`repeat`]: when a command is sent again after its connection was lost.
//! * [`router`]: routes commands to the nodes of a cluster, and handles redirects and failures.
//! * [`scripts`]: which scripts are called by their hashes.
//! * [`sentinel`]: which server is the master, as Redis Sentinels say.
//! * [`session`]: what a command may do to its connection, and what it leaves there.
//! * [`settings`]: which settings contradict each other.
//! * [`shape`]: what callers get of a reply.
//! * [`topology`]: which node has which hash slot.

pub mod cache;
pub mod list;
pub mod login;
pub mod repeat;
pub mod router;
pub mod scripts;
pub mod sentinel;
pub mod session;
pub mod settings;
pub mod shape;
pub mod topology;
