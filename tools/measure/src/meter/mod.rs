//! Meters on client and server around a repetition: CPU, waits, the round trip, settings, and how
//! many connections the server allows.
//!
//! Nothing here is a guess: a value that can't be read is `None` or empty. Reading has a cost
//! itself, so the order around a repetition is: [`Sampler::start`], [`ServerCpu::start`],
//! [`ClientCpu::start`]; the load; and then [`ClientCpu::elapsed`], [`ServerCpu::elapsed`],
//! [`Waits::finish`].

mod aside;
mod backend;
mod client_cpu;
mod proc;
mod room;
mod rtt;
mod server_cpu;
mod settings;
mod waits;

pub use aside::set_aside;
pub use client_cpu::ClientCpu;
pub use room::{Limit, Room, connections_left};
pub use rtt::rtt;
pub use server_cpu::{Server, ServerCpu};
pub use settings::{settings, version};
pub use waits::{SAMPLER, Sampler, Seen, Waits};
