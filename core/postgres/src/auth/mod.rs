//! How a client proves who it is. Pure computation: nonces and limits are arguments.
//!
//! A clear-text password needs no computation: [`crate::message::PasswordMessage`] is all of it.
//! Which methods are acceptable on which connection is decided in [`crate::startup`].

pub mod md5;
mod password;
pub mod scram;
pub mod scram_server;

pub use password::Password;
pub use scram::{ChannelBinding, ScramClient, ScramError, ScramProof};
pub use scram_server::ScramServer;
