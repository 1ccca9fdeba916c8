//! Transactions: what a text does to one, and a BEGIN that costs no trip.
//!
//! **The guard.** A BEGIN that waits for the first statement leaves with it in one segment. Where the server refuses it, it
//! is outside of any transaction, and what was sent behind it without waiting would be committed, each statement by
//! itself. So BEGIN runs as a portal with a name, which lives exactly as long as its transaction (PostgreSQL
//! documentation, "Extended Query"). Until the answer to BEGIN is known, each request of the transaction
//! describes that portal first, and the server skips it where there is none.

pub mod begin;
pub mod control;

pub use control::Control;
