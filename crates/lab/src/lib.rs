//! See ARCHITECTURE.md.
pub mod model;
pub mod postgres;
pub mod proxy;
pub mod sim;
