//! How TLS begins: the question whether the server has it, its answer of one byte, the handshake.
//!
//! Until the handshake is done the peer is a stranger, and so is whoever stands in between. Of all
//! that they send nothing is shown but TLS's own alerts, and nothing is kept:
//! - The answer is read by itself. The server then waits for us, so a byte that is there already
//!   is a stranger's, and ends the connection (CVE-2021-23222); one that comes later meets rustls,
//!   which takes nothing but TLS.
//! - An ErrorResponse in its place is not read (CVE-2024-10977).

use std::io;

use onetrip_postgres::message::ssl_request::{Answer, SSL_REQUEST};

use super::Setup;
use super::explain::explain;
use super::files::ALPN;
use crate::config::SslNegotiation;
use crate::socket::{Ending, Stream};
use crate::{Error, Kind, Outcome};

/// Why a connection has no TLS.
#[derive(Debug)]
pub(crate) enum TlsFailure {
    /// The server has none. The connection can be used without, where that is allowed.
    NotOffered(Box<Stream>),
    /// The handshake failed. Another connection may do without, where that is allowed.
    Handshake(Error),
    /// Nothing else is to be tried with this server: it is none, or somebody stands in between, or
    /// a file of ours can't be used.
    Final(Error),
}

/// Puts TLS onto an open connection to the server of this name, or says why not. Dropping the
/// future gives the connection up.
pub(crate) async fn secure(
    mut stream: Stream,
    setup: &Setup,
    name: &str,
) -> Result<Stream, TlsFailure> {
    let direct = setup.settings.sslnegotiation == SslNegotiation::Direct;
    if !direct && !setup.at_once {
        match ask(&mut stream, name).await.map_err(TlsFailure::Final)? {
            Answer::Accepted if stream.try_read_byte() => return Err(refused(name, EARLY_BYTES)),
            Answer::Accepted => {}
            Answer::Refused => return Err(TlsFailure::NotOffered(Box::new(stream))),
            Answer::Error => return Err(refused(name, ERROR_RESPONSE)),
        }
    }
    let session = setup.session().await.map_err(TlsFailure::Final)?;
    stream.begin_tls(session);
    let done = shake_hands(&mut stream, setup).await;
    done.map_err(|why| TlsFailure::Handshake(tls_error(name, &why)))?;
    let protocol = stream.tls().and_then(|tls| tls.protocol());
    if direct && protocol != Some(ALPN) {
        return Err(refused(name, NO_ALPN));
    }
    Ok(stream)
}

/// Asks the server for TLS, and reads its answer and no byte more.
async fn ask(stream: &mut Stream, name: &str) -> Result<Answer, Error> {
    let failed = |kind, why: &str| {
        Error::new(kind, Outcome::NotSent, "connect_failed", format!("{name}: {why}"))
    };
    let lost = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => failed(Kind::Transport, CLOSED_BEFORE),
        _ => failed(Kind::Transport, LOST_BEFORE).with_source(error),
    };
    stream.write_all(&SSL_REQUEST).await.map_err(lost)?;
    let byte = stream.read_byte().await.map_err(lost)?;
    Answer::from_byte(byte).ok_or_else(|| failed(Kind::Protocol, NOT_POSTGRES))
}

/// Writes and reads until both sides have what they need, or says why they don't.
async fn shake_hands(stream: &mut Stream, setup: &Setup) -> Result<(), String> {
    let lost = |error: &io::Error| format!("{LOST_DURING} ({error})");
    loop {
        stream.flush().await.map_err(|error| lost(&error))?;
        if !stream.tls().is_some_and(|tls| tls.is_handshaking()) {
            return Ok(());
        }
        match stream.read().await.end {
            None => {}
            Some(Ending::Failed(error)) => {
                return Err(explain(&error, &setup.settings).unwrap_or_else(|| lost(&error)));
            }
            Some(Ending::Closed | Ending::CutOff) => {
                return Err(match setup.settings.sslnegotiation {
                    SslNegotiation::Direct => format!("{CLOSED_DURING}: {NEEDS_17}"),
                    _ => CLOSED_DURING.to_owned(),
                });
            }
        }
    }
}

fn refused(name: &str, why: &str) -> TlsFailure {
    TlsFailure::Final(tls_error(name, why))
}

fn tls_error(name: &str, why: &str) -> Error {
    Error::new(Kind::Transport, Outcome::NotSent, "tls_failed", format!("{name}: {why}"))
}

const LOST_BEFORE: &str = "the connection was lost before TLS began";
const CLOSED_BEFORE: &str = "the server closed the connection when it was asked for TLS";
const LOST_DURING: &str = "the connection was lost during the TLS handshake";
const CLOSED_DURING: &str = "the server closed the connection during the TLS handshake";
const NEEDS_17: &str = "sslnegotiation=direct needs PostgreSQL 17 or later, with TLS switched on";
const ERROR_RESPONSE: &str = "the server answered the question for TLS with an error, which is not \
     shown since nobody knows who wrote it: see the server's log";
const NOT_POSTGRES: &str = "the peer does not speak PostgreSQL's protocol: is the port that of another \
     service, or does it expect TLS at once (sslnegotiation=direct)?";
const EARLY_BYTES: &str = "something was sent between the server's consent to TLS and the handshake, \
     so somebody may have tampered with the connection, which was closed";
const NO_ALPN: &str = "the server did not agree to speak PostgreSQL's protocol (ALPN), which \
     sslnegotiation=direct needs: is the port that of another service?";
