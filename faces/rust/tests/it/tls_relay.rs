//! A TLS server in between: it ends the client's TLS, and passes the contents on to a server with
//! or without TLS. Poolers do this, and so do attackers.

use std::io::{BufRead, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use onetrip::Config;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::certificates::{HOST, Identity, TlsServer};

/// What a relay does besides passing bytes on.
#[derive(Clone, Copy, Default)]
pub(crate) struct Relay {
    /// Whether it uses TLS to the server, too.
    pub(crate) server_tls: bool,
    /// Whether it removes SCRAM-SHA-256-PLUS from the server's offer.
    pub(crate) hides_binding: bool,
    /// Whether it changes its keys before each piece that it passes to the client.
    pub(crate) changes_keys: bool,
    /// Whether TLS begins at once.
    pub(crate) direct: bool,
    /// Whether it agrees to speak PostgreSQL's protocol (ALPN).
    pub(crate) agrees: bool,
    /// Whether it leaves out close_notify when it closes the connection.
    pub(crate) just_hangs_up: bool,
}

/// A relay that is listening.
#[derive(Clone)]
pub(crate) struct Listening {
    pub(crate) port: u16,
    /// Whether a client has sent close_notify.
    pub(crate) client_said_goodbye: Arc<AtomicBool>,
    /// The names that clients sent (SNI), if any, for each connection that has ended.
    pub(crate) names: Arc<Mutex<Vec<Option<String>>>>,
    /// Ends one connection.
    pub(crate) hang_up: Arc<Notify>,
}

impl Listening {
    /// The configuration of a client, with the relay in place of the server.
    pub(crate) fn instead(&self, server: &TlsServer, settings: &str) -> Config {
        server.config(&format!("port={} {settings}", self.port))
    }
}

impl Relay {
    /// Listens, with this identity, in front of this server. Runs as tasks of the runtime.
    pub(crate) async fn listen(self, identity: &Identity, server: &TlsServer) -> Listening {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let client_said_goodbye = Arc::new(AtomicBool::new(false));
        let (hang_up, names) = (Arc::new(Notify::new()), Arc::default());
        let listening = Listening { port, client_said_goodbye, names, hang_up };
        let signals = listening.clone();
        let config = Arc::new(self.server_config(identity));
        let roots = std::fs::read(server.path("root.crt")).unwrap();
        let server_port = server.postgres.port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server_port)).await.unwrap();
                let (config, roots) = (config.clone(), roots.clone());
                tokio::spawn(self.serve(stream, server, config, roots, signals.clone()));
            }
        });
        listening
    }

    async fn serve(
        self,
        mut client: TcpStream,
        mut server: TcpStream,
        config: Arc<ServerConfig>,
        roots: Vec<u8>,
        signals: Listening,
    ) {
        if !self.direct {
            let mut request = [0; 8];
            if client.read_exact(&mut request).await.is_err() || request != SSL_REQUEST {
                return;
            }
            client.write_all(b"S").await.unwrap();
        }
        let mut client =
            Side { socket: client, tls: Some(ServerConnection::new(config).unwrap().into()) };
        let mut tls = None;
        if self.server_tls {
            server.write_all(&SSL_REQUEST).await.unwrap();
            assert_eq!(server.read_u8().await.unwrap(), b'S');
            tls = Some(client_connection(&roots).into());
        }
        let mut server = Side { socket: server, tls };
        tokio::select! {
            () = self.pass_on(&mut client, &mut server) => while client.recv().await.is_some() {},
            () = signals.hang_up.notified() => {}
        }
        signals.client_said_goodbye.fetch_or(client.has_said_goodbye(), Ordering::SeqCst);
        signals.names.lock().unwrap().push(client.name());
        if !self.just_hangs_up {
            client.say_goodbye().await;
        }
    }

    fn server_config(self, identity: &Identity) -> ServerConfig {
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        if self.agrees {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        config
    }

    async fn pass_on(self, client: &mut Side, server: &mut Side) {
        loop {
            let passed = tokio::select! {
                said = client.recv() => match said {
                    Some(said) => server.send(&said).await,
                    None => return,
                },
                said = server.recv() => match said {
                    Some(said) => {
                        if self.changes_keys {
                            client.change_keys();
                        }
                        client.send(&self.changed(said)).await
                    }
                    None => return,
                },
            };
            if passed.is_err() {
                return;
            }
        }
    }

    fn changed(self, said: Vec<u8>) -> Vec<u8> {
        const OFFER: &[u8] = b"R\0\0\0\x2a\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
        match self.hides_binding && said == OFFER {
            true => b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0".to_vec(),
            false => said,
        }
    }
}

/// SSLRequest: its length, and 1234.5679 (NEGOTIATE_SSL_CODE in pqcomm.h).
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn client_connection(roots: &[u8]) -> ClientConnection {
    let mut store = RootCertStore::empty();
    store.add(CertificateDer::from_pem_slice(roots).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(store)
        .with_no_client_auth();
    ClientConnection::new(Arc::new(config), ServerName::try_from(HOST).unwrap()).unwrap()
}

/// One side of the relay.
struct Side {
    socket: TcpStream,
    tls: Option<Connection>,
}

impl Side {
    /// The next piece; `None` at the end. Cancel safe.
    async fn recv(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0; 16 << 10];
        loop {
            self.flush().await.ok()?;
            self.socket.readable().await.ok()?;
            let read = match self.socket.try_read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                read => read.ok().filter(|read| *read > 0)?,
            };
            let Some(tls) = &mut self.tls else { return Some(buffer[..read].to_vec()) };
            let said = decrypt(tls, &buffer[..read])?;
            if !said.is_empty() {
                return Some(said);
            }
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.tls {
            None => self.socket.write_all(bytes).await,
            Some(tls) => {
                tls.set_buffer_limit(None);
                tls.writer().write_all(bytes)?;
                self.flush().await
            }
        }
    }

    async fn flush(&mut self) -> std::io::Result<()> {
        let mut out = Vec::new();
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                tls.write_tls(&mut out)?;
            }
        }
        self.socket.write_all(&out).await
    }

    fn change_keys(&mut self) {
        if let Some(tls) = &mut self.tls
            && !tls.is_handshaking()
        {
            tls.refresh_traffic_keys().unwrap();
        }
    }

    fn name(&self) -> Option<String> {
        match &self.tls {
            Some(Connection::Server(server)) => server.server_name().map(str::to_owned),
            _ => None,
        }
    }

    fn has_said_goodbye(&mut self) -> bool {
        let read = self.tls.as_mut().map(|tls| tls.reader().fill_buf().map(<[u8]>::is_empty));
        matches!(read, Some(Ok(true)))
    }

    async fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        let _ = self.flush().await;
    }
}

/// `None` if TLS is broken or has ended.
fn decrypt(tls: &mut Connection, mut encrypted: &[u8]) -> Option<Vec<u8>> {
    let mut said = Vec::new();
    while !encrypted.is_empty() {
        tls.read_tls(&mut encrypted).ok()?;
        let state = tls.process_new_packets().ok()?;
        while let Ok(chunk) = tls.reader().fill_buf()
            && !chunk.is_empty()
        {
            let len = chunk.len();
            said.extend_from_slice(chunk);
            tls.reader().consume(len);
        }
        if state.peer_has_closed() {
            return Some(said).filter(|said| !said.is_empty());
        }
    }
    Some(said)
}
