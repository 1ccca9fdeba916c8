//! The parts common to the model servers and simulations of all protocols: random numbers, and the
//! log of what happened at a server.

mod log;
mod rng;

pub use log::{Effect, Entry, Log, Seen};
pub use rng::Rng;
