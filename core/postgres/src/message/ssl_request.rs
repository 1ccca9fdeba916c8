//! SSLRequest, GSSENCRequest, and the single byte that answers them.

/// NEGOTIATE_SSL_CODE in src/include/libpq/pqcomm.h: version 1234.5679.
pub const CODE: u32 = 1234 << 16 | 5679;

/// NEGOTIATE_GSS_CODE in src/include/libpq/pqcomm.h: version 1234.5680.
pub const GSSENC_CODE: u32 = 1234 << 16 | 5680;

/// SSLRequest. The server answers with one byte, see [`Answer`].
pub const SSL_REQUEST: [u8; 8] = packet(CODE);

/// GSSENCRequest.
pub const GSSENC_REQUEST: [u8; 8] = packet(GSSENC_CODE);

const fn packet(code: u32) -> [u8; 8] {
    let [a, b, c, d] = code.to_be_bytes();
    [0, 0, 0, 8, a, b, c, d]
}

/// The server's answer to SSLRequest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `S`: the TLS handshake follows. If bytes come before it, the connection must be closed.
    Accepted,
    /// `N`: the connection stays unencrypted, unless the client closes it.
    Refused,
    /// `E`: an ErrorResponse begins. It is not authenticated, and must not be shown if TLS was
    /// required.
    Error,
}

impl Answer {
    /// Reads the byte; `None` if the peer speaks another protocol.
    pub fn from_byte(byte: u8) -> Option<Answer> {
        match byte {
            b'S' => Some(Answer::Accepted),
            b'N' => Some(Answer::Refused),
            b'E' => Some(Answer::Error),
            _ => None,
        }
    }
}
