//! TLS: from the settings to a connection that is encrypted (RFC 8446, RFC 5246).
//!
//! * `files`: what the settings and the files that they name come to.
//! * `verify`: how much of the server's certificate is checked.
//! * `certificate`: what is read from the certificate itself.
//! * `handshake`: how TLS begins on a socket.
//! * `session`: how it goes on, between the engine and the socket.
//! * `explain`: what rustls' errors mean to whoever set the connection up.
//!
//! Cryptography, the protocol and the rules about certificates are rustls'. When TLS is tried, and
//! what is done without it, is decided in `onetrip_postgres::client::connect`.

mod certificate;
mod explain;
mod files;
mod handshake;
mod session;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod tests;
mod verify;

use std::net::IpAddr;

use rustls::pki_types::ServerName;

use crate::Error;
use crate::config::{Settings, SslNegotiation};

pub(crate) use explain::explain_io;
pub(crate) use handshake::{TlsFailure, ask, begin};
pub(crate) use session::Session;
use verify::Verification;

/// How TLS is spoken with one host. The files are read for each connection, when the server has
/// agreed to TLS: they may change, and what they come to may be large.
#[derive(Debug)]
pub(crate) struct Setup {
    settings: Settings,
    /// The host as it was given.
    host: String,
    peer: IpAddr,
    /// Whether TLS begins with the first byte, and nothing of PostgreSQL's is said in it.
    at_once: bool,
}

impl Setup {
    /// For a host by its name (or number), at an address.
    pub(crate) fn new(settings: &Settings, host: &str, peer: IpAddr) -> Setup {
        Setup { settings: settings.clone(), host: host.to_owned(), peer, at_once: false }
    }

    /// The same for a server that is not PostgreSQL, and has TLS or not by its port.
    pub(crate) fn at_once(self) -> Setup {
        Setup { at_once: true, ..self }
    }

    /// Whether the server is asked for TLS before it begins.
    pub(crate) fn is_asked_for(&self) -> bool {
        !self.at_once && self.settings.sslnegotiation != SslNegotiation::Direct
    }

    /// Whether the server has proved that it is one to be trusted, once TLS stands.
    pub(crate) fn verifies(&self) -> bool {
        Verification::of(&self.settings) > Verification::None
    }

    async fn session(&self) -> Result<Session, Error> {
        let (name, settings) = (self.name()?, self.settings.clone());
        let loaded = tokio::task::spawn_blocking(move || files::load(&settings)).await;
        let stopped = |_| Error::misuse("config", "the runtime was shut down while TLS was set up");
        let mut config = loaded.map_err(stopped)??;
        if self.at_once {
            config.alpn_protocols.clear();
        }
        Session::new(config, name)
            .map_err(|error| Error::misuse("config", format!("TLS can't be set up: {error}")))
    }

    /// The name that the certificate has to be for, and that the server is told. What is no name
    /// counts only where it is verified.
    fn name(&self) -> Result<ServerName<'static>, Error> {
        match ServerName::try_from(self.host.clone()) {
            Ok(name) => Ok(name),
            Err(_) if Verification::of(&self.settings) < Verification::Name => {
                Ok(ServerName::IpAddress(self.peer.into()))
            }
            Err(_) => Err(Error::misuse(
                "tls_failed",
                "sslmode=verify-full needs a host that a certificate can be for: a DNS name or an \
                 address",
            )),
        }
    }
}
