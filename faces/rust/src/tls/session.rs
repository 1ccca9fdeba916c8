//! TLS of one connection, between the engine's bytes and the socket: what it takes, what it gives,
//! and when it wants to write. It does no I/O of its own.
//!
//! Bounded: at most [`OUTSTANDING_MAX`] bytes wait to be written, and what is read is decrypted at
//! once, so that nothing waits inside.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::sync::Arc;

use bytes::BytesMut;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::certificate;

/// Encrypted bytes that may wait for the socket: four records. More would only be held here
/// instead of in the engine, which knows what to do with requests that were not sent.
pub(super) const OUTSTANDING_MAX: usize = 64 << 10;

/// One side of a TLS connection.
pub(crate) struct Session {
    tls: ClientConnection,
}

/// What decrypting came to.
pub(crate) struct Decrypted {
    /// Bytes that were appended.
    pub(crate) bytes: usize,
    /// Whether the peer has said that nothing more comes (close_notify).
    pub(crate) closed: bool,
    /// What was wrong behind those bytes.
    pub(crate) error: Option<rustls::Error>,
}

impl Session {
    pub(super) fn new(
        config: ClientConfig,
        name: ServerName<'static>,
    ) -> Result<Session, rustls::Error> {
        let mut tls = ClientConnection::new(Arc::new(config), name)?;
        tls.set_buffer_limit(Some(OUTSTANDING_MAX));
        Ok(Session { tls })
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    /// What a login is bound to; see [`certificate::end_point`].
    pub(crate) fn end_point(&self) -> Option<Vec<u8>> {
        certificate::end_point(self.tls.peer_certificates()?.first()?)
    }

    /// Encrypts what there is room for and writes what the socket takes. Returns how many bytes
    /// were taken; they count as handed over, whenever the socket takes them.
    ///
    /// # Errors
    /// `WouldBlock` when nothing could be taken; else the socket's error, and nothing was taken.
    pub(crate) fn write(&mut self, plain: &[u8], socket: &mut impl Write) -> io::Result<usize> {
        let blocked = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => Ok(()),
            _ => Err(error),
        };
        self.flush(socket).or_else(blocked)?;
        let taken = self.tls.writer().write(plain)?;
        if taken == 0 && !plain.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // An error comes up again at the next write; what was taken has been taken.
        let _ = self.flush(socket);
        Ok(taken)
    }

    /// Writes what waits to be written.
    ///
    /// # Errors
    /// `WouldBlock` when the socket did not take all of it; else the socket's error.
    pub(crate) fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether nothing waits to be written. Reading may leave something: an alert, new keys.
    pub(crate) fn is_flushed(&self) -> bool {
        !self.tls.wants_write()
    }

    /// Says that nothing more will be written (close_notify). Once is enough.
    pub(crate) fn say_goodbye(&mut self) {
        self.tls.send_close_notify();
    }

    /// Takes all of `encrypted`, and appends to `plain` what it says.
    pub(crate) fn decrypt(&mut self, encrypted: &mut BytesMut, plain: &mut BytesMut) -> Decrypted {
        let mut decrypted = Decrypted { bytes: 0, closed: false, error: None };
        let mut rest: &[u8] = encrypted;
        while !rest.is_empty() && !decrypted.closed && decrypted.error.is_none() {
            self.decrypt_some(&mut rest, plain, &mut decrypted);
        }
        encrypted.clear();
        decrypted
    }

    fn decrypt_some(&mut self, rest: &mut &[u8], plain: &mut BytesMut, decrypted: &mut Decrypted) {
        match self.tls.read_tls(rest) {
            Ok(1..) => {}
            // It reads nothing where a record is longer than records can be.
            Ok(0) | Err(_) => {
                decrypted.error = Some(rustls::Error::PeerSentOversizedRecord);
                return;
            }
        }
        let state = self.tls.process_new_packets();
        // What came before an error is as good as ever.
        let mut reader = self.tls.reader();
        while let Ok(chunk) = reader.fill_buf()
            && !chunk.is_empty()
        {
            let len = chunk.len();
            plain.extend_from_slice(chunk);
            decrypted.bytes += len;
            reader.consume(len);
        }
        match state {
            Ok(state) => decrypted.closed = state.peer_has_closed(),
            Err(error) => decrypted.error = Some(error),
        }
    }
}

/// Nothing of its keys.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("version", &self.tls.protocol_version()).finish()
    }
}
