//! TLS: from the settings to an encrypted connection (RFC 8446, RFC 5246).
//!
//! - `files`: makes rustls' configuration from the settings and their files.
//! - `verify`: how much of the server's certificate is checked.
//! - `certificate`: what is read from the certificate itself.
//! - `handshake`: how TLS begins on a socket.
//! - `session`: TLS between the engine and the socket, after the handshake.
//! - `explain`: what rustls' errors mean to whoever configured the connection.
//!
//! rustls does the cryptography, the protocol and the rules for certificates.
//! `onetrip_postgres::client::connect` decides when TLS is tried, and whether to go on without it.

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

use std::io;
use std::net::IpAddr;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::Error;
use crate::config::{Settings, SslNegotiation};

pub(crate) use explain::explain_io;
pub(crate) use handshake::{TlsFailure, ask, begin};
pub(crate) use session::Session;
use verify::Verification;

/// How TLS is set up with one host. The files are read for each connection, after the server has
/// agreed to TLS: they may change, and their contents may be large.
///
/// It is public for `onetrip profile`, which sets up TLS on behalf of other clients.
#[derive(Debug)]
pub struct Setup {
    settings: Settings,
    /// The host as it was given.
    host: String,
    peer: IpAddr,
    /// Whether TLS begins with the first byte, without PostgreSQL's question and without its ALPN
    /// name.
    at_once: bool,
}

impl Setup {
    /// For a host by its name (or address), at an address.
    #[must_use]
    pub fn new(settings: &Settings, host: &str, peer: IpAddr) -> Setup {
        Setup { settings: settings.clone(), host: host.to_owned(), peer, at_once: false }
    }

    /// For a server that is not PostgreSQL, whose port decides whether it has TLS.
    #[must_use]
    pub fn at_once(self) -> Setup {
        Setup { at_once: true, ..self }
    }

    /// Whether the server is asked for TLS before the handshake.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        !self.at_once && self.settings.sslnegotiation != SslNegotiation::Direct
    }

    /// Whether the server is verified once TLS is set up.
    pub(crate) fn verifies(&self) -> bool {
        Verification::of(&self.settings) > Verification::None
    }

    /// rustls' configuration, and the name that the certificate has to be for.
    ///
    /// # Errors
    /// A file of the settings can't be used, or the host is no name that could be verified.
    pub async fn client(&self) -> Result<(ClientConfig, ServerName<'static>), Error> {
        let (name, settings) = (self.name()?, self.settings.clone());
        let loaded = tokio::task::spawn_blocking(move || files::load(&settings)).await;
        let stopped = |_| Error::misuse("config", "the runtime was shut down while TLS was set up");
        let mut config = loaded.map_err(stopped)??;
        if self.at_once {
            config.alpn_protocols.clear();
        }
        Ok((config, name))
    }

    /// What an error of the handshake means, if it is one of TLS.
    #[must_use]
    pub fn explain(&self, error: &io::Error) -> Option<String> {
        explain::explain(error, &self.settings)
    }

    async fn session(&self) -> Result<Session, Error> {
        let (config, name) = self.client().await?;
        Session::new(config, name)
            .map_err(|error| Error::misuse("config", format!("TLS can't be set up: {error}")))
    }

    /// The name that the certificate has to be for, and that is sent to the server. A host that is
    /// no valid name is an error only if the name is verified.
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
