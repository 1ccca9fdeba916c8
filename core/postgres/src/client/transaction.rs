//! Transactions whose BEGIN costs no round trip: it waits for the first statement and is sent with
//! it in one segment.
//!
//! **The guard.** If the server refuses BEGIN, it is outside of any transaction, and statements
//! sent behind BEGIN without waiting would each be committed by itself. So BEGIN runs as a named
//! portal, which lives exactly as long as its transaction (PostgreSQL documentation, "Extended
//! Query"). Until the answer to BEGIN is known, each request behind the first describes that portal
//! first, and the server skips the request if the portal does not exist. Once BEGIN is known to be
//! refused, nothing of the transaction is sent.
//!
//! * [`block`]: a transaction with its savepoints, as an object.
//! * [`front`]: the messages in front of a request of a transaction.
//! * [`verdict`]: what failures mean to a transaction: how it ended, whether it is run again.
//! * [`modes`]: isolation level and access mode at its beginning.
//! * [`control`]: how a text affects a transaction.
//! * [`pending`]: a BEGIN that was sent as text and is unanswered, and how requests are treated
//!   meanwhile.

pub mod block;
pub mod control;
pub mod front;
pub mod modes;
pub mod pending;
pub mod verdict;

/// In a Bind: no parameter formats, no parameters, no column formats.
const NO_VALUES: [u8; 6] = [0; 6];
