//! How a client comes to a server: which hosts and addresses are tried in which order, with TLS and
//! without it, for how long each, and which server will do. By libpq's rules ("Database Connection
//! Control Functions"), but that any error of a server's which is about that server, and not about
//! who logs in, sends us on to the next host.
//!
//! * [`keywords`]: the settings that a connection string can have.
//! * [`plan`]: what to do next, as data. The host has the sockets, TLS, the clock, and the errors.
//! * [`mode`]: what settings say of it.
//! * [`refusal`]: what is refused here, and in which words.

pub mod keywords;
pub mod mode;
pub mod plan;
pub mod refusal;

pub use mode::{LoadBalanceHosts, SslMode, SslNegotiation, TargetSessionAttrs};
pub use plan::{Action, Fault, Host, Plan, Settings, Verdict};
pub use refusal::Refusal;

use crate::message::ssl_request::Answer;

/// Whether a login that failed with this code would fail with every server of a list: 28 is about
/// who logs in, and 3D000 is a database that doesn't exist.
pub fn is_final(sqlstate: &str) -> bool {
    is_about_access(sqlstate) || sqlstate == "3D000"
}

/// Class 28: invalid authorization. The server's rules about it (pg_hba.conf) may be others with
/// TLS than without.
fn is_about_access(sqlstate: &str) -> bool {
    sqlstate.starts_with("28")
}

/// Whether TLS begins, by the server's answer to the question for it.
///
/// `early`: more than the answer has come. The server waits for the handshake then, so those bytes
/// are a stranger's (CVE-2021-23222).
///
/// # Errors
/// The connection is of no use.
pub fn begins_tls(answer: Option<Answer>, early: bool, is_required: bool) -> Result<bool, Refusal> {
    match answer {
        Some(Answer::Accepted) if early => Err(Refusal::EarlyBytes),
        Some(Answer::Accepted) => Ok(true),
        Some(Answer::Refused) if is_required => Err(Refusal::NoTls),
        Some(Answer::Refused) => Ok(false),
        Some(Answer::Error) => Err(Refusal::ErrorForTls),
        None => Err(Refusal::NotPostgres),
    }
}

/// What a server says of itself with its parameters, from PostgreSQL 14 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// `in_hot_standby`.
    pub is_standby: Option<bool>,
    /// `default_transaction_read_only`.
    pub is_read_only: Option<bool>,
}

impl Session {
    /// Takes what this parameter says, if it is one of the two.
    pub fn note(&mut self, name: &str, value: &str) {
        match name {
            "in_hot_standby" => self.is_standby = Some(value == "on"),
            "default_transaction_read_only" => self.is_read_only = Some(value == "on"),
            _ => {}
        }
    }

    /// Whether it is what the setting asks for; `None` where the server is too old to say.
    fn fits(self, wanted: TargetSessionAttrs) -> Option<bool> {
        let is_read_only = || Some(self.is_standby? | self.is_read_only?);
        match wanted {
            TargetSessionAttrs::Any | TargetSessionAttrs::PreferStandby => Some(true),
            TargetSessionAttrs::Primary => self.is_standby.map(|is_standby| !is_standby),
            TargetSessionAttrs::Standby => self.is_standby,
            TargetSessionAttrs::ReadOnly => is_read_only(),
            TargetSessionAttrs::ReadWrite => is_read_only().map(|is_read_only| !is_read_only),
        }
    }
}
