//! Text and byte strings.

use std::borrow::Cow;

use bytes::Bytes;
use onetrip_redis::reply::Reply as ReplyView;
use onetrip_redis::value::slice;

use super::{FromReply, Mismatch};

/// The bytes of any reply that is sent as a string.
pub(super) fn text(reply: ReplyView<'_>) -> Result<Cow<'_, [u8]>, Mismatch> {
    match reply {
        ReplyView::Bulk(text) => Ok(text),
        ReplyView::Simple(text) | ReplyView::BigNumber(text) | ReplyView::Verbatim { text, .. } => {
            Ok(Cow::Borrowed(text))
        }
        _ => Err(Mismatch::new(&reply, "a string")),
    }
}

impl FromReply for String {
    fn from_reply(reply: ReplyView<'_>, _: &Bytes) -> Result<String, Mismatch> {
        let kind = reply.kind();
        let text = text(reply)?;
        match std::str::from_utf8(&text) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Mismatch::unfit(kind, "that is not UTF-8", "text")),
        }
    }
}

impl FromReply for Bytes {
    fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<Bytes, Mismatch> {
        Ok(match text(reply)? {
            Cow::Borrowed(text) => slice(block, text),
            Cow::Owned(text) => Bytes::from(text),
        })
    }
}
