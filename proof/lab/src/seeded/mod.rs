//! What model servers and simulations have in common, whatever the protocol: randomness, and what
//! happened at a server.

mod log;
mod rng;

pub use log::{Effect, Entry, Log, Seen};
pub use rng::Rng;
