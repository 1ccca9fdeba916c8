//! Redis, beside the two clients for tokio that pipeline by themselves: redis-rs and fred.

pub mod clients;
pub mod load;
mod server;

pub mod cached;
mod depth;
mod in_flight;
mod large_values;
mod round_trips;
mod sequential;
pub mod stream;

pub use depth::run as depth;
pub use in_flight::{hundred, thousand};
pub use large_values::run as large_values;
pub use round_trips::run as closed_loop;
pub use sequential::run as sequential;
pub use server::{named, through, with_server};
