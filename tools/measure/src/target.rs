//! The server that is measured, and the ways to it.

use std::time::Duration;

use onetrip::Config;
use onetrip_lab::postgres::{Durability, Options, PrivatePostgres};
use onetrip_lab::proxy::{Link, Proxy, ProxyConfig};

use crate::error::{Error, Result};
use crate::server::Server;

/// The `application_name` of the connections that carry the load.
pub const APPLICATION: &str = "onetrip bench";

/// The server that is measured.
#[derive(Debug)]
pub struct Target {
    server: Server,
    url: String,
    private: Option<PrivatePostgres>,
}

impl Target {
    /// Starts a server for this run, with PostgreSQL's own settings: its commits are flushed to
    /// disk, as those of any server that people use. It ends with the target.
    ///
    /// # Errors
    /// No server can be started.
    pub fn start(connections: usize) -> Result<Target> {
        // PostgreSQL keeps three for superusers; one that watches is gone only after a moment.
        let connections_max = u16::try_from(connections + SPARE).map_err(|_| {
            Error::new(format!("{connections} connections are more than a server takes"))
        })?;
        let options =
            Options { durability: Durability::Full, connections_max, ..Options::default() };
        let private = PrivatePostgres::start(options).map_err(|it| Error::new(it.to_string()))?;
        let config = private.url().parse().map_err(|it| Error::new(format!("{it}")))?;
        Ok(Target { private: Some(private), ..Target::of(config)? })
    }

    /// The server of a URL, or of the environment where that leaves something open.
    ///
    /// # Errors
    /// The URL can't be read, or names several hosts. Nothing is connected yet.
    pub fn at(url: &str) -> Result<Target> {
        let config: Config = url.parse().map_err(|error| Error::new(format!("--url: {error}")))?;
        Target::of(config.or_env().map_err(|error| Error::new(error.to_string()))?)
    }

    fn of(config: Config) -> Result<Target> {
        let url = without_user(&config.redacted_url());
        Ok(Target { server: Server::of(config)?, url, private: None })
    }

    /// Where it is, without user information.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The server, if it was started for this run.
    pub fn private(&self) -> Option<&PrivatePostgres> {
        self.private.as_ref()
    }

    /// The way without added latency.
    pub fn direct(&self) -> &Config {
        &self.server.direct
    }

    /// A way with this round trip added; the latency proxy runs as long as the line lives.
    ///
    /// # Errors
    /// The proxy can't be started.
    pub fn line(&self, rtt: Duration) -> Result<Line> {
        if rtt.is_zero() {
            return Ok(Line { rtt, config: self.server.direct.clone(), proxy: None });
        }
        let (up, down) = Link::pair(rtt);
        let config = ProxyConfig { up, down, ..ProxyConfig::new(self.server.upstream.clone()) };
        let proxy = Proxy::start(config).map_err(|error| {
            Error::new(format!("can't start the latency proxy ({error}): try again"))
        })?;
        let config = self.server.behind(proxy.addr())?;
        Ok(Line { rtt, config, proxy: Some(proxy) })
    }
}

/// Connections beside those of the load: PostgreSQL's own reserve, those that watch, and some that
/// are gone only after a moment.
const SPARE: usize = 20;

/// One way to the server.
#[derive(Debug)]
pub struct Line {
    /// What is added to the round trip.
    pub rtt: Duration,
    /// Leads this way.
    pub config: Config,
    proxy: Option<Proxy>,
}

impl Line {
    /// The round trip that is added, in milliseconds.
    pub fn rtt_ms(&self) -> f64 {
        self.rtt.as_secs_f64() * 1e3
    }

    /// What adds it; None where nothing is added.
    pub(crate) fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    /// The proxy's own port would mean nothing to the user, who gave the server's URL.
    pub fn explained(&self, error: Error, target: &Target) -> Error {
        let Some(proxy) = &self.proxy else { return error };
        let through = format!("{} (through the latency proxy)", target.server.name);
        Error::new(error.to_string().replace(&proxy.addr().to_string(), &through))
    }
}

/// A URL without what stands before its `@`.
pub fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.find('/').unwrap_or(rest.len());
    let host = rest[..authority].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[host..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_user_information() {
        for (url, shown) in [
            ("postgres://alice:***@db:5432/shop", "postgres://db:5432/shop"),
            ("postgres://alice@db/shop@home", "postgres://db/shop@home"),
            ("postgres://db", "postgres://db"),
        ] {
            assert_eq!(without_user(url), shown);
        }
    }
}
