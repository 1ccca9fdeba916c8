//! What a client of PostgreSQL decides, in every language alike: without I/O, like the protocol below it.
//!
//! * [`connect`]: the way to a server, as a plan that the host carries out.
//! * [`statements`]: which texts a connection has prepared, and under which names.
//! * [`named`]: statements under names of the user's own.
//! * [`copy`], [`stream`]: data that is written and replies that are read as there is room.
//! * [`pipeline`]: statements that share sync points, and leave while they are made.
//! * [`retry`]: what the engine may send a second time by itself.
//! * [`listener`]: notifications on a connection of their own, which comes back by itself.
//! * [`texts`]: how often a text came, and what it shows.
//! * [`transaction`]: a BEGIN that leaves with the first statement, and its guard.
//! * [`types`]: those that the server's catalogue has to explain.

pub mod connect;
pub mod copy;
pub mod listener;
pub mod named;
pub mod pipeline;
pub mod retry;
pub mod statements;
pub mod stream;
pub mod texts;
pub mod transaction;
pub mod types;
