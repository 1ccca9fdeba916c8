//! TLS of one connection, between the engine's bytes and the socket. It does no I/O of its own.
//!
//! Bounded: at most [`OUTSTANDING_MAX`] bytes wait to be written. Bytes that are read are decrypted
//! at once, so none wait inside.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::sync::Arc;

use bytes::BytesMut;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::certificate;

/// How many encrypted bytes may wait for the socket: four records. More would only wait here
/// instead of in the engine, which can take back requests that were not sent.
pub(super) const OUTSTANDING_MAX: usize = 64 << 10;

/// One side of a TLS connection.
pub(crate) struct Session {
    tls: ClientConnection,
}

/// The result of decrypting.
pub(crate) struct Decrypted {
    /// How many bytes were appended.
    pub(crate) bytes: usize,
    /// Whether the peer has sent close_notify: no more bytes come.
    pub(crate) closed: bool,
    /// The error behind those bytes.
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

    /// The data that a login is bound to; see [`certificate::end_point`].
    pub(crate) fn end_point(&self) -> Option<Vec<u8>> {
        certificate::end_point(self.tls.peer_certificates()?.first()?)
    }

    /// Encrypts as many bytes as there is room for, and writes what the socket takes. Returns how
    /// many bytes were taken; they count as handed over, even if the socket takes them later.
    ///
    /// # Errors
    /// `WouldBlock` if nothing could be taken; otherwise the socket's error, and nothing was taken.
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
        // An error shows again at the next write; these bytes were taken all the same.
        let _ = self.flush(socket);
        Ok(taken)
    }

    /// Writes the bytes that wait for the socket.
    ///
    /// # Errors
    /// `WouldBlock` if the socket did not take all of them; otherwise the socket's error.
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

    /// Whether no bytes wait for the socket. Reading may produce some: an alert, new keys.
    pub(crate) fn is_flushed(&self) -> bool {
        !self.tls.wants_write()
    }

    /// Sends close_notify. Further calls change nothing.
    pub(crate) fn say_goodbye(&mut self) {
        self.tls.send_close_notify();
    }

    /// Takes all of `encrypted`, and appends the decrypted bytes to `plain`.
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
            // rustls reads nothing of a record that is longer than allowed.
            Ok(0) | Err(_) => {
                decrypted.error = Some(rustls::Error::PeerSentOversizedRecord);
                return;
            }
        }
        let state = self.tls.process_new_packets();
        // Bytes before an error are valid.
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

/// `Debug` shows no keys.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("version", &self.tls.protocol_version()).finish()
    }
}
