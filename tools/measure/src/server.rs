//! The one address of a server that the command uses for everything it does there.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use onetrip::config::{Address, Config, Endpoint, Settings, SslMode};
use onetrip_lab::proxy::Upstream;

/// A server, reached at one address.
#[derive(Debug)]
pub struct Server {
    /// For messages: the host and port as given, or the path of the socket.
    pub name: String,
    /// Leads to the address of `upstream` and nowhere else.
    pub direct: Config,
    /// For a proxy to dial.
    pub upstream: Upstream,
}

impl Server {
    /// Settles on an address: of several that a name has, the first that answers.
    ///
    /// # Errors
    /// One line: several hosts, a host without an address, a configuration that contradicts itself.
    pub fn of(config: Config) -> Result<Server, String> {
        let resolved = config.resolve().map_err(|error| error.to_string())?;
        let [endpoint] = resolved.endpoints() else {
            return Err("--url (or PGHOST) names several hosts: name the one to use".to_owned());
        };
        let name = endpoint.to_string();
        let (direct, upstream) = match (endpoint.socket(), endpoint.address()) {
            (Some(socket), _) => (config, Upstream::Unix(socket)),
            (None, Address::Tcp { address: Some(address), .. }) => {
                let upstream = (*address, endpoint.port()).into();
                (config, Upstream::Tcp(upstream))
            }
            (None, _) => {
                let address = look_up(endpoint)?;
                // The host stays: the password file knows the server by it.
                (config.hostaddr(address.ip()), Upstream::Tcp(address))
            }
        };
        Ok(Server { name, direct, upstream })
    }

    /// The same user, password, database and settings, reached through a proxy.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn behind(&self, proxy: SocketAddr) -> Result<Config, String> {
        let resolved = self.direct.resolve().map_err(|error| error.to_string())?;
        let mut config = Config::new()
            .hostaddr(proxy.ip())
            .port(proxy.port())
            .user(resolved.user())
            .dbname(resolved.dbname());
        config = match resolved.endpoints().first().map(|endpoint| endpoint.address()) {
            // What the server's certificate has to be about.
            Some(Address::Tcp { host, .. }) => {
                with_tls(config.host(host.as_str()), resolved.settings())
            }
            // On its socket the server speaks no TLS, and the proxy can't be told from that.
            _ => config.sslmode(SslMode::Disable),
        };
        if let Some(password) = resolved.endpoints().first().and_then(|it| it.password()) {
            config = config.password(password);
        }
        if let Some(options) = resolved.options() {
            config = config.options(options);
        }
        Ok(with_settings(config, resolved.settings()))
    }
}

/// The first address that answers, or else the first.
pub fn answering(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, DIAL_TIMEOUT).is_ok();
    match addresses {
        [only] => Some(*only),
        several => several.iter().find(answers).or(several.first()).copied(),
    }
}

fn look_up(endpoint: &Endpoint) -> Result<SocketAddr, String> {
    let Address::Tcp { host, .. } = endpoint.address() else {
        return Err(format!("{endpoint} is a socket and has no address"));
    };
    let addresses = (host.as_str(), endpoint.port())
        .to_socket_addrs()
        .map_err(|error| format!("the host {host} can't be found ({error}): check its spelling"))?;
    let addresses: Vec<SocketAddr> = addresses.collect();
    answering(&addresses).ok_or_else(|| format!("the host {host} has no address"))
}

/// Those that the server or the protocol can notice, and the limits. What concerns the line to the
/// server, such as keepalives, stays with the direct connection.
fn with_settings(config: Config, settings: &Settings) -> Config {
    let config = match &settings.application_name {
        Some(name) => config.application_name(name),
        None => config,
    };
    config
        .connect_timeout(settings.connect_timeout)
        .min_protocol_version(settings.min_protocol_version)
        .max_protocol_version(settings.max_protocol_version)
        .target_session_attrs(settings.target_session_attrs)
        .require_auth(settings.require_auth)
        .allow_plain_password(settings.allow_plain_password)
        .scram_iterations_max(settings.scram_iterations_max)
        .in_flight_max(settings.in_flight_max)
        .in_flight_bytes_max(settings.in_flight_bytes_max)
        .one_segment(settings.one_segment)
        .queue_max(settings.queue_max)
        .queue_bytes_max(settings.queue_bytes_max)
        .when_full(settings.when_full)
        .prepare_threshold(settings.prepare_threshold)
        .prepared_max(settings.prepared_max)
        .request_timeout(settings.request_timeout)
        .stall_timeout(settings.stall_timeout)
        .cancel_on_timeout(settings.cancel_on_timeout)
        .cancel_on_drop(settings.cancel_on_drop)
        .cancels_max(settings.cancels_max)
        .cancel_timeout(settings.cancel_timeout)
}

fn with_tls(config: Config, settings: &Settings) -> Config {
    let mut config = config
        .sslmode(settings.sslmode)
        .sslnegotiation(settings.sslnegotiation)
        .sslsni(settings.sslsni)
        .ssl_min_protocol_version(settings.ssl_min_protocol_version)
        .ssl_max_protocol_version(settings.ssl_max_protocol_version)
        .channel_binding(settings.channel_binding);
    if let Some(path) = &settings.sslcert {
        config = config.sslcert(path);
    }
    if let Some(path) = &settings.sslkey {
        config = config.sslkey(path);
    }
    if let Some(path) = &settings.sslcrl {
        config = config.sslcrl(path);
    }
    match &settings.sslrootcert {
        Some(root) => config.sslrootcert(root.clone()),
        None => config,
    }
}

/// How long one of several addresses of a name may take to answer before the next is tried.
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn server(url: &str) -> Result<Server, String> {
        Server::of(url.parse().unwrap())
    }

    #[test]
    fn the_direct_connection_and_the_proxy_use_the_address_that_answers() {
        // On 127.0.0.1 only; localhost may have ::1 as well, and first.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = server(&format!("postgres://u@localhost:{port}/d")).unwrap();
        assert_eq!(server.upstream, Upstream::Tcp(([127, 0, 0, 1], port).into()));
        let resolved = server.direct.resolve().unwrap();
        let address = Some([127, 0, 0, 1].into());
        let host = "localhost".to_owned();
        assert_eq!(resolved.endpoints()[0].address(), &Address::Tcp { host, address });
        assert_eq!(resolved.endpoints().len(), 1);
    }

    #[test]
    fn of_several_addresses_the_first_that_answers_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        // Nobody listens on port 1 of the loopback network.
        let gone = SocketAddr::from(([127, 0, 0, 1], 1));
        assert_eq!(answering(&[gone, there]), Some(there));
        assert_eq!(answering(&[gone, gone]), Some(gone));
        assert_eq!(answering(&[]), None);
    }

    #[test]
    fn several_hosts_are_refused() {
        let error = server("postgres://u@one,two/d").unwrap_err();
        assert!(error.contains("several hosts"), "{error}");
    }

    #[test]
    fn behind_the_proxy_a_socket_stays_without_tls() {
        let url = "postgres://u@/d?host=/nowhere&sslmode=require";
        let proxied = server(url).unwrap().behind(([127, 0, 0, 1], 9).into()).unwrap();
        assert_eq!(proxied.settings().sslmode, SslMode::Disable);
    }

    #[test]
    fn behind_the_proxy_the_settings_are_the_same() {
        let url = "postgres://u:secret@db/d?hostaddr=127.0.0.1&application_name=till\
                   &in_flight_max=7&sslmode=require";
        let proxied = server(url).unwrap().behind(([127, 0, 0, 1], 9).into()).unwrap();
        let resolved = proxied.resolve().unwrap();
        assert_eq!(resolved.settings().application_name.as_deref(), Some("till"));
        assert_eq!(resolved.settings().in_flight_max, 7);
        assert_eq!(resolved.settings().sslmode, SslMode::Require);
        assert_eq!(resolved.endpoints()[0].port(), 9);
        let address = Some([127, 0, 0, 1].into());
        let host = "db".to_owned();
        assert_eq!(resolved.endpoints()[0].address(), &Address::Tcp { host, address });
        assert_eq!(resolved.endpoints()[0].password(), Some("secret"));
    }
}
