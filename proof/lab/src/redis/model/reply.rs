//! Replies as bytes.

use bytes::Bytes;

/// An attribute, which may stand in front of any reply.
pub const ATTRIBUTE: &[u8] = b"|1\r\n+ttl\r\n:42\r\n";

/// How many kinds of value [`shape`] knows.
pub const SHAPES: u64 = 12;

/// A line of text.
#[must_use]
pub fn simple(text: &str) -> Bytes {
    format!("+{text}\r\n").into()
}

/// A string with its length.
#[must_use]
pub fn bulk(text: &[u8]) -> Bytes {
    [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat().into()
}

/// A number.
#[must_use]
pub fn integer(value: i64) -> Bytes {
    format!(":{value}\r\n").into()
}

/// A published message, as RESP3 pushes it or as RESP2 does.
#[must_use]
pub fn message(resp2: bool, channel: &[u8], payload: &[u8]) -> Bytes {
    pushed(resp2, &[bulk(b"message"), bulk(channel), bulk(payload)])
}

/// The confirmation of SUBSCRIBE or UNSUBSCRIBE for a channel, up to the number behind it.
#[must_use]
pub fn confirmation_start(resp2: bool, word: &str, channel: &str) -> Bytes {
    let word = bulk(word.to_ascii_lowercase().as_bytes());
    let items = [word, bulk(channel.as_bytes()), Bytes::from_static(b":")];
    aggregate(if resp2 { '*' } else { '>' }, items.len(), &items)
}

/// Several values as a push, or as the array that stands for one on RESP2.
pub(super) fn pushed(resp2: bool, items: &[Bytes]) -> Bytes {
    aggregate(if resp2 { '*' } else { '>' }, items.len(), items)
}

/// A value of a kind from 0 to [`SHAPES`], that holds this text as often as its kind has room for it. The
/// text may be of any bytes but for kinds that are lines.
#[must_use]
pub fn shape(kind: u64, text: &[u8]) -> Bytes {
    let item = bulk(text);
    match kind {
        0 => simple(&String::from_utf8_lossy(text)),
        1 => aggregate('*', 3, &[item.clone(), integer(7), item]),
        2 => aggregate('%', 1, &[simple("key"), aggregate('*', 1, &[item])]),
        3 => aggregate('~', 2, &[item, Bytes::from_static(b"#t\r\n")]),
        4 => [format!("={}\r\ntxt:", text.len() + 4).as_bytes(), text, b"\r\n"].concat().into(),
        5 => aggregate(
            '*',
            4,
            &[item, ",1.5\r\n".into(), "_\r\n".into(), "(123456789012345678901\r\n".into()],
        ),
        6 => {
            aggregate('*', 1, &[aggregate('*', 1, &[aggregate('*', 2, &[item, "*-1\r\n".into()])])])
        }
        7 => aggregate('*', 3, &[item, "$-1\r\n".into(), "*0\r\n".into()]),
        8 => aggregate('*', 2, &[[ATTRIBUTE, &item[..]].concat().into(), "$0\r\n\r\n".into()]),
        9 => chunked(text),
        10 => [b"*?\r\n", &item[..], &item[..], b".\r\n"].concat().into(),
        // An error inside of a reply is a part of it.
        _ => aggregate('*', 2, &["-ERR inside\r\n".into(), item]),
    }
}

/// A string in chunks.
fn chunked(text: &[u8]) -> Bytes {
    let (first, second) = text.split_at(text.len() / 2);
    let chunks = [first, second].into_iter().filter(|chunk| !chunk.is_empty());
    let mut out = b"$?\r\n".to_vec();
    for chunk in chunks {
        out.extend_from_slice(format!(";{}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b";0\r\n");
    out.into()
}

pub(super) fn aggregate(kind: char, count: usize, items: &[Bytes]) -> Bytes {
    let head = Bytes::from(format!("{kind}{count}\r\n"));
    std::iter::once(&head).chain(items).flatten().copied().collect()
}
