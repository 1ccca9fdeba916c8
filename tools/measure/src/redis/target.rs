//! The measured server, and the lines to it.

use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::Duration;

use onetrip::redis::{Address, Config};
use onetrip_lab::proxy::{Link, Proxy, ProxyConfig, Upstream};
use onetrip_lab::redis::{Server, Settings};

use super::keys::Keys;
use crate::error::{Error, Result};
use crate::server::answering;
use crate::target::without_user;

/// The name of the load's connections in `CLIENT LIST`. Such names can't contain spaces.
const CLIENT_NAME: &str = "onetrip-bench";

/// The server that is measured.
#[derive(Debug)]
pub struct Target {
    direct: Config,
    upstream: Upstream,
    url: String,
    private: Option<Server>,
    pub(crate) keys: Arc<Keys>,
}

impl Target {
    /// Starts a server for this run, which keeps nothing on disk. It ends with the target.
    ///
    /// # Errors
    /// No server can be started.
    pub fn start() -> Result<Target> {
        let private =
            Server::start(Settings::default()).map_err(|it| Error::new(it.to_string()))?;
        let target = Target::at(&private.url())?;
        Ok(Target { private: Some(private), ..target })
    }

    /// The server of a URL.
    ///
    /// # Errors
    /// The URL can't be read, or names a cluster or several servers. Nothing is connected yet.
    pub fn at(url: &str) -> Result<Target> {
        let wrong = |what: String| Error::new(format!("--url: {what}"));
        let direct: Config = url.parse().map_err(|it| wrong(format!("{it}")))?;
        let direct = direct.client_name(CLIENT_NAME);
        let [address] = &direct.addresses()[..] else {
            return Err(wrong("it names several servers: name the one to measure".to_owned()));
        };
        let (upstream, direct) = match address {
            Address::Unix(path) => (Upstream::Unix(path.clone()), direct.clone()),
            Address::Tcp { host, port } => {
                let address = look_up(host, *port)?;
                (Upstream::Tcp(address), direct.clone().through(address))
            }
        };
        Ok(Target {
            url: place(&direct),
            direct,
            upstream,
            private: None,
            keys: Arc::new(Keys::new()),
        })
    }

    /// Its URL without user information.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The server, if it was started for this run.
    pub fn private(&self) -> Option<&Server> {
        self.private.as_ref()
    }

    /// A text about what an immediate exit may leave on the server.
    pub fn left(&self) -> String {
        self.keys.left()
    }

    /// The line without added latency.
    pub(crate) fn direct(&self) -> &Config {
        &self.direct
    }

    /// A line with this round trip added; its latency proxy runs as long as the line lives.
    ///
    /// # Errors
    /// The proxy can't be started.
    pub fn line(&self, rtt: Duration) -> Result<Line> {
        if rtt.is_zero() {
            return Ok(Line { rtt, config: self.direct.clone(), _proxy: None });
        }
        let (up, down) = Link::pair(rtt);
        let config = ProxyConfig { up, down, ..ProxyConfig::new(self.upstream.clone()) };
        let proxy = Proxy::start(config).map_err(|error| {
            Error::new(format!("can't start the latency proxy ({error}): try again"))
        })?;
        let config = self.direct.clone().through(proxy.addr());
        Ok(Line { rtt, config, _proxy: Some(proxy) })
    }
}

/// One line to the server.
#[derive(Debug)]
pub struct Line {
    /// What is added to the round trip.
    pub rtt: Duration,
    /// The configuration for a client on this line.
    pub config: Config,
    _proxy: Option<Proxy>,
}

/// The one address that is used for everything.
fn look_up(host: &str, port: u16) -> Result<std::net::SocketAddr> {
    let found = (host, port).to_socket_addrs().map_err(|error| {
        Error::new(format!("the host {host} can't be found ({error}): check its spelling"))
    })?;
    let found: Vec<_> = found.collect();
    answering(&found).ok_or_else(|| Error::new(format!("the host {host} has no address")))
}

/// The URL of a configuration without its user.
pub(crate) fn place(config: &Config) -> String {
    match &config.addresses()[..] {
        [Address::Unix(path)] => format!("unix:{}", path.display()),
        _ => without_user(&config.redacted_url()),
    }
}

/// A URL of Redis or Valkey without user information; None if it is none.
pub fn shown(url: &str) -> Option<String> {
    Some(place(&url.parse().ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_user_information() {
        for (url, place) in [
            ("redis://alice:secret@db:7/2", Some("redis://db:7/2")),
            ("unix:alice:secret@/run/r.sock", Some("unix:/run/r.sock")),
            ("rediss://:secret@db", Some("rediss://db:6379")),
            ("postgres://u:p@h/d", None),
        ] {
            assert_eq!(shown(url).as_deref(), place);
        }
    }

    #[test]
    fn several_servers_are_refused() {
        let error = Target::at("redis://:secret@one,two").unwrap_err().to_string();
        assert!(error.contains("several servers") && !error.contains("secret"), "{error}");
    }
}
