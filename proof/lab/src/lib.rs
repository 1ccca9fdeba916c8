//! Private servers, model servers and simulations. docs/architecture/proof.md says what each is
//! for.
pub mod browser;
pub mod model;
pub mod postgres;
mod private;
pub mod proxy;
pub mod redis;
mod seeded;
pub mod sim;
