//! Redis, beside the two clients for tokio that pipeline by themselves: redis-rs and fred.

mod clients;
mod load;
mod server;

mod in_flight;
mod sequential;

pub use in_flight::{hundred, thousand};
pub use sequential::run as sequential;
