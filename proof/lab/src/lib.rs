//! See ARCHITECTURE.md.
pub mod model;
pub mod postgres;
mod private;
pub mod proxy;
pub mod redis;
mod seeded;
pub mod sim;
