//! What `--to` names: one server or several, and how the connection to them is encrypted.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onetrip::TlsSetup;
use onetrip::config::{Address, Config, Endpoint, Resolved, RootCert, SslMode};
use onetrip_postgres::client::connect::{Host, TargetSessionAttrs, plan};
use onetrip_postgres::client::identity::Lineage;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::random;
use crate::profile::tls::{TlsArgs, found, host_and_port};

/// The servers of a sidecar.
pub(super) struct Servers {
    config: Config,
    pub(super) resolved: Resolved,
    /// The file of a Unix socket that was named itself.
    pub(super) socket: Option<PathBuf>,
    lineage: Mutex<Lineage>,
    /// How TLS begins with a host at an address, once it was set up.
    secured: Mutex<HashMap<(String, IpAddr), Arc<Secured>>>,
}

/// How TLS begins.
pub(super) struct Secured {
    pub(super) setup: TlsSetup,
    pub(super) connector: TlsConnector,
    pub(super) name: ServerName<'static>,
}

impl Servers {
    /// What this text names: `HOST:PORT`, a URL, `keyword=value` pairs, or the path of a Unix
    /// socket. `variable` gives libpq's variables: those for TLS count, and which files hold
    /// services and passwords.
    ///
    /// # Errors
    /// It can't be read, no server of it can be found, or its settings contradict one another: one
    /// line.
    pub(super) fn of(
        text: &str,
        tls: &TlsArgs,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Servers, String> {
        let counts = |name: &str| {
            let counts = ["PGREQUIRESSL", "PGSERVICEFILE", "PGPASSFILE"].contains(&name);
            if counts || name.starts_with("PGSSL") { variable(name) } else { None }
        };
        let is_path = text.starts_with('/') && !text.contains('=');
        let socket = is_path.then(|| PathBuf::from(text));
        let config: Config = match &socket {
            Some(path) => at_socket(path),
            None if text.contains("://") || text.contains('=') => {
                text.parse().map_err(|error| format!("{error}"))?
            }
            None => {
                let (host, port) = host_and_port(text)?;
                Config::new().host(host).port(port)
            }
        };
        // In a form in which no setting of TLS contradicts another.
        let place = config.clone().sslmode(SslMode::VerifyFull).sslrootcert(RootCert::System);
        let place = place.resolve().map_err(|error| error.to_string())?;
        let is_local = is_local(place.endpoints())?;
        let config = tls.configured(config, is_local, counts)?;
        let resolved = config.resolve().map_err(|error| error.to_string())?;
        let (lineage, secured) = (Mutex::default(), Mutex::default());
        Ok(Servers { config, resolved, socket, lineage, secured })
    }

    /// Their names, for people.
    pub(super) fn name(&self) -> String {
        if let Some(path) = &self.socket {
            return path.display().to_string();
        }
        let names: Vec<String> =
            self.resolved.endpoints().iter().map(Endpoint::to_string).collect();
        names.join(",")
    }

    pub(super) fn are_several(&self) -> bool {
        self.resolved.endpoints().len() > 1
    }

    /// What is needed to log in as this user. The password file is read for it.
    pub(super) fn for_user(&self, user: &str, database: &str) -> Option<Resolved> {
        let config = self.config.clone().user(user).dbname(database);
        // A password that was given belongs to the user that it was given for.
        let config = if user == self.resolved.user() { config } else { config.password("") };
        config.resolve().ok()
    }

    /// Which of them are wanted.
    pub(super) fn target(&self) -> TargetSessionAttrs {
        self.resolved.settings().target_session_attrs
    }

    /// What has been seen of them.
    pub(super) fn lineage(&self) -> MutexGuard<'_, Lineage> {
        self.lineage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings of a plan.
    pub(super) fn plan(&self) -> plan::Settings {
        let settings = self.resolved.settings();
        let host = |endpoint: &Endpoint| match endpoint.address() {
            Address::Unix(_) => Host::Socket,
            Address::Tcp { address: Some(_), .. } => Host::Address,
            Address::Tcp { address: None, .. } => Host::Name,
        };
        plan::Settings {
            hosts: self.resolved.endpoints().iter().map(host).collect(),
            sslmode: settings.sslmode,
            sslnegotiation: settings.sslnegotiation,
            target_session_attrs: settings.target_session_attrs,
            load_balance_hosts: settings.load_balance_hosts,
            connect_timeout: settings.connect_timeout,
            seed: random().map_or(0, u64::from_ne_bytes),
            identifies: false,
            scouts: false,
        }
    }

    /// How TLS begins with a host at an address.
    ///
    /// # Errors
    /// A file of the settings can't be used.
    pub(super) async fn secured(&self, host: &str, at: IpAddr) -> Result<Arc<Secured>, String> {
        let key = (host.to_owned(), at);
        let known = || self.secured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(secured) = known().get(&key) {
            return Ok(secured.clone());
        }
        let setup = TlsSetup::new(self.resolved.settings(), host, at);
        let (config, name) = setup.client().await.map_err(|error| error.to_string())?;
        let secured = Secured { setup, connector: TlsConnector::from(Arc::new(config)), name };
        let secured = Arc::new(secured);
        let mut known = known();
        // Addresses that names have no more are not kept for ever.
        if known.len() >= SECURED_MAX {
            known.clear();
        }
        known.insert(key, secured.clone());
        Ok(secured)
    }
}

/// Addresses for which TLS stays set up.
const SECURED_MAX: usize = 64;

/// A socket by its directory and port, as far as its file has the usual name.
fn at_socket(path: &std::path::Path) -> Config {
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    let port = name.strip_prefix(".s.PGSQL.").and_then(|it| it.parse().ok());
    let config = Config::new().host_path(path.parent().unwrap_or(path));
    port.map_or_else(|| config.clone(), |port| config.clone().port(port))
}

/// Whether all of them are on this machine. One that can't be found now may be later, if there is
/// another.
fn is_local(endpoints: &[Endpoint]) -> Result<bool, String> {
    let (mut is_local, mut failed, mut any) = (true, None, false);
    for endpoint in endpoints {
        let addresses = match endpoint.address() {
            Address::Unix(_) => Ok(Vec::new()),
            Address::Tcp { address: Some(address), .. } => Ok(vec![*address]),
            Address::Tcp { host, .. } => {
                found(host, endpoint.port()).map(|all| all.into_iter().map(|it| it.ip()).collect())
            }
        };
        match addresses {
            Ok(all) => {
                any = true;
                is_local &= all.iter().all(IpAddr::is_loopback);
            }
            Err(error) => {
                is_local = false;
                failed.get_or_insert(error);
            }
        }
    }
    match failed {
        Some(error) if !any => Err(error),
        _ => Ok(is_local),
    }
}
