//! TLS beside a splice, which knows nothing of it.
//!
//! - `server`: where a server is, and how the connection to it is encrypted.
//! - `to_server`: the relay behind a splice, which encrypts what goes to the server.
//! - `from_client`: the relay in front of a splice, which decrypts what comes from clients.
//! - `offer`: the one message that is changed.
//! - `rtt`: the round trip behind the relay.
//!
//! Memory is bounded: two buffers of [`BUFFER`] bytes a relayed connection, and what rustls holds
//! of a record or two. Who reads slowly makes the other side wait.

mod from_client;
mod offer;
mod rtt;
mod server;
#[cfg(test)]
mod tests;
mod to_server;

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{Args, ValueEnum};
use onetrip_lab::proxy::Upstream;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};

use from_client::FromClients;
pub(super) use from_client::Identity;
pub(crate) use offer::{Offer, Step};
pub(super) use rtt::Rtt;
pub(crate) use server::{Server, Way, found, host_and_port};
use to_server::{Clients, ToServer};

/// How connections are encrypted.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TlsArgs {
    /// Whether the connection to the server is encrypted. Clients connect without TLS, unless --cert
    /// is given.
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Mode::Auto)]
    tls: Mode,

    /// The authority that has signed the server's certificate: a PEM file, or system
    /// [default: sslrootcert of the URL or PGSSLROOTCERT, ~/.postgresql/root.crt, system].
    #[arg(long, value_name = "FILE|system", conflicts_with_all = ["pcap"])]
    tls_root: Option<String>,

    /// Accept TLS from clients, and nothing else, with this certificate (PEM). Only the server's own
    /// lets clients bind their login to it (channel_binding).
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with_all = ["pcap"])]
    cert: Option<PathBuf>,

    /// The key of --cert (PEM, not encrypted).
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

/// Whether the connection to the server is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// As the URL or PGSSLMODE says; otherwise verify-full, but off for a server on this machine.
    #[default]
    Auto,
    /// Not encrypted.
    Off,
    /// Encrypted; verified only if there is a root certificate.
    Require,
    /// Encrypted; the certificate is by a trusted authority and for the server's name.
    VerifyFull,
    /// Bytes pass as they are. What client and server encrypt can't be read: trips and times only.
    Pass,
}

impl TlsArgs {
    /// Clients connect without TLS.
    pub(crate) fn in_clear(tls: Mode, tls_root: Option<String>) -> TlsArgs {
        TlsArgs { tls, tls_root, cert: None, key: None }
    }

    /// The certificate for clients, if there is one.
    ///
    /// # Errors
    /// A file can't be used, or the options contradict one another: one line.
    pub(super) fn identity(&self) -> Result<Option<Identity>, String> {
        match (&self.cert, &self.key) {
            (Some(_), Some(_)) if self.tls == Mode::Pass => {
                Err("--tls pass leaves TLS to the server: leave out --cert and --key".to_owned())
            }
            (Some(cert), Some(key)) => Identity::read(cert, key).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether bytes have to pass a relay to the server: the connection to it is encrypted, or a
    /// client that asks the server for TLS would get it, and nothing could be read.
    pub(super) fn relays(&self, server: &Server) -> bool {
        let may_ask = self.cert.is_none();
        self.tls != Mode::Pass && (server.is_encrypted() || (may_ask && server.has_tls()))
    }

    /// Whether clients are to connect without TLS.
    pub(super) fn is_clear(&self) -> bool {
        self.tls != Mode::Pass && self.cert.is_none()
    }
}

/// Relays that run until this is dropped, on a thread of their own.
pub(crate) struct Relays {
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
    /// Of sockets that nobody else may use.
    directory: TempDir,
    notes: Notes,
}

impl Relays {
    /// `command` is what errors begin with; `say` prints a line.
    ///
    /// # Errors
    /// The system allows no thread or no directory, in one line.
    pub(crate) fn start(
        command: &'static str,
        say: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Relays, String> {
        let failed = |error| format!("can't start a relay for TLS ({error}): try again");
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("onetrip-tls")
            .enable_all()
            .build()
            .map_err(failed)?;
        let directory = tempfile::Builder::new()
            .prefix("onetrip-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir()
            .map_err(failed)?;
        let notes = Notes { command, said: Arc::default(), say: Arc::new(say) };
        Ok(Relays { runtime: Some(runtime), directory, notes })
    }

    /// A relay to a server, for a splice in front of it; and the round trip to the server. With an
    /// identity, clients come over TLS, by a relay in front of the splice.
    ///
    /// # Errors
    /// A file of the server's settings can't be used, in one line.
    pub(super) fn behind(
        &self,
        server: Server,
        identity: Option<&Identity>,
    ) -> Result<(Upstream, Arc<Rtt>), String> {
        let failed = |error| format!("can't start a relay for TLS ({error}): try again");
        let path = self.directory.path().join(format!("{}:{}", server.port, number()));
        let clients =
            identity.map_or(Clients::InClear, |it| Clients::OverTls(it.certificate.clone()));
        let new = ToServer::new(server, clients, self.notes.clone());
        let listen = async {
            let relay = Arc::new(new.await?);
            let listener = UnixListener::bind(&path).map_err(failed)?;
            let rtt = relay.rtt.clone();
            tokio::spawn(relay.listen(listener));
            Ok::<_, String>(rtt)
        };
        let rtt = self.runtime().block_on(listen)?;
        Ok((Upstream::Unix(path), rtt))
    }

    /// A relay from clients to a splice; the address where it listens.
    ///
    /// # Errors
    /// It can't listen there.
    pub(super) fn in_front(
        &self,
        listen: SocketAddr,
        splice: SocketAddr,
        identity: Identity,
    ) -> io::Result<SocketAddr> {
        let relay = Arc::new(FromClients::new(identity, splice));
        self.runtime().block_on(async {
            let listener = TcpListener::bind(listen).await?;
            let address = listener.local_addr()?;
            tokio::spawn(relay.listen(listener));
            Ok(address)
        })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken when this is dropped")
    }
}

impl Drop for Relays {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Bytes of one direction that a relay holds.
const BUFFER: usize = 16 << 10;

/// What the user should know, each line once.
#[derive(Clone)]
struct Notes {
    command: &'static str,
    said: Arc<Mutex<HashSet<String>>>,
    say: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Notes {
    fn note(&self, text: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < LINES_MAX && said.insert(text.to_owned()) {
            (self.say)(text);
        }
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notes").finish_non_exhaustive()
    }
}

/// Lines that are said in all.
const LINES_MAX: usize = 32;

/// A number of its own for each relay of this process.
fn number() -> usize {
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// Says why a connection ends. What the client has still sent is read, or it might not see it.
async fn ended<S: AsyncRead + AsyncWrite + Unpin>(client: &mut S, why: &[u8]) {
    let end = async {
        client.write_all(why).await?;
        client.shutdown().await?;
        while client.read(&mut [0; 1024]).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), end).await;
}
