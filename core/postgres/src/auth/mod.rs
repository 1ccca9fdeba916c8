//! How a client authenticates. Pure computation: nonces and limits are arguments.
//!
//! A clear-text password needs no computation: [`crate::message::PasswordMessage`] carries it.
//! [`crate::startup`] decides which methods are acceptable on which connection.

mod hmac;
pub mod md5;
mod password;
pub mod scram;
pub mod scram_server;

pub use password::Password;
pub use scram::{ChannelBinding, ScramClient, ScramError, ScramProof};
pub use scram_server::{ScramServer, Verifier};
