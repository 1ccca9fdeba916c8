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
//! * [`control`]: what a text is to a transaction.
//! * [`pending`]: a BEGIN that was not answered yet, and what is done with requests meanwhile.

pub mod control;
pub mod pending;
