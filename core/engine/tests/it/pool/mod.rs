//! The pool's policy, rule by rule, with a host that obeys its outputs.

mod backoff;
mod checkout;
mod choice;
mod claims;
mod closing;
mod expiry;
mod hedges;
pub(crate) mod host;
mod line;
mod locks;
mod losing;
mod neighbours;
mod opening;
mod placing;
mod resets;
mod scouting;
mod storm;
mod waiting;
