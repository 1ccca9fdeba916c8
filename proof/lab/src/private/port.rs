//! A free port.

use std::net::TcpListener;

use super::error::LabError;

/// How many ports are tried. An attempt fails only if another process takes the port in between.
pub(crate) const PORT_ATTEMPTS: u32 = 5;

/// A port chosen by the system. It may be taken again before the server binds it; hence the
/// attempts.
pub(crate) fn free_port() -> Result<u16, LabError> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    port.map(|address| address.port())
        .map_err(|error| LabError::new(format!("127.0.0.1 has no free port: {error}")))
}
