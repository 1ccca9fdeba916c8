//! Settings that contradict each other, or that say nothing where they stand.

use onetrip_postgres::client::connect::keywords::SSL_MODES;
use onetrip_redis::client::settings::broken;

use super::{Config, Protocol, Server};
use crate::config::error::Place;
use crate::config::{ConfigError, ConfigErrorKind as Kind, RootCert};

impl Config {
    /// Refuses what breaks a rule. Setters may be called in any order, so it is asked when all of
    /// them were.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match broken(|name| self.said(name)) {
            Some(why) => Err(ConfigError::new(Kind::Value, Place::Config, why)),
            None => Ok(()),
        }
    }

    /// Refuses a URL whose scheme asks for TLS and whose `sslmode` asks for none. A setter may ask for
    /// none.
    pub(super) fn check_scheme(&self) -> Result<(), ConfigError> {
        let why = broken(|name| match name {
            "rediss" => Some("1"),
            "sslmode" => self.said(name),
            _ => None,
        });
        why.map_or(Ok(()), |why| Err(ConfigError::new(Kind::Value, Place::Url, why)))
    }

    /// A setting by its name in the rules.
    fn said(&self, name: &str) -> Option<&str> {
        let on = |is: bool| is.then_some("1");
        let file = |file: &Option<std::path::PathBuf>| file.is_some().then_some("file");
        let transport = &self.transport;
        match name {
            "path" => on(self.servers.iter().any(|server| matches!(server, Server::Unix(_)))),
            "master" => on(self.sentinel.is_some()),
            "cluster" => on(self.is_cluster),
            "cache" => on(self.cache_bytes > 0),
            "replica_reads" => on(self.replica_reads),
            "db" => on(self.database > 0),
            "protocol" => Some(if self.protocol == Protocol::Resp2 { "2" } else { "3" }),
            "sslmode" => SSL_MODES.get(transport.sslmode as usize).copied(),
            "sslrootcert" => transport.sslrootcert.as_ref().map(|root| match root {
                RootCert::System => "system",
                RootCert::File(_) => "file",
            }),
            "sslcert" => file(&transport.sslcert),
            "sslkey" => file(&transport.sslkey),
            "sslcertmode" => Some("allow"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::config::SslMode;

    /// P51.
    #[test]
    fn a_url_of_redis_that_contradicts_itself_is_refused_by_name() {
        let check = |url: &str| url.parse::<Config>().unwrap().check();
        for (url, names) in [
            ("redis://h?sslrootcert=/no/such", "rediss://"),
            ("redis://h?sslcert=c&sslkey=k", "rediss://"),
            ("rediss://h?sslkey=k", "sslcert"),
            ("rediss://h?sslcert=c", "sslkey"),
            ("rediss://h?sslmode=require&sslrootcert=system", "verify-full"),
            ("redis://h?cache=1MiB&protocol=2", "protocol=2"),
            ("redis://h?replica_reads=1", "cluster=1"),
            ("redis://h/3?cluster=1", "database 0"),
            ("unix:/s?sslmode=require", "Unix socket"),
            ("redis+sentinel://h/m?cluster=1", "Sentinels"),
        ] {
            let error = check(url).unwrap_err().to_string();
            assert!(error.starts_with("in the configuration: "), "{error}");
            assert!(error.contains(names) && !error.contains("/no/such"), "{url}: {error}");
        }
        for url in ["redis://h", "rediss://h", "unix:/s", "redis://h?cluster=1&replica_reads=1"] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
    }

    /// P51.
    #[test]
    fn a_url_whose_scheme_asks_for_tls_is_not_in_the_clear() {
        for url in ["rediss://h?sslmode=disable", "valkeys+sentinel://h/m?sslmode=disable"] {
            let error = url.parse::<Config>().unwrap_err().to_string();
            assert!(error.contains("rediss:// asks for TLS"), "{url}: {error}");
        }
        let config: Config = "rediss://h".parse().unwrap();
        assert_eq!(config.tls(SslMode::Disable).check(), Ok(()));
    }

    #[test]
    fn setters_are_checked_whatever_their_order_is() {
        let config = || Config::new().root_cert(RootCert::File("r".into()));
        assert!(config().check().is_err());
        assert_eq!(config().tls(SslMode::Require).check(), Ok(()));
        assert!(Config::new().client_cert("c", "k").check().is_err());
    }
}
