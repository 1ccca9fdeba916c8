//! The settings of a client of Redis: a URL of one server or several.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_redis::client::settings::broken;

use crate::config::{Wrong, decoded, host_and_port, put};
use crate::tls::Tls;
use crate::wire::Place;

/// A server.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Target::Tcp(host, port) => write!(f, "{host}:{port}"),
            Target::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Target {
    pub(crate) fn host(&self) -> &str {
        match self {
            Target::Tcp(host, _) => host,
            Target::Unix(_) => "localhost",
        }
    }

    pub(crate) fn place(&self) -> io::Result<Place> {
        match self {
            Target::Unix(path) => Ok(Place::Unix(path.clone())),
            Target::Tcp(host, port) => {
                let found = (&**host, *port).to_socket_addrs()?.next();
                found.map(Place::Ip).ok_or_else(|| io::ErrorKind::NotFound.into())
            }
        }
    }
}

/// Numbers with their defaults, of the connection and of the pool. Times are in milliseconds.
const OF_ENGINE: &[(&str, &str)] = &[
    ("protocol", "3"),
    ("reply_bytes_max", "537919488"),
    ("in_flight_max", "10000"),
    ("queue_max", "100000"),
    ("in_flight_bytes_max", "16777216"),
    ("queue_bytes_max", "16777216"),
    ("stall_timeout_ms", "30000"),
];
const OF_POOL: &[(&str, &str)] = &[("wait_timeout_ms", "5000")];
const CONNECT: &str = "connect_timeout_ms";
const OF_TLS: &[&str] = &["sslmode", "sslrootcert", "sslcert", "sslkey"];
const TEXTS: &[&str] = &["user", "password", "client_name", "db"];

/// What a client was told.
#[derive(Clone, Default)]
pub(crate) struct RedisConfig {
    texts: Vec<(String, String)>,
    targets: Vec<Target>,
    pub(crate) tls: Option<Tls>,
    /// Attempts that came to nothing since the last that went well, and which server is next.
    failed: Cell<usize>,
    next: Cell<usize>,
}

/// Passwords are not shown.
impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig").field("targets", &self.targets).finish_non_exhaustive()
    }
}

impl RedisConfig {
    pub(crate) fn read(url: &str) -> Result<RedisConfig, Wrong> {
        let mut config = RedisConfig::default();
        let (scheme, rest) = url.split_once(':').unwrap_or_default();
        let is_tls = matches!(scheme, "rediss" | "valkeys");
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if scheme == "unix" {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            let (login, path) = path.split_once('@').unwrap_or(("", path));
            config.log_in(login)?;
            config.targets.push(Target::Unix(decoded(path)?.into()));
        } else if is_tls || matches!(scheme, "redis" | "valkey") {
            let rest = rest.strip_prefix("//").ok_or("a URL begins with redis://")?;
            let (login, place) = rest.rsplit_once('@').unwrap_or(("", rest));
            config.log_in(login)?;
            let (hosts, db) = place.split_once('/').unwrap_or((place, ""));
            for host in hosts.split(',') {
                let (name, port) = host_and_port(host)?;
                let port = if port.is_empty() { "6379" } else { port };
                let port = port.parse().ok().filter(|it| *it > 0);
                let name = if name.is_empty() { "127.0.0.1" } else { name };
                let port = port.ok_or("a port is a number from 1 to 65535")?;
                config.targets.push(Target::Tcp(decoded(name)?, port));
            }
            config.set("db", &decoded(db)?)?;
        } else {
            return Err("a URL begins with redis://, rediss:// or unix:".into());
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or("a parameter behind '?' has no '='")?;
            config.set(&decoded(name)?, &decoded(value)?)?;
        }
        config.set_tls(is_tls)?;
        Ok(config)
    }

    fn log_in(&mut self, login: &str) -> Result<(), Wrong> {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        self.set("user", &decoded(user)?)?;
        self.set("password", &decoded(password)?)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        let is_number = OF_ENGINE.iter().chain(OF_POOL).any(|it| it.0 == name) || name == CONNECT;
        if !is_number && !TEXTS.contains(&name) && !OF_TLS.contains(&name) {
            return Err(format!("{name} is not a setting"));
        }
        if (is_number || name == "db") && !value.is_empty() && value.parse::<u32>().is_err() {
            return Err(format!("{name} takes a whole number"));
        }
        if value.contains('\0') {
            return Err(format!("{name} has a zero byte in it"));
        }
        if !value.is_empty() {
            self.texts.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().rev().find(|it| it.0 == name).map(|it| &*it.1)
    }

    fn set_tls(&mut self, is_tls: bool) -> Result<(), Wrong> {
        let mode = self.text("sslmode").unwrap_or(if is_tls { "verify-full" } else { "disable" });
        let is_rediss = is_tls && self.text("sslmode").is_none();
        let said = |name: &str| match name {
            "sslmode" => Some(mode),
            "rediss" => is_rediss.then_some("1"),
            _ => self.text(name),
        };
        if let Some(why) = broken(said) {
            return Err(why.into());
        }
        if !["disable", "require", "verify-ca", "verify-full"].contains(&mode) {
            return Err("sslmode is one of disable, require, verify-ca, verify-full".into());
        }
        let file = |name| self.text(name).map(PathBuf::from);
        let root = self.text("sslrootcert");
        self.tls = (mode != "disable").then(|| Tls {
            verifies: mode != "require" || root.is_some(),
            checks_name: mode == "verify-full",
            uses_system: root.is_none_or(|root| root == "system"),
            root: file("sslrootcert"),
            certificate: file("sslcert"),
            key: file("sslkey"),
            sends_name: true,
            ..Tls::default()
        });
        Ok(())
    }

    pub(crate) fn of_pool(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in [
            ("connections_max", "1"),
            ("idle_timeout_ms", "0"),
            ("lifetime_ms", "0"),
            ("waiting_max", "1000000"),
            ("backoff_min_ms", "50"),
            ("backoff_max_ms", "5000"),
            ("connects", "1"),
        ] {
            put(&mut out, name, value);
        }
        self.put_said(OF_POOL, &mut out);
        out
    }

    /// What the engine is told of a connection.
    pub(crate) fn of_engine(&self, is_subscriber: bool) -> Vec<u8> {
        let mut out = Vec::new();
        self.put_said(OF_ENGINE, &mut out);
        put(&mut out, "subscriber", if is_subscriber { "1" } else { "0" });
        put(&mut out, "database", self.text("db").unwrap_or("0"));
        for name in ["user", "password", "client_name"] {
            if let Some(value) = self.text(name) {
                put(&mut out, name, value);
            }
        }
        out
    }

    fn put_said(&self, of: &[(&str, &str)], out: &mut Vec<u8>) {
        of.iter().for_each(|(name, default)| put(out, name, self.text(name).unwrap_or(default)));
    }

    /// The server of the next attempt.
    pub(crate) fn target(&self) -> Target {
        self.targets[self.next.get() % self.targets.len()].clone()
    }

    pub(crate) fn until(&self, now: Time) -> Time {
        match self.text(CONNECT).unwrap_or("10000").parse() {
            Ok(0) | Err(_) => Time::NEVER,
            Ok(ms) => now.after(Duration::from_millis(ms)),
        }
    }

    pub(crate) fn went_well(&self) {
        self.failed.set(0);
    }

    /// An attempt came to nothing. Whether others of the list may be there.
    pub(crate) fn goes_elsewhere(&self) -> bool {
        self.next.set(self.next.get() + 1);
        self.failed.set(self.failed.get() + 1);
        self.failed.get() < self.targets.len()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_url_names_servers_and_settings() {
        let config = RedisConfig::read("redis://me:s%3Aecret@a,[::1]:7/3?wait_timeout_ms=9");
        let config = config.unwrap();
        let shown: Vec<_> = config.targets.iter().map(Target::to_string).collect();
        assert_eq!(shown, ["a:6379", "[::1]:7"]);
        assert_eq!((config.text("password"), config.text("db")), (Some("s:ecret"), Some("3")));
        assert!(config.tls.is_none() && !format!("{config:?}").contains("ecret"));
        assert!(RedisConfig::read("rediss://h").unwrap().tls.unwrap().checks_name);
        for (url, why) in [
            ("http://h", "a URL begins with redis://, rediss:// or unix:"),
            ("redis://h?colour=1", "colour is not a setting"),
            ("redis://h/first", "db takes a whole number"),
        ] {
            assert_eq!(RedisConfig::read(url).unwrap_err(), why);
        }
    }
}
