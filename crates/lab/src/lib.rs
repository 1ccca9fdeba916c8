//! See ARCHITECTURE.md.
pub mod model;
pub mod postgres;
mod private;
pub mod proxy;
pub mod redis;
pub mod sim;
