//! The configuration of a startup.

use crate::auth::{Password, scram};

use super::StartupError;

/// A version of the protocol. 3.1 does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtocolVersion {
    /// 3.0: every server since PostgreSQL 7.4, and every pooler.
    #[default]
    V3_0,
    /// 3.2: cancel keys of more than 4 bytes; since PostgreSQL 18.
    V3_2,
}

impl ProtocolVersion {
    /// The number on the wire.
    pub fn number(self) -> u32 {
        match self {
            ProtocolVersion::V3_0 => 3 << 16,
            ProtocolVersion::V3_2 => 3 << 16 | 2,
        }
    }

    /// The version that a NegotiateProtocolVersion names. PostgreSQL sends major and minor version;
    /// others follow the letter of the specification and send the minor version only.
    pub(super) fn from_offer(number: u32) -> Option<Self> {
        match (number >> 16, number & 0xffff) {
            (0 | 3, 0) => Some(ProtocolVersion::V3_0),
            (0 | 3, 2) => Some(ProtocolVersion::V3_2),
            _ => None,
        }
    }
}

/// Methods of authentication, each allowed or not (libpq's `require_auth`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthMethods {
    /// No request by the server: trust, peer, a client certificate.
    pub none: bool,
    /// The password in clear text.
    pub password: bool,
    /// The password hashed with MD5.
    pub md5: bool,
    /// SCRAM-SHA-256, with channel binding or without.
    pub scram: bool,
}

impl Default for AuthMethods {
    /// Allows all of them.
    fn default() -> Self {
        AuthMethods { none: true, password: true, md5: true, scram: true }
    }
}

/// The user, the database, and what is allowed during startup. [`StartupConfig::new`] has the
/// defaults.
#[derive(Clone, Debug)]
pub struct StartupConfig {
    /// The role.
    pub user: String,
    /// The database. Default: none; the server then takes the one with the user's name.
    pub database: Option<String>,
    /// The password. Default: none.
    pub password: Option<Password>,
    /// More parameters of the startup packet: `application_name`, `options`, settings, `_pq_.`
    /// protocol options. `client_encoding` is always sent as UTF8 and may not be anything else.
    /// Default: none.
    pub parameters: Vec<(String, String)>,
    /// The version to ask for; the server may answer with a lower one. Default: 3.0.
    pub protocol: ProtocolVersion,
    /// Whether nobody else can read what is sent: TLS with a verified server certificate, or a Unix
    /// socket. Default: false.
    pub secure_channel: bool,
    /// Whether a password may be sent in clear text or as MD5 on a channel that is not secure.
    /// Default: false.
    pub allow_cleartext: bool,
    /// The methods of authentication that the server may ask for. Default: all.
    pub methods: AuthMethods,
    /// The hash of the server's certificate (`tls-server-end-point`), with TLS. Default: none; the
    /// server is then told that this side does not support channel binding.
    pub channel_binding: Option<Vec<u8>>,
    /// Whether every method but SCRAM-SHA-256-PLUS is refused. Default: false.
    pub channel_binding_required: bool,
    /// How many SCRAM iterations the server may demand. Default: [`scram::ITERATIONS_MAX`],
    /// 100,000.
    pub scram_iterations_max: u32,
}

impl StartupConfig {
    /// The defaults, for this user.
    pub fn new(user: impl Into<String>) -> Self {
        StartupConfig {
            user: user.into(),
            database: None,
            password: None,
            parameters: Vec::new(),
            protocol: ProtocolVersion::default(),
            secure_channel: false,
            allow_cleartext: false,
            methods: AuthMethods::default(),
            channel_binding: None,
            channel_binding_required: false,
            scram_iterations_max: scram::ITERATIONS_MAX,
        }
    }

    /// The parameters of the startup packet.
    pub(super) fn wire_parameters(&self) -> Result<Vec<(&str, &str)>, StartupError> {
        let mut parameters = vec![("user", self.user.as_str()), ("client_encoding", "UTF8")];
        parameters.extend(self.database.as_deref().map(|database| ("database", database)));
        for (name, value) in &self.parameters {
            if !name.eq_ignore_ascii_case("client_encoding") {
                parameters.push((name, value));
            } else if !is_utf8(value) {
                return Err(StartupError::ClientEncoding);
            }
        }
        Ok(parameters)
    }
}

/// Whether this names UTF-8, in any spelling that the server accepts (pg_char_to_encoding in
/// src/common/encnames.c ignores case and all characters except letters and digits).
pub(crate) fn is_utf8(encoding: &str) -> bool {
    let plain = encoding.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    plain.eq_ignore_ascii_case("utf8") || plain.eq_ignore_ascii_case("unicode")
}
