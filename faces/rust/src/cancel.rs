//! Sends cancel requests, each on a connection of its own. It is opened as the victim's was: to the
//! same address, and with TLS if the victim's has TLS. The engine decides when a cancel may be
//! sent, and what may be sent meanwhile.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::BytesMut;
use onetrip_postgres::message::{CancelRequest, Secret};
use onetrip_postgres::startup::SecretKey;
use tokio::sync::Semaphore;

use crate::config::Settings;
use crate::open::{Route, open};
use crate::socket::{Ending, Stream};

/// What the cancels of a client share.
pub(crate) struct Cancels {
    pub(crate) permits: Semaphore,
    pub(crate) is_on: bool,
    pub(crate) timeout: Duration,
    pub(crate) settings: Settings,
}

/// Identifies a connection to its server, for a CancelRequest. `Debug` shows none of it.
#[derive(Clone)]
pub(crate) struct CancelKey {
    process_id: i32,
    secret: SecretKey,
}

impl Cancels {
    pub(crate) fn new(settings: &Settings) -> Cancels {
        Cancels {
            permits: Semaphore::new(settings.cancels_max.min(Semaphore::MAX_PERMITS)),
            is_on: settings.cancels_max > 0,
            timeout: settings.cancel_timeout,
            settings: settings.clone(),
        }
    }
}

impl fmt::Debug for Cancels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancels").field("permits", &self.permits).finish_non_exhaustive()
    }
}

impl CancelKey {
    pub(crate) fn new(process_id: i32, secret: SecretKey) -> CancelKey {
        CancelKey { process_id, secret }
    }

    /// The CancelRequest; `None` if the server gave no key.
    pub(crate) fn request(&self) -> Option<BytesMut> {
        let mut out = BytesMut::new();
        let secret_key = Secret(self.secret.as_bytes());
        CancelRequest { process_id: self.process_id, secret_key }.encode(&mut out).ok()?;
        Some(out)
    }
}

impl fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Sends a cancel for the connection that the key belongs to. The result is not reported to
/// anybody.
pub(crate) async fn send_cancel(settings: &Settings, route: &Route, key: &CancelKey) -> Option<()> {
    let request = key.request()?;
    let mut stream = open(settings, route).await.ok()?;
    deliver(&mut stream, &request).await.ok()
}

/// Sends the request, and waits until the server has closed the connection. By then it has passed
/// the cancel on: SendCancelRequest in src/backend/storage/ipc/procsignal.c sends a signal, and
/// then the process that served this connection ends.
pub(crate) async fn deliver(stream: &mut Stream, request: &[u8]) -> io::Result<()> {
    stream.write_all(request).await?;
    loop {
        match stream.read().await.end {
            None => stream.input.clear(),
            // The server closes this connection without TLS's close_notify.
            Some(Ending::Closed | Ending::CutOff) => return Ok(()),
            Some(Ending::Failed(error)) => return Err(error),
        }
    }
}
