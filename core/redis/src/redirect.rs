//! The redirects of a cluster for a command that came to the wrong node: `MOVED` and `ASK`.

use std::fmt;

use crate::slots::SLOTS;

/// The redirect in an error of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// MOVED or ASK.
    pub kind: RedirectKind,
    /// The hash slot of the command's keys.
    pub slot: u16,
    /// The node that it names.
    pub address: Address,
}

/// The kind of a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectKind {
    /// The slot belongs to another node from now on.
    Moved,
    /// The slot is being moved to another node. This command goes there, behind ASKING; later ones
    /// still come here.
    Ask,
}

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A name or an address, without brackets.
    pub host: Box<str>,
    /// The port, never 0.
    pub port: u16,
}

/// A name of the DNS has at most 253 characters (RFC 1035, 2.3.4, as text).
const HOST_LEN_MAX: usize = 253;

impl Address {
    /// `None` if this can't be an address: the host is empty or too long, has characters that
    /// neither names nor addresses have, or the port is 0.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Option<Address> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
        let host_fits = (1..=HOST_LEN_MAX).contains(&host.len()) && host.bytes().all(fits);
        (host_fits && port != 0).then(|| Address { host: host.into(), port })
    }
}

/// `host:port`; an IPv6 address in brackets.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Redirect {
    /// Reads the text of an error, without its type and line end. `from` is the node that sent it:
    /// a redirect without a host means the same host.
    ///
    /// `None` unless the text is exactly a redirect with a valid slot and [`Address`]. Anything
    /// else is not followed.
    #[must_use]
    pub fn parse(error: &[u8], from: &Address) -> Option<Redirect> {
        let mut words = std::str::from_utf8(error).ok()?.split(' ');
        let kind = match words.next()? {
            "MOVED" => RedirectKind::Moved,
            "ASK" => RedirectKind::Ask,
            _ => return None,
        };
        let slot = number(words.next()?).filter(|slot| *slot < SLOTS)?;
        let address = address(words.next()?, from)?;
        words.next().is_none().then_some(Redirect { kind, slot, address })
    }
}

/// A server sends an IPv6 address without brackets (`clusterRedirectClient` in cluster.c), so the
/// last colon is the one in front of the port.
fn address(text: &str, from: &Address) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    // `?` means that the node does not know the host itself.
    let host = if matches!(bare, "" | "?") { &from.host } else { bare };
    Address::new(host, number(port)?)
}

/// A number of digits only: `parse` alone would accept a sign.
fn number(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(text: &str) -> Option<Redirect> {
        Redirect::parse(text.as_bytes(), &Address::new("here", 7000).unwrap())
    }

    fn redirect(kind: RedirectKind, slot: u16, host: &str, port: u16) -> Option<Redirect> {
        Some(Redirect { kind, slot, address: Address::new(host, port).unwrap() })
    }

    #[test]
    fn both_kinds_are_read() {
        use RedirectKind::{Ask, Moved};
        assert_eq!(parse("MOVED 3999 127.0.0.1:6381"), redirect(Moved, 3999, "127.0.0.1", 6381));
        assert_eq!(parse("ASK 0 node-1.example:7000"), redirect(Ask, 0, "node-1.example", 7000));
        assert_eq!(parse("MOVED 16383 ::1:65535"), redirect(Moved, 16_383, "::1", 65_535));
        assert_eq!(parse("MOVED 1 [fe80::1%eth0]:1"), redirect(Moved, 1, "fe80::1%eth0", 1));
    }

    #[test]
    fn redirect_without_a_host_is_to_the_host_that_answered() {
        assert_eq!(parse("MOVED 1 :6381"), redirect(RedirectKind::Moved, 1, "here", 6381));
        assert_eq!(parse("ASK 1 ?:6381"), redirect(RedirectKind::Ask, 1, "here", 6381));
    }

    #[test]
    fn garbage_is_not_followed() {
        for text in [
            "",
            "MOVED",
            "MOVED 1",
            "moved 1 a:1",
            "MOVED 16384 a:1",
            "MOVED -1 a:1",
            "MOVED +1 a:1",
            "MOVED 1 a",
            "MOVED 1 a:0",
            "MOVED 1 a:65536",
            "MOVED 1 a:+1",
            "MOVED 1 a:",
            "MOVED 1 a:1 b:2",
            "MOVED 1  a:1",
            "MOVED 1 a b:1",
            "MOVED 1 user@host:1",
            "MOVED 1 a/b:1",
            "MOVED 1 a\0b:1",
            "TRYAGAIN 1 a:1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&format!("MOVED 1 {}:1", "a".repeat(254))), None);
        assert_eq!(Redirect::parse(b"MOVED 1 \xff:1", &Address::new("a", 1).unwrap()), None);
    }

    #[test]
    fn addresses_read_as_they_are_written() {
        assert_eq!(Address::new("::1", 7).unwrap().to_string(), "[::1]:7");
        assert_eq!(Address::new("a.b", 7).unwrap().to_string(), "a.b:7");
    }
}
