//! How a model server behaves.

use onetrip_postgres::auth::Password;

use super::{Rng, Schema};

/// How a model server behaves, apart from what the statements ask for.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// How a client has to authenticate. Default: not at all.
    pub auth: Auth,
    /// Messages between the messages of replies. Default: none.
    pub noise: Option<Noise>,
    /// The tables that its sessions share. Default: none.
    pub schema: Option<Schema>,
}

/// How a client has to authenticate.
#[derive(Clone, Debug, Default)]
pub enum Auth {
    /// Not at all.
    #[default]
    Trust,
    /// SCRAM-SHA-256 with this password, 4,096 iterations, and a salt and a nonce that never
    /// change.
    Scram(Password),
}

/// Notices, notifications and changed parameters between any two messages of replies.
#[derive(Clone, Debug)]
pub struct Noise {
    /// Decides when one comes, and which.
    pub rng: Rng,
    /// On average, one in this many messages gets one in front of it.
    pub one_in: u64,
}
