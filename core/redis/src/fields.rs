//! Reads replies with named fields, which are maps on RESP3, and lists of names and values on
//! RESP2.

use crate::reply::{Items, Reply};

/// The items of a list. For a map, names and values alternate.
pub(crate) fn items<'a>(reply: &Reply<'a>) -> Option<Items<'a>> {
    match reply {
        Reply::Array(items) | Reply::Set(items) => Some(items.clone()),
        Reply::Map(pairs) => Some(pairs.clone().items()),
        _ => None,
    }
}

/// The value of a field.
pub(crate) fn field<'a>(reply: &Reply<'a>, name: &str) -> Option<Reply<'a>> {
    let mut items = items(reply)?;
    loop {
        let (key, value) = (items.next()?, items.next()?);
        if text(&key).is_some_and(|key| key == name) {
            return Some(value);
        }
    }
}

pub(crate) fn text(reply: &Reply<'_>) -> Option<String> {
    let bytes = match reply {
        Reply::Bulk(bytes) => bytes,
        Reply::Simple(bytes) | Reply::Verbatim { text: bytes, .. } => *bytes,
        _ => return None,
    };
    String::from_utf8(bytes.to_vec()).ok()
}

pub(crate) fn number(reply: &Reply<'_>) -> Option<i64> {
    match reply {
        Reply::Int(number) => Some(*number),
        _ => None,
    }
}
