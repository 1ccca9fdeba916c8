//! Numbers, which RESP2 mostly sends as strings.

use std::str::FromStr;

use bytes::Bytes;
use onetrip_redis::reply::Reply as ReplyView;

use super::{FromReply, Mismatch};

/// Parses the text of a number.
fn parsed<T: FromStr>(reply: &ReplyView<'_>, expected: &'static str) -> Result<T, Mismatch> {
    let text = match reply {
        ReplyView::Simple(text) | ReplyView::BigNumber(text) => text,
        ReplyView::Bulk(text) => &text[..],
        _ => return Err(Mismatch::new(reply, expected)),
    };
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Mismatch::unfit(reply.kind(), "that does not parse", expected))
}

fn integer<T: FromStr + TryFrom<i64>>(
    reply: &ReplyView<'_>,
    expected: &'static str,
) -> Result<T, Mismatch> {
    match *reply {
        ReplyView::Int(number) => {
            T::try_from(number).map_err(|_| Mismatch::unfit(reply.kind(), "out of range", expected))
        }
        _ => parsed(reply, expected),
    }
}

macro_rules! integers {
    ($($type:ident),*) => {$(
        impl FromReply for $type {
            fn from_reply(reply: ReplyView<'_>, _: &Bytes) -> Result<$type, Mismatch> {
                integer(&reply, concat!("an integer (", stringify!($type), ")"))
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, i128, isize, u16, u32, u64, u128, usize);

impl FromReply for u8 {
    fn from_reply(reply: ReplyView<'_>, _: &Bytes) -> Result<u8, Mismatch> {
        integer(&reply, "an integer (u8)")
    }

    /// Bytes come as a string, and rarely as an array of integers.
    fn list_from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<Vec<u8>, Mismatch> {
        match reply {
            ReplyView::Array(_) | ReplyView::Set(_) => super::lists::items(reply, block),
            reply => super::texts::text(reply).map(std::borrow::Cow::into_owned),
        }
    }
}

impl FromReply for f64 {
    fn from_reply(reply: ReplyView<'_>, _: &Bytes) -> Result<f64, Mismatch> {
        match reply {
            ReplyView::Double(number) => Ok(number),
            // As in other languages, integers beyond 2^53 are rounded.
            ReplyView::Int(number) => Ok(number as f64),
            _ => parsed(&reply, "a number"),
        }
    }
}

impl FromReply for f32 {
    fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<f32, Mismatch> {
        f64::from_reply(reply, block).map(|number| number as f32)
    }
}
