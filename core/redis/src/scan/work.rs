//! Tests that count how many bytes a scanner looks at: a small multiple of each line, however the
//! input is split.
#![allow(clippy::unwrap_used)]

use super::quick::LOOKED_MAX;
use super::{Scan, ScanLimits, Scanner};

/// Scans one reply in pieces of this many bytes, and returns how many bytes were looked at.
fn looked_at(reply: &[u8], piece: usize) -> usize {
    let mut scanner = Scanner::new(ScanLimits::default());
    let mut come = 0;
    loop {
        come = reply.len().min(come + piece);
        match scanner.scan(&reply[..come]).unwrap() {
            Scan::Need(_) => assert!(come < reply.len()),
            Scan::Whole { len, .. } => {
                assert_eq!((len, come), (reply.len(), reply.len()));
                return scanner.looked;
            }
        }
    }
}

#[test]
fn the_bytes_of_a_string_are_not_looked_at() {
    const LEN: usize = 100_000_000;
    const SINGLE: usize = 4_000_000;
    let header = format!("${LEN}\r\n");
    let reply = [header.as_bytes(), &vec![b'x'; LEN], b"\r\n"].concat();
    let mut scanner = Scanner::new(ScanLimits::default());
    for come in 0..=header.len() {
        assert!(matches!(scanner.scan(&reply[..come]).unwrap(), Scan::Need(_)));
    }
    let before = scanner.looked;
    for come in header.len()..header.len() + SINGLE {
        assert_eq!(scanner.scan(&reply[..come]).unwrap(), Scan::Need(reply.len()));
        assert_eq!(scanner.seen(), come);
    }
    assert_eq!(scanner.looked, before);
    let whole = Scan::Whole { len: reply.len(), start: 0, kind: b'$' };
    assert_eq!(scanner.scan(&reply).unwrap(), whole);
    assert_eq!(scanner.looked, before + 2);
}

#[test]
fn a_long_line_in_single_bytes_is_searched_once_and_read_once() {
    let line = [b"+", &[b'x'; 60_000][..], b"\r\n"].concat();
    assert!(looked_at(&line, 1) <= 2 * line.len() + 2 * LOOKED_MAX);
    let returns = [b"-", &[b'\r'; 60_000][..], b"\r\n"].concat();
    assert!(looked_at(&returns, 1) <= 3 * returns.len() + 2 * LOOKED_MAX);
}

#[test]
fn the_size_of_the_pieces_does_not_change_what_is_looked_at() {
    let string = [b"$20000\r\n", &[b'x'; 20_000][..], b"\r\n"].concat();
    let items = [b"*700\r\n", &b"$3\r\nfoo\r\n:17\r\n%1\r\n+a\r\n_\r\n,1.5\r\n".repeat(175)[..]];
    for reply in [string, items.concat()] {
        let lines = reply.len().min(700 * 20);
        for piece in [1, 2, 3, 7, 64, 1000, reply.len()] {
            let looked = looked_at(&reply, piece);
            assert!(looked <= 4 * lines + LOOKED_MAX * 700, "{looked} in pieces of {piece}");
        }
    }
}
