//! Checks the settings together and fills in the defaults, by libpq's rules (`pqConnectOptions2`).

use std::net::IpAddr;
use std::path::PathBuf;

use super::environment::{SOCKET_DIRECTORIES, Surroundings};
use super::error::{ConfigError, ConfigErrorKind as Kind, Place};
use super::keyword::{Keyword, bit, says};
use super::{Address, Config, Endpoint, Resolved, Settings, passfile, tls};

impl Config {
    pub(super) fn resolve_in(
        &self,
        surroundings: &Surroundings<'_>,
    ) -> Result<Resolved, ConfigError> {
        if let Some(config) = self.with_service(surroundings)? {
            return config.resolve_alone(surroundings);
        }
        self.resolve_alone(surroundings)
    }

    /// Without a service, or with its settings.
    fn resolve_alone(&self, surroundings: &Surroundings<'_>) -> Result<Resolved, ConfigError> {
        self.check()?;
        let user = match self.user.as_str() {
            "" => surroundings.user().ok_or_else(|| {
                fault(Kind::User, "no user is given and this process's user is unknown: set user")
            })?,
            user => user.to_owned(),
        };
        let dbname = if self.dbname.is_empty() { user.clone() } else { self.dbname.clone() };
        let endpoints = self.endpoints(surroundings)?;
        let mut resolved = Resolved {
            settings: self.resolve_settings(&endpoints, surroundings)?,
            endpoints,
            user,
            dbname,
            options: self.options.clone(),
            notes: Vec::new(),
        };
        if self.password.is_empty() {
            self.fill_passwords(&mut resolved, surroundings);
        }
        Ok(resolved)
    }

    /// The settings with their defaults.
    fn resolve_settings(
        &self,
        endpoints: &[Endpoint],
        surroundings: &Surroundings<'_>,
    ) -> Result<Settings, ConfigError> {
        let mut settings = self.settings.clone();
        let name = &mut settings.application_name;
        *name = name.take().or_else(|| self.fallback_application_name.clone());
        let mode_is_given = self.given & bit(Keyword::Sslmode) != 0;
        tls::fill_defaults(&mut settings, mode_is_given, surroundings);
        tls::check(&settings, endpoints.iter().any(|endpoint| endpoint.socket().is_none()))?;
        Ok(settings)
    }

    /// The servers, in order. As in libpq, the number of addresses is the number of servers; if
    /// there are none, the number of hosts is.
    fn endpoints(&self, surroundings: &Surroundings<'_>) -> Result<Vec<Endpoint>, ConfigError> {
        let (hosts, addresses) = (self.hosts.len(), self.hostaddrs.len());
        if hosts > 0 && addresses > 0 && hosts != addresses {
            let what = format!("{hosts} hosts and {addresses} hostaddr values don't match");
            return Err(ConfigError::new(Kind::Host, Place::Config, what));
        }
        let count = hosts.max(addresses).max(1);
        if self.ports.len() > 1 && self.ports.len() != count {
            let what = format!(
                "{} ports and {count} hosts don't match: give one port, or one for each host",
                self.ports.len()
            );
            return Err(ConfigError::new(Kind::Port, Place::Config, what));
        }
        let endpoint = |place: usize| {
            let port = self.ports.get(place).or(self.ports.first()).copied().flatten();
            let port = port.unwrap_or(DEFAULT_PORT);
            let host = self.hosts.get(place).map_or("", String::as_str);
            let address = self.hostaddrs.get(place).copied().flatten();
            let password = Some(self.password.clone()).filter(|password| !password.is_empty());
            Endpoint { address: address_of(host, address, port, surroundings), port, password }
        };
        Ok((0..count).map(endpoint).collect())
    }

    /// Looks up each server's password in the password file.
    fn fill_passwords(&self, resolved: &mut Resolved, surroundings: &Surroundings<'_>) {
        let Some(path) = self.passfile.clone().or_else(|| surroundings.passfile()) else { return };
        let file = match passfile::read(&path) {
            Ok(Some(file)) => file,
            Ok(None) => return,
            Err(note) => return resolved.notes.push(note),
        };
        for endpoint in &mut resolved.endpoints {
            let host = match &endpoint.address {
                Address::Tcp { host, .. } => host.clone(),
                // For the default directories, the file has entries for localhost.
                Address::Unix(path) => match path.to_string_lossy() {
                    path if SOCKET_DIRECTORIES.contains(&&*path) => "localhost".to_owned(),
                    path => path.into_owned(),
                },
            };
            let port = endpoint.port.to_string();
            let wanted = [host.as_str(), &port, &resolved.dbname, &resolved.user];
            endpoint.password = passfile::password(&file, wanted);
        }
    }

    /// Checks what setters can get wrong, and what is wrong only in combination.
    fn check(&self) -> Result<(), ConfigError> {
        let settings = &self.settings;
        let texts =
            [Some(&self.dbname), Some(&self.user), Some(&self.password), self.options.as_ref()];
        let names = [settings.application_name.as_ref(), self.fallback_application_name.as_ref()];
        let mut texts = texts.into_iter().chain(names).flatten().chain(&self.hosts);
        if texts.any(|text| text.contains('\0')) {
            return Err(fault(Kind::Value, "a NUL can't be part of any value"));
        }
        if self.hosts.iter().any(|host| host.contains(['@', ',']) && !host.starts_with('/')) {
            let what = "a host holds '@' or ',': abstract sockets aren't in this version, and each \
                        host is given by itself";
            return Err(fault(Kind::Host, what));
        }
        if self.ports.contains(&Some(0)) {
            return Err(fault(Kind::Port, "a port must be a number from 1 to 65535"));
        }
        for (limit, keyword) in [
            (settings.in_flight_max, Keyword::InFlightMax),
            (settings.in_flight_bytes_max, Keyword::InFlightBytesMax),
            (settings.queue_max, Keyword::QueueMax),
            (settings.queue_bytes_max, Keyword::QueueBytesMax),
            (settings.waiting_bytes_max, Keyword::WaitingBytesMax),
            (settings.prepared_max, Keyword::PreparedMax),
            (settings.connections_max, Keyword::ConnectionsMax),
            (settings.scram_iterations_max as usize, Keyword::ScramIterationsMax),
        ] {
            if limit == 0 {
                let what = format!("{} {}1", keyword.name(), says::AT_LEAST);
                return Err(ConfigError::new(Kind::Value, Place::Config, what));
            }
        }
        if settings.stall_timeout.is_zero() {
            return Err(fault(Kind::Value, "stall_timeout must be longer than zero"));
        }
        if settings.cancel_timeout.is_zero() {
            return Err(fault(Kind::Value, "cancel_timeout must be longer than zero"));
        }
        if settings.min_protocol_version > settings.max_protocol_version {
            let what = "min_protocol_version is newer than max_protocol_version: raise the latter";
            return Err(fault(Kind::Value, what));
        }
        Ok(())
    }
}

/// The address of a server from its host and its address, either of which may be missing.
fn address_of(
    host: &str,
    address: Option<IpAddr>,
    port: u16,
    surroundings: &Surroundings<'_>,
) -> Address {
    let host = match (host, address) {
        ("", Some(address)) => address.to_string(),
        ("", None) => surroundings.default_host(port).to_owned(),
        (host, _) => host.to_owned(),
    };
    if host.starts_with('/') && address.is_none() {
        Address::Unix(PathBuf::from(host))
    } else {
        Address::Tcp { host, address }
    }
}

fn fault(kind: Kind, what: &'static str) -> ConfigError {
    ConfigError::new(kind, Place::Config, what)
}

const DEFAULT_PORT: u16 = 5432;
