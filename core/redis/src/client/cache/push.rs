//! The push `invalidate`.

use std::borrow::Cow;

use crate::Reply;
use crate::fields::items;

/// What is not true any more.
pub(super) enum Invalid<'a> {
    All,
    Keys(Vec<Cow<'a, [u8]>>),
}

/// Reads a push; `None` if it says nothing of cached replies. One that is not understood says that
/// nothing is true any more.
pub(super) fn read(push: &[u8]) -> Option<Invalid<'_>> {
    let (Reply::Push(mut parts), _) = Reply::read(push).ok()? else { return None };
    match parts.next()? {
        Reply::Bulk(name) if *name == *b"invalidate" => {}
        Reply::Simple(b"invalidate") => {}
        _ => return None,
    }
    let keys = parts.next().as_ref().and_then(items).and_then(|keys| {
        keys.map(|key| match key {
            Reply::Bulk(key) => Some(key),
            Reply::Simple(key) => Some(Cow::Borrowed(key)),
            _ => None,
        })
        .collect()
    });
    Some(keys.map_or(Invalid::All, Invalid::Keys))
}
