//! How a model server behaves.

use onetrip_postgres::auth::Password;

use super::Rng;

/// How a model server behaves, beside what the statements ask for.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// How a client has to prove who it is. Default: not at all.
    pub auth: Auth,
    /// Messages between the messages of replies. Default: none.
    pub noise: Option<Noise>,
}

/// How a client has to prove who it is.
#[derive(Clone, Debug, Default)]
pub enum Auth {
    /// Not at all.
    #[default]
    Trust,
    /// SCRAM-SHA-256 with this password, 4,096 iterations, and a salt and a nonce that never change.
    Scram(Password),
}

/// Notices, notifications and changed parameters between any two messages of replies.
#[derive(Clone, Debug)]
pub struct Noise {
    /// When, and which.
    pub rng: Rng,
    /// One in how many messages gets one in front.
    pub one_in: u64,
}
