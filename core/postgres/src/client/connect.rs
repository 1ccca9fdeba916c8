//! Connecting: which hosts and addresses are tried, in which order, with or without TLS, for how
//! long each, and which server is accepted. The rules are libpq's ("Database Connection Control
//! Functions"), with one exception: after any server error that is about the server, and not about
//! the user's login, the next host is tried.
//!
//! * [`keywords`]: the settings of a connection string.
//! * [`plan`]: the next step, as data. The host has the sockets, TLS, the clock, and the errors.
//! * [`mode`]: the values of settings.
//! * [`passfile`] and [`service`]: the files that libpq reads, as text.
//! * [`rules`]: settings that contradict each other.
//! * [`refusal`]: why a connection is refused on this side, and in which words.

pub mod keywords;
pub mod mode;
pub mod passfile;
pub mod plan;
pub mod refusal;
pub mod rules;
pub mod service;

pub use mode::{LoadBalanceHosts, SslMode, SslNegotiation, TargetSessionAttrs};
pub use plan::{Action, Fault, Host, Plan, Settings, Verdict};
pub use refusal::Refusal;

use crate::message::ssl_request::Answer;

/// Whether a login that failed with this code would fail with every server of a list: class 28 is
/// about the user's login, and 3D000 is a database that doesn't exist.
pub fn is_final(sqlstate: &str) -> bool {
    is_about_access(sqlstate) || sqlstate == "3D000"
}

/// Class 28: invalid authorization. The server's rules (pg_hba.conf) may differ with TLS and
/// without.
fn is_about_access(sqlstate: &str) -> bool {
    sqlstate.starts_with("28")
}

/// Whether TLS begins, by the server's answer to the question for it.
///
/// `early`: more bytes than the answer have come. The server must wait for the handshake, or for
/// the login, at this point, so those bytes may have been injected (CVE-2021-23222).
///
/// # Errors
/// The connection can't be used.
pub fn begins_tls(answer: Option<Answer>, early: bool, is_required: bool) -> Result<bool, Refusal> {
    match answer {
        Some(Answer::Accepted) if early => Err(Refusal::EarlyBytes),
        Some(Answer::Accepted) => Ok(true),
        Some(Answer::Refused) if is_required => Err(Refusal::NoTls),
        Some(Answer::Refused) if early => Err(Refusal::EarlyBytes),
        Some(Answer::Refused) => Ok(false),
        Some(Answer::Error) => Err(Refusal::ErrorForTls),
        None => Err(Refusal::NotPostgres),
    }
}

/// What a server's parameters say about it, since PostgreSQL 14.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// `in_hot_standby`.
    pub is_standby: Option<bool>,
    /// `default_transaction_read_only`.
    pub is_read_only: Option<bool>,
    /// Whether the server can be asked which it is
    /// ([`is_asked`](super::identity::is_asked)).
    pub can_be_asked: bool,
}

impl Session {
    /// Takes this parameter if it says something about the server.
    pub fn note(&mut self, name: &str, value: &str) {
        match name {
            "in_hot_standby" => self.is_standby = Some(value == "on"),
            "default_transaction_read_only" => self.is_read_only = Some(value == "on"),
            "server_version" => self.can_be_asked = super::identity::is_asked(value),
            _ => {}
        }
    }

    /// Whether it matches the setting; `None` if the server is too old to say.
    pub(in crate::client) fn fits(self, wanted: TargetSessionAttrs) -> Option<bool> {
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
