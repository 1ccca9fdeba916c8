//! The start of TLS: the question whether the server has it, the answer of one byte, the handshake.
//!
//! Until the handshake is done the peer is not verified, and neither is whoever is in between. Of
//! all they send, only TLS's own alerts are shown, and nothing is kept:
//! - The answer is read by itself. The server then waits for us, so a further byte that has arrived
//!   already is not the server's, and ends the connection (CVE-2021-23222). A byte that comes later
//!   reaches rustls, which accepts nothing but TLS.
//! - An ErrorResponse in place of the answer is not read (CVE-2024-10977).

use std::io;

use onetrip_postgres::message::ssl_request::{Answer, SSL_REQUEST};

use super::Setup;
use super::files::ALPN;
use crate::config::SslNegotiation;
use crate::socket::{Ending, Stream};
use crate::{Error, Kind, Outcome};

/// Why a connection has no TLS.
#[derive(Debug)]
pub(crate) enum TlsFailure {
    /// The handshake failed. If that is allowed, another connection may be opened without TLS.
    Handshake(Error),
    /// The server did not agree on the protocol within TLS (ALPN).
    NoAlpn,
    /// A file on this side can't be used.
    Setup(Error),
}

/// Asks the server for TLS, and reads only its answer of one byte; `None` if it closed the
/// connection. The flag says whether more bytes came behind a yes or a no.
pub(crate) async fn ask(stream: &mut Stream, name: &str) -> Result<(Option<Answer>, bool), Error> {
    let failed = |why| {
        Error::new(Kind::Transport, Outcome::NotSent, "connect_failed", format!("{name}: {why}"))
    };
    let lost = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => failed(CLOSED_BEFORE),
        _ => failed(LOST_BEFORE).with_source(error),
    };
    stream.write_all(&SSL_REQUEST).await.map_err(lost)?;
    let answer = Answer::from_byte(stream.read_byte().await.map_err(lost)?);
    let waits = matches!(answer, Some(Answer::Accepted | Answer::Refused));
    Ok((answer, waits && stream.try_read_byte()))
}

/// Sets up TLS on an open connection. Dropping the future gives the connection up.
pub(crate) async fn begin(
    stream: &mut Stream,
    setup: &Setup,
    name: &str,
) -> Result<(), TlsFailure> {
    let session = setup.session().await.map_err(TlsFailure::Setup)?;
    stream.begin_tls(session);
    shake_hands(stream, setup).await.map_err(|why| {
        let why = format!("{name}: {why}");
        TlsFailure::Handshake(Error::new(Kind::Transport, Outcome::NotSent, "tls_failed", why))
    })?;
    let protocol = stream.tls().and_then(|tls| tls.protocol());
    match setup.settings.sslnegotiation == SslNegotiation::Direct && protocol != Some(ALPN) {
        true => Err(TlsFailure::NoAlpn),
        false => Ok(()),
    }
}

/// Writes and reads until the handshake is complete, or returns why it failed.
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
                return Err(setup.explain(&error).unwrap_or_else(|| lost(&error)));
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

const LOST_BEFORE: &str = "the connection was lost before TLS began";
const CLOSED_BEFORE: &str = "the server closed the connection when it was asked for TLS";
const LOST_DURING: &str = "the connection was lost during the TLS handshake";
const CLOSED_DURING: &str = "the server closed the connection during the TLS handshake";
const NEEDS_17: &str = "sslnegotiation=direct needs PostgreSQL 17 or later, with TLS switched on";
