//! Types that the server's own catalogue must describe: enums, composites, domains, arrays, ranges.
//!
//! * [`catalog`]: the query for them, and reading its answer.
//! * [`resolve`]: puts types in an order in which each comes after its parts, within bounds.
//! * [`known`]: which types are known, and when one is forgotten.
//! * [`look_up`]: one query for all callers that wait for the same types.
//! * `kinds`, with the feature `values`: how values of a type are written and read, for a host
//!   without types of its own.
//! * `fit`, with the same: whether a reply is what was remembered.
//! * `attributes`, with the same: a guard of values that were written by names of attributes.
//!
//! A host makes type objects of its language out of the descriptions, sends the query, and wakes
//! the callers that wait. It also says which types it knows without asking.

#[cfg(feature = "values")]
pub mod attributes;
pub mod catalog;
#[cfg(feature = "values")]
pub mod fit;
#[cfg(feature = "values")]
pub mod kinds;
pub mod known;
pub mod look_up;
pub mod resolve;
