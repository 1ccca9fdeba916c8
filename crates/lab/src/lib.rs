//! See ARCHITECTURE.md.
pub mod postgres;
pub mod proxy;
