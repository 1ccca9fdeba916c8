//! Types that the server's own catalogue has to explain: enums, composites, domains, arrays, ranges.
//!
//! * [`catalog`]: the statement that asks for them, and reading the answer.
//! * [`resolve`]: types in an order in which each comes behind its parts, within bounds.
//! * [`known`]: which are known, and when one is forgotten.
//! * [`look_up`]: one question for all who wait for the same types.
//!
//! A host makes type objects of its language out of the descriptions, sends the question, and wakes
//! those who wait. It also says which types it knows without asking.

pub mod catalog;
pub mod known;
pub mod look_up;
pub mod resolve;
