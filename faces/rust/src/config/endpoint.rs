//! Where to connect: a [`Config`](super::Config) with the defaults filled in.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use super::Settings;
use super::environment::socket_in;

/// How one server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP connection.
    Tcp {
        /// The name (or address) as given; a certificate has to be for it.
        host: String,
        /// The address, if `hostaddr` gave it; otherwise the name is looked up.
        address: Option<IpAddr>,
    },
    /// A Unix socket, by its directory.
    Unix(PathBuf),
}

/// One server to try. Its `Display` is for messages: `host:port`, or the path of the socket.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub(super) address: Address,
    pub(super) port: u16,
    pub(super) password: Option<String>,
}

impl Endpoint {
    /// How the server is reached.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The port; for a Unix socket, a part of the file's name.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The password to log in with: the one that was given, else the entry of the password file for
    /// this server.
    #[must_use]
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// The file of the Unix socket; `None` for TCP.
    #[must_use]
    pub fn socket(&self) -> Option<PathBuf> {
        match &self.address {
            Address::Unix(directory) => Some(socket_in(directory, self.port)),
            Address::Tcp { .. } => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Unix(directory) => socket_in(directory, self.port).display().fmt(f),
            Address::Tcp { host, .. } if host.contains(':') => {
                write!(f, "[{host}]:{}", self.port)
            }
            Address::Tcp { host, .. } => write!(f, "{host}:{}", self.port),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("address", &self.address)
            .field("port", &self.port)
            .field("password", &super::Hidden(self.password.is_some()))
            .finish()
    }
}

/// Everything that a connection needs: the servers in the order to try them, who logs in, and the
/// settings.
#[derive(Clone)]
pub struct Resolved {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) user: String,
    pub(super) dbname: String,
    pub(super) options: Option<String>,
    pub(super) settings: Settings,
    pub(super) notes: Vec<String>,
}

impl Resolved {
    /// The servers, at least one, in the order to try them.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// The user who logs in.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The database; the user's name if none was given.
    #[must_use]
    pub fn dbname(&self) -> &str {
        &self.dbname
    }

    /// Options for the server process, such as `-c work_mem=64MB`.
    #[must_use]
    pub fn options(&self) -> Option<&str> {
        self.options.as_deref()
    }

    /// All other settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What was ignored and deserves a warning, one line each: a password file that others can
    /// read.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl fmt::Debug for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolved")
            .field("endpoints", &self.endpoints)
            .field("user", &self.user)
            .field("dbname", &self.dbname)
            .field("options", &super::Hidden(self.options.is_some()))
            .field("settings", &self.settings)
            .field("notes", &self.notes)
            .finish()
    }
}
