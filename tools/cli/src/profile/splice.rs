//! Proxies whose bytes are analysed.

use std::net::SocketAddr;

use onetrip_lab::proxy::{Proxy, ProxyConfig, Upstream};

use super::analysis::Analysis;

/// Where a splice listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    pub(super) listen: SocketAddr,
    /// Whether other machines may be able to connect.
    pub(super) beyond_loopback: bool,
}

impl Front {
    /// A free port of the loopback interface.
    pub(crate) fn free() -> Front {
        Front { listen: SocketAddr::from(([127, 0, 0, 1], 0)), beyond_loopback: false }
    }

    /// Passes on what comes here, and shows it to the analysis. `number` is the splice's own.
    ///
    /// # Errors
    /// It can't listen there, in one line.
    pub(crate) fn splice(
        self,
        upstream: Upstream,
        analysis: &Analysis,
        number: u8,
    ) -> Result<Proxy, String> {
        let config = ProxyConfig {
            listen: self.listen,
            beyond_loopback: self.beyond_loopback,
            tap: Some(analysis.ring().tap(number)),
            ..ProxyConfig::new(upstream)
        };
        Proxy::start(config).map_err(|error| self.failed(&error))
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
