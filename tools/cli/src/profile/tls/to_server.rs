//! Behind a splice: connections that come in clear go on to the server as its settings want them.
//!
//! A client that asks for TLS or for encryption by GSSAPI is told that there is none. A client that
//! begins TLS without asking is passed on as it is. The rest is copied unchanged, but for the offer
//! of how to log in (see `offer`). Of a login nothing is sent before the server has been verified.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use onetrip::TlsSetup;
use onetrip::config::{Settings, SslMode, SslNegotiation};
use onetrip_postgres::message::error_response::{self, field};
use onetrip_postgres::message::ssl_request::{Answer, CODE, GSSENC_CODE, SSL_REQUEST};
use onetrip_postgres::message::{STARTUP_LEN_MAX, cancel_request};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes,
};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::offer::{Offer, Step};
use super::rtt::Rtt;
use super::{BUFFER, Notes, Server, ended};

/// What every connection to one server needs.
pub(super) struct ToServer {
    server: Server,
    postgres: Leg,
    at_once: Leg,
    clients: Clients,
    notes: Notes,
    pub(super) rtt: Arc<Rtt>,
}

/// How clients reach the splice.
pub(super) enum Clients {
    InClear,
    /// Over TLS, where they see this certificate.
    OverTls(CertificateDer<'static>),
}

/// How the server is reached, for one of the two ways to begin.
struct Leg {
    tls: Option<Tls>,
    /// Without TLS if the server has none, as the user's sslmode says.
    may_be_plain: bool,
}

struct Tls {
    setup: TlsSetup,
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Leg {
    async fn new(server: &Server, settings: &Settings, is_asked: bool) -> Result<Leg, String> {
        if settings.sslmode == SslMode::Disable {
            return Ok(Leg { tls: None, may_be_plain: true });
        }
        let setup = TlsSetup::new(settings, &server.host, server.addresses[0].ip());
        let setup = if is_asked { setup } else { setup.at_once() };
        let (config, name) = setup.client().await.map_err(|error| error.to_string())?;
        let tls = Tls { setup, connector: TlsConnector::from(Arc::new(config)), name };
        Ok(Leg { tls: Some(tls), may_be_plain: !settings.sslmode.requires_tls() })
    }
}

/// How a client began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beginning {
    /// A session of PostgreSQL.
    Session,
    /// To cancel a statement of another one.
    Cancel,
    /// TLS, without asking.
    Tls,
    /// Something else, such as Redis.
    Other,
}

impl ToServer {
    /// # Errors
    /// A file of the settings can't be used, in one line.
    pub(super) async fn new(
        server: Server,
        clients: Clients,
        notes: Notes,
    ) -> Result<ToServer, String> {
        let postgres = Leg::new(&server, &server.postgres, true).await?;
        let at_once = Leg::new(&server, &server.at_once, false).await?;
        Ok(ToServer { server, postgres, at_once, clients, notes, rtt: Arc::default() })
    }

    /// Carries what comes to this socket.
    pub(super) async fn listen(self: Arc<ToServer>, listener: UnixListener) {
        loop {
            let Ok((client, _)) = listener.accept().await else {
                // No descriptor is left until a connection ends.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let relay = self.clone();
            tokio::spawn(async move { relay.carry(client).await });
        }
    }

    async fn carry(&self, mut client: UnixStream) {
        // An error is the end of one of both, and dropping them tells the other.
        let Ok(Some((beginning, begun))) = self.beginning(&mut client).await else { return };
        let carried = match beginning {
            Beginning::Tls => self.carry_plain(&mut client, &begun).await,
            Beginning::Session | Beginning::Cancel => self.carry_asked(&mut client, &begun).await,
            Beginning::Other => self.carry_at_once(&mut client, &begun).await,
        };
        let Err(why) = carried else { return };
        let text = format!("{}: {}: {why}", self.notes.command, self.server);
        self.notes.note(&text);
        match beginning {
            Beginning::Session => ended(&mut client, &error(&text)).await,
            Beginning::Other => ended(&mut client, format!("-ERR {text}\r\n").as_bytes()).await,
            Beginning::Cancel | Beginning::Tls => {}
        }
    }

    /// Reads how the client begins, and what it has said until then.
    async fn beginning(
        &self,
        client: &mut UnixStream,
    ) -> io::Result<Option<(Beginning, BytesMut)>> {
        let mut begun = BytesMut::with_capacity(512);
        let mut was_refused = false;
        loop {
            if !read_to(client, &mut begun, 1).await? {
                if was_refused {
                    self.notes.note(LEFT);
                }
                return Ok(None);
            }
            match begun[0] {
                0 => {}
                0x16 => return Ok(Some((Beginning::Tls, begun))),
                _ => return Ok(Some((Beginning::Other, begun))),
            }
            if !read_to(client, &mut begun, 8).await? {
                return Ok(None);
            }
            let number = |at: usize| {
                u32::from_be_bytes([begun[at], begun[at + 1], begun[at + 2], begun[at + 3]])
            };
            let len = number(0).clamp(8, STARTUP_LEN_MAX) as usize;
            match number(4) {
                CODE | GSSENC_CODE => {
                    was_refused |= number(4) == CODE;
                    let _ = begun.split_to(8);
                    client.write_all(b"N").await?;
                }
                code => {
                    let is_cancel = code == cancel_request::CODE;
                    let is_whole = read_to(client, &mut begun, len).await?;
                    let kind = if is_cancel { Beginning::Cancel } else { Beginning::Session };
                    return Ok(is_whole.then_some((kind, begun)));
                }
            }
        }
    }

    /// For PostgreSQL.
    async fn carry_asked(&self, client: &mut UnixStream, begun: &[u8]) -> Result<(), String> {
        let Some(tls) = &self.postgres.tls else { return self.carry_plain(client, begun).await };
        let mut server = self.connect().await?;
        if tls.setup.is_asked_for() {
            match self.within(ask(&mut server)).await? {
                true => {}
                false if self.postgres.may_be_plain => {
                    pass(client, &mut server, begun).await;
                    return Ok(());
                }
                false => return Err(NO_TLS.to_owned()),
            }
        }
        let mut server = self.within(shake_hands(tls, server)).await?;
        let connection = server.get_ref().1;
        if self.server.postgres.sslnegotiation == SslNegotiation::Direct
            && connection.alpn_protocol() != Some(b"postgresql")
        {
            return Err(NO_ALPN.to_owned());
        }
        match &self.clients {
            Clients::InClear => {
                if !log_in(client, &mut server, begun).await? {
                    return Ok(());
                }
                pass(client, &mut server, &[]).await;
            }
            Clients::OverTls(shown) => {
                if connection.peer_certificates().and_then(<[_]>::first) != Some(shown) {
                    self.notes.note(OTHER_CERTIFICATE);
                }
                pass(client, &mut server, begun).await;
            }
        }
        Ok(())
    }

    async fn carry_at_once(&self, client: &mut UnixStream, begun: &[u8]) -> Result<(), String> {
        let Some(tls) = &self.at_once.tls else { return self.carry_plain(client, begun).await };
        let server = self.connect().await?;
        let mut server = self.within(shake_hands(tls, server)).await?;
        pass(client, &mut server, begun).await;
        Ok(())
    }

    async fn carry_plain(&self, client: &mut UnixStream, begun: &[u8]) -> Result<(), String> {
        let mut server = self.connect().await?;
        pass(client, &mut server, begun).await;
        Ok(())
    }

    async fn connect(&self) -> Result<TcpStream, String> {
        let mut why = String::new();
        for address in &self.server.addresses {
            let connect = async {
                let start = Instant::now();
                let stream = TcpStream::connect(address).await.map_err(|it| it.to_string())?;
                self.rtt.note(start.elapsed());
                stream.set_nodelay(true).map_err(|it| it.to_string())?;
                Ok(stream)
            };
            match self.within(connect).await {
                Ok(stream) => return Ok(stream),
                Err(error) => why = error,
            }
        }
        Err(format!("can't connect ({why}): is the server running, and the address right?"))
    }

    async fn within<T>(&self, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let Some(limit) = self.server.postgres.connect_timeout else { return work.await };
        let late = || format!("no answer within {limit:?} (connect_timeout): is it reachable?");
        timeout(limit, work).await.unwrap_or_else(|_| Err(late()))
    }
}

/// Asks the server for TLS.
async fn ask(server: &mut TcpStream) -> Result<bool, String> {
    let lost = |error: io::Error| format!("the connection was lost before TLS began ({error})");
    server.write_all(&SSL_REQUEST).await.map_err(lost)?;
    let answer = Answer::from_byte(server.read_u8().await.map_err(lost)?);
    match answer {
        // A byte that came before the handshake is not the server's (CVE-2021-23222).
        Some(Answer::Accepted) if matches!(server.try_read(&mut [0]), Ok(1)) => {
            Err("bytes came before the TLS handshake: something in between tampers".to_owned())
        }
        Some(Answer::Accepted) => Ok(true),
        Some(Answer::Refused) => Ok(false),
        Some(Answer::Error) | None => {
            Err("the server did not say whether it has TLS: is it PostgreSQL?".to_owned())
        }
    }
}

type Encrypted = tokio_rustls::client::TlsStream<TcpStream>;

async fn shake_hands(tls: &Tls, server: TcpStream) -> Result<Encrypted, String> {
    tls.connector.connect(tls.name.clone(), server).await.map_err(|error| {
        let why = tls.setup.explain(&error);
        let why = why.unwrap_or_else(|| format!("the TLS handshake failed ({error})"));
        format!("{why}; --tls, --tls-root and the host say what is verified")
    })
}

/// Passes on both directions up to the server's offer of how to log in, without what needs TLS up to
/// the client. Returns whether both go on.
async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut UnixStream,
    server: &mut S,
    begun: &[u8],
) -> Result<bool, String> {
    let mut offer = Offer::default();
    let (mut from_client, mut from_server) = ([0; 1024], [0; 4096]);
    let passed = async {
        server.write_all(begun).await?;
        server.flush().await?;
        loop {
            tokio::select! {
                read = client.read(&mut from_client) => match read? {
                    0 => return Ok(None),
                    len => {
                        server.write_all(&from_client[..len]).await?;
                        server.flush().await?;
                    }
                },
                read = server.read(&mut from_server) => match read? {
                    0 => return Ok(None),
                    len => match offer.read(&from_server[..len]) {
                        Step::Pass(bytes) => client.write_all(&bytes).await?,
                        Step::Done(bytes) => {
                            client.write_all(&bytes).await?;
                            return Ok(Some(true));
                        }
                        Step::OnlyBound => return Ok(Some(false)),
                    },
                },
            }
        }
    };
    let passed: io::Result<Option<bool>> = passed.await;
    match passed {
        Ok(Some(false)) => Err(ONLY_BOUND.to_owned()),
        Ok(Some(true)) => Ok(true),
        Ok(None) | Err(_) => Ok(false),
    }
}

/// Passes on both directions until both have ended, in buffers of a fixed size. An error is the end
/// of one of both; dropping the other then ends it too.
async fn pass<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut UnixStream,
    server: &mut S,
    begun: &[u8],
) {
    let begin = async {
        server.write_all(begun).await?;
        server.flush().await
    };
    let begun: io::Result<()> = begin.await;
    if begun.is_ok() {
        let _ = copy_bidirectional_with_sizes(client, server, BUFFER, BUFFER).await;
    }
}

/// Reads until there are this many bytes; false if the client ends before.
async fn read_to(client: &mut UnixStream, into: &mut BytesMut, len: usize) -> io::Result<bool> {
    while into.len() < len {
        if client.read_buf(into).await? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An ErrorResponse.
pub(super) fn error(text: &str) -> BytesMut {
    let mut out = BytesMut::new();
    let fields = [
        (field::SEVERITY, &b"FATAL"[..]),
        (field::SEVERITY_NONLOCALIZED, b"FATAL"),
        // sqlclient_unable_to_establish_sqlconnection
        (field::CODE, b"08001"),
        (field::MESSAGE, text.as_bytes()),
    ];
    // Only a NUL could be wrong, and no text of ours has one.
    let _ = error_response::write(&mut out, fields);
    out
}

const NO_TLS: &str = "the server has no TLS, which is required here: switch it on there (ssl=on), \
                      or give --tls off if everybody on the way may read and change what is sent";
const NO_ALPN: &str = "the server did not agree on PostgreSQL's protocol within TLS (ALPN): \
                       sslnegotiation=direct needs PostgreSQL 17 or later";
const ONLY_BOUND: &str = "the server offers SCRAM-SHA-256-PLUS only, which needs TLS up to the \
                          client: give --cert and --key with the server's own certificate";
const LEFT: &str = "a client asked for TLS and left when it was told that there is none: set its \
                    sslmode to prefer or disable, or give --cert and --key";
const OTHER_CERTIFICATE: &str = "the certificate of --cert is not the server's: clients that bind \
                                 a login to it are refused; set channel_binding=disable in them";
