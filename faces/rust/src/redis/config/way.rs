//! The addresses of the servers in a configuration, and another address for one of them.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Config, Server};
use crate::config::Settings;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A port of a host.
    Tcp {
        /// The host's name, or its address without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// The file of a Unix socket.
    Unix(PathBuf),
}

impl Config {
    /// The servers to try, in order: those that were added, or the one on this machine.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        let address = |server| match server {
            Server::Tcp { host, port } => Address::Tcp { host, port },
            Server::Unix(path) => Address::Unix(path),
        };
        self.servers().into_iter().map(address).collect()
    }

    /// The settings of TLS, for `onetrip profile`.
    #[doc(hidden)]
    #[must_use]
    pub fn tls_settings(&self) -> &Settings {
        &self.transport
    }

    /// Connects to this address instead of the server's own: to a tunnel or a proxy that leads to
    /// the server. The certificate still has to be for the server's name, and messages still use
    /// that name. Default: none. It has no effect in a cluster, since each node has an address of
    /// its own.
    #[must_use]
    pub fn through(mut self, address: SocketAddr) -> Config {
        self.through = Some(address);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_were_given_and_otherwise_this_machine() {
        let of = |url: &str| url.parse::<Config>().map(|it| it.addresses());
        let tcp = |host: &str, port| Address::Tcp { host: host.to_owned(), port };
        assert_eq!(of("redis://[::1]:7,db"), Ok(vec![tcp("::1", 7), tcp("db", 6379)]));
        assert_eq!(of("unix:/run/r.sock"), Ok(vec![Address::Unix("/run/r.sock".into())]));
        assert_eq!(Config::new().addresses(), [tcp("127.0.0.1", 6379)]);
    }
}
