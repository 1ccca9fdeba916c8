//! Proxies whose bytes are analysed, with what stands beside them for TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use onetrip_lab::proxy::{Proxy, ProxyConfig, Tap, Upstream};

use super::analysis::Analysis;
use super::tls::{Relays, TlsArgs, Way};
use crate::proxy::upstream;

/// Where clients connect to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    pub(super) listen: SocketAddr,
    /// Whether other machines may be able to connect.
    pub(super) beyond_loopback: bool,
}

/// A splice, open until it is dropped.
pub(super) struct Splice {
    pub(super) proxy: Proxy,
    /// Where clients connect to.
    pub(super) addr: SocketAddr,
}

/// Makes the splices of one run.
pub(super) struct Splicer<'a> {
    pub(super) analysis: &'a Analysis,
    pub(super) relays: &'a Relays,
    pub(super) tls: &'a TlsArgs,
}

impl Splicer<'_> {
    /// Passes on what comes to `front`, and shows it to the analysis. `number` is the splice's own.
    ///
    /// # Errors
    /// It can't listen there, or the way there can't be gone: one line.
    pub(super) fn splice(&self, front: Front, way: Way, number: u8) -> Result<Splice, String> {
        front.check()?;
        let identity = self.tls.identity()?;
        let tap = self.analysis.tap(number);
        let (upstream, tap) = match way {
            Way::Socket(path) => (upstream("the server", &path.display().to_string())?, tap),
            Way::Tcp(server) if self.tls.relays(&server) => {
                let (upstream, rtt) = self.relays.behind(*server, identity.as_ref())?;
                (upstream, rtt.told_to(tap))
            }
            Way::Tcp(server) => (Upstream::Tcp(server.address()), tap),
        };
        let Some(identity) = identity else {
            let proxy = front.proxy(upstream, tap)?;
            return Ok(Splice { addr: proxy.addr(), proxy });
        };
        let proxy = Front::free().proxy(upstream, tap)?;
        let addr = self.relays.in_front(front.listen, proxy.addr(), identity);
        Ok(Splice { addr: addr.map_err(|error| front.failed(&error))?, proxy })
    }
}

impl Front {
    /// A free port of the loopback interface.
    pub(crate) fn free() -> Front {
        Front { listen: SocketAddr::from(([127, 0, 0, 1], 0)), beyond_loopback: false }
    }

    /// A proxy alone.
    ///
    /// # Errors
    /// It can't listen there, in one line.
    pub(crate) fn proxy(self, upstream: Upstream, tap: Arc<dyn Tap>) -> Result<Proxy, String> {
        let config = ProxyConfig {
            listen: self.listen,
            beyond_loopback: self.beyond_loopback,
            tap: Some(tap),
            ..ProxyConfig::new(upstream)
        };
        Proxy::start(config).map_err(|error| self.failed(&error))
    }

    fn check(self) -> Result<(), String> {
        match self.listen.ip().is_loopback() || self.beyond_loopback {
            true => Ok(()),
            false => Err(self.failed(&std::io::ErrorKind::InvalidInput.into())),
        }
    }

    fn failed(self, error: &std::io::Error) -> String {
        let listen = self.listen;
        match error.kind() {
            std::io::ErrorKind::InvalidInput => format!(
                "{listen} is not a loopback address: whoever can connect there reaches the \
                 database; listen on 127.0.0.1 or [::1], or allow it with --allow-remote"
            ),
            std::io::ErrorKind::AddrInUse => format!(
                "{listen} is in use; choose another port with --listen, or port 0 for a free one"
            ),
            _ => format!("can't listen on {listen}: {error}; choose another address with --listen"),
        }
    }
}
