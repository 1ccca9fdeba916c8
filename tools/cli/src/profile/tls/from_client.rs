//! In front of a splice: ends the TLS of clients with a certificate, and goes on in clear.
//!
//! Who does not begin TLS is refused, so that no login comes in clear where TLS was meant. Requests
//! to cancel are excepted: libpq of before version 17 sends them in clear.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use onetrip_postgres::message::ssl_request::{CODE, GSSENC_CODE};
use onetrip_postgres::message::{STARTUP_LEN_MAX, cancel_request};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::to_server::error;
use super::{BUFFER, ended};

/// A certificate and its key.
pub(crate) struct Identity {
    acceptor: TlsAcceptor,
    /// What clients see.
    pub(super) certificate: CertificateDer<'static>,
}

impl Identity {
    /// # Errors
    /// A file can't be read, or holds something else, or they don't belong together: one line.
    pub(super) fn read(cert: &Path, key: &Path) -> Result<Identity, String> {
        let read = |option, path: &Path| {
            std::fs::read(path).map_err(|error| format!("{option} {}: {error}", path.display()))
        };
        let pem = read("--cert", cert)?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let certificates = certificates.unwrap_or_default();
        let Some(certificate) = certificates.first().cloned() else {
            return Err(format!("--cert {} holds no certificate in PEM", cert.display()));
        };
        let key = PrivateKeyDer::from_pem_slice(&read("--key", key)?).map_err(|_| {
            format!("--key {} holds no key in PEM, or an encrypted one", key.display())
        })?;
        let config = config(certificates, key)
            .map_err(|error| format!("--cert and --key can't be used together: {error}"))?;
        Ok(Identity { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }
}

fn config(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    // As PostgreSQL does: a session that is resumed shows no certificate to bind a login to.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// What every connection needs.
pub(super) struct FromClients {
    acceptor: TlsAcceptor,
    splice: SocketAddr,
}

impl FromClients {
    pub(super) fn new(identity: Identity, splice: SocketAddr) -> FromClients {
        FromClients { acceptor: identity.acceptor, splice }
    }

    /// Carries what comes to this socket.
    pub(super) async fn listen(self: Arc<FromClients>, listener: TcpListener) {
        loop {
            let Ok((client, _)) = listener.accept().await else {
                // No descriptor is left until a connection ends.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let relay = self.clone();
            // An error is the end of one of both, and dropping them tells the other.
            tokio::spawn(async move { relay.carry(client).await });
        }
    }

    async fn carry(&self, mut client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        loop {
            let mut first = [0];
            client.peek(&mut first).await?;
            match first[0] {
                0 => {}
                0x16 => return self.carry_tls(client).await,
                _ => {
                    ended(&mut client, format!("-ERR {NEEDS_TLS}\r\n").as_bytes()).await;
                    return Ok(());
                }
            }
            let len = client.read_u32().await?.clamp(8, STARTUP_LEN_MAX) as usize;
            match client.read_u32().await? {
                GSSENC_CODE => client.write_all(b"N").await?,
                // Bytes that came before the handshake are not the client's (CVE-2021-23214).
                CODE if matches!(client.try_read(&mut [0]), Ok(1)) => return Ok(()),
                CODE => {
                    client.write_all(b"S").await?;
                    return self.carry_tls(client).await;
                }
                cancel_request::CODE => {
                    let mut splice = self.dial().await?;
                    splice.write_u32(len as u32).await?;
                    splice.write_u32(cancel_request::CODE).await?;
                    return pass(&mut client, &mut splice).await;
                }
                _ => {
                    client.read_exact(&mut vec![0; len - 8]).await?;
                    ended(&mut client, &error(NEEDS_TLS)).await;
                    return Ok(());
                }
            }
        }
    }

    async fn carry_tls(&self, client: TcpStream) -> io::Result<()> {
        let mut client = timeout(HANDSHAKE_MAX, self.acceptor.accept(client)).await??;
        let mut splice = self.dial().await?;
        pass(&mut client, &mut splice).await
    }

    async fn dial(&self) -> io::Result<TcpStream> {
        let splice = TcpStream::connect(self.splice).await?;
        splice.set_nodelay(true)?;
        Ok(splice)
    }
}

/// How long a client may take for the handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(60);

const NEEDS_TLS: &str = "onetrip profile: only TLS is accepted here, since --cert was given: set \
                         the client's sslmode to require or higher (Redis: rediss://)";

async fn pass<C: AsyncRead + AsyncWrite + Unpin>(
    client: &mut C,
    splice: &mut TcpStream,
) -> io::Result<()> {
    copy_bidirectional_with_sizes(client, splice, BUFFER, BUFFER).await.map(|_| ())
}
