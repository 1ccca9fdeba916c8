//! How the server lets a client log in, without what needs TLS up to the client.
//!
//! SCRAM-SHA-256-PLUS binds a login to the certificate that the client sees. A client without TLS
//! sees none, and refuses to go on where that is offered to it.

use bytes::BytesMut;
use onetrip_postgres::message::authentication::write_sasl;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{Authentication, Header};

const BOUND: &str = "SCRAM-SHA-256-PLUS";

/// Bytes that a server may send before it says how to log in.
const HELD_MAX: usize = 64 << 10;

/// What the server says from its first byte on, up to its offer of how to log in.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    held: BytesMut,
}

/// What becomes of bytes of the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// These are passed on, and more is read.
    Pass(BytesMut),
    /// These are passed on, and nothing behind them has to be looked at.
    Done(BytesMut),
    /// The server offers nothing that a client without TLS could use.
    OnlyBound,
}

impl Offer {
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Step {
        self.held.extend_from_slice(bytes);
        let mut out = BytesMut::new();
        loop {
            let header = Header::peek(&self.held);
            let len = match header {
                Ok(None) => return Step::Pass(out),
                Ok(Some(it)) if can_come_before(it.tag) => it.message_len(),
                _ => return self.done(out),
            };
            if len > HELD_MAX {
                return self.done(out);
            }
            if self.held.len() < len {
                return Step::Pass(out);
            }
            let message = self.held.split_to(len);
            if message[0] != backend::AUTHENTICATION {
                out.unsplit(message);
                continue;
            }
            return match Authentication::decode(&message[Header::LEN..]) {
                Ok(Authentication::Sasl(offered)) if offered.clone().any(|it| it == BOUND) => {
                    let left: Vec<&str> = offered.filter(|it| *it != BOUND).collect();
                    if left.is_empty() || write_sasl(&mut out, &left).is_err() {
                        return Step::OnlyBound;
                    }
                    self.done(out)
                }
                _ => {
                    out.unsplit(message);
                    self.done(out)
                }
            };
        }
    }

    fn done(&mut self, mut out: BytesMut) -> Step {
        out.unsplit(self.held.split());
        Step::Done(out)
    }
}

/// Whether it is the offer or may stand before it. An error ends the login.
fn can_come_before(tag: u8) -> bool {
    [backend::AUTHENTICATION, backend::NEGOTIATE_PROTOCOL_VERSION, backend::NOTICE_RESPONSE]
        .contains(&tag)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn offer(mechanisms: &[&str]) -> Vec<u8> {
        let mut out = BytesMut::new();
        write_sasl(&mut out, mechanisms).unwrap();
        out.to_vec()
    }

    /// What a client is sent of this, in pieces of this many bytes.
    fn sent(bytes: &[u8], size: usize) -> Option<Vec<u8>> {
        let (mut offer, mut out, mut is_done) = (Offer::default(), Vec::new(), false);
        for piece in bytes.chunks(size) {
            match is_done {
                true => out.extend_from_slice(piece),
                false => match offer.read(piece) {
                    Step::Pass(bytes) => out.extend_from_slice(&bytes),
                    Step::Done(bytes) => {
                        out.extend_from_slice(&bytes);
                        is_done = true;
                    }
                    Step::OnlyBound => return None,
                },
            }
        }
        Some(out)
    }

    #[test]
    fn only_the_bound_mechanism_is_left_out() {
        let version: &[u8] = b"v\0\0\0\x0c\0\x03\0\0\0\0\0\0";
        let whole = [version, &offer(&[BOUND, "SCRAM-SHA-256", "OAUTHBEARER"])].concat();
        let left = [version, &offer(&["SCRAM-SHA-256", "OAUTHBEARER"])].concat();
        for size in 1..=whole.len() {
            assert_eq!(sent(&whole, size).as_ref(), Some(&left), "pieces of {size}");
        }
    }

    #[test]
    fn anything_else_passes_unchanged() {
        let ok: &[u8] = b"R\0\0\0\x08\0\0\0\0S\0\0\0\x09a\0b\0\0";
        let md5: &[u8] = b"R\0\0\0\x0c\0\0\0\x05salt";
        let error: &[u8] = b"E\0\0\0\x09SFATAL";
        let plain = offer(&["SCRAM-SHA-256"]);
        let nonsense: &[u8] = b"R\0\0\0\x01nonsense";
        let endless: &[u8] = b"R\x7f\0\0\0nonsense";
        for bytes in [ok, md5, error, &plain, nonsense, endless, b"-ERR no\r\n", b""] {
            for size in 1..=bytes.len().max(1) {
                assert_eq!(sent(bytes, size).as_deref(), Some(bytes), "pieces of {size}");
            }
        }
    }

    #[test]
    fn an_offer_of_which_nothing_would_be_left_is_not_passed_on() {
        assert_eq!(sent(&offer(&[BOUND]), 7), None);
    }
}
