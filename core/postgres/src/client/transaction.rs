//! Transactions whose BEGIN costs no trip: it waits for the first statement and leaves with it in one
//! segment.
//!
//! **The guard.** Where the server refuses BEGIN it is outside of any transaction, and what was sent
//! behind it without waiting would be committed, each statement by itself. So BEGIN runs as a portal
//! with a name, which lives exactly as long as its transaction (PostgreSQL documentation, "Extended
//! Query"). Until the answer to BEGIN is known, each request behind the first describes that portal in
//! front, and the server skips it where there is none. Once BEGIN is known to be refused, nothing of
//! the transaction is sent.
//!
//! * [`block`]: a transaction with its savepoints, as an object.
//! * [`front`]: what goes in front of a request of it.
//! * [`verdict`]: what failures mean to it: how it ended, whether it is run again.
//! * [`modes`]: how it begins.
//! * [`control`]: what a text is to a transaction.
//! * [`pending`]: a BEGIN that was sent as text and not answered yet, and what is done with requests meanwhile.

pub mod block;
pub mod control;
pub mod front;
pub mod modes;
pub mod pending;
pub mod verdict;

/// In a Bind: no formats, no parameters, no formats of columns.
const NO_VALUES: [u8; 6] = [0; 6];
