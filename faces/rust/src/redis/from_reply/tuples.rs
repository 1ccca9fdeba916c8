//! Tuples, and lists of tuples: also maps, and members with scores.

use bytes::Bytes;
use onetrip_redis::reply::{Items, Reply as ReplyView};

use super::lists::items_of;
use super::{FromReply, Mismatch};

/// The form in which a list of tuples came.
enum Groups<'a> {
    /// Each tuple is an array: RESP3 sends some replies so that RESP2 sends flat.
    Nested(Items<'a>),
    /// The items of all tuples in one array.
    Flat(Items<'a>),
}

fn groups(reply: ReplyView<'_>, size: usize) -> Result<Groups<'_>, Mismatch> {
    let expected = if size == 2 { "a map" } else { "an array of tuples" };
    match reply {
        ReplyView::Map(pairs) if size == 2 => Ok(Groups::Flat(pairs.items())),
        ReplyView::Map(_) => Err(Mismatch::new(&reply, expected)),
        reply => {
            let kind = reply.kind();
            let items = items_of(reply, expected)?;
            let nested = matches!(
                items.clone().next(),
                Some(ReplyView::Array(_) | ReplyView::Set(_) | ReplyView::Push(_))
            );
            match items.left().unwrap_or_else(|| items.clone().count() as u64) {
                _ if nested => Ok(Groups::Nested(items)),
                len if len % size as u64 == 0 => Ok(Groups::Flat(items)),
                _ => Err(Mismatch::unfit(kind, "of another length", expected)),
            }
        }
    }
}

fn list<T: FromReply>(
    reply: ReplyView<'_>,
    size: usize,
    block: &Bytes,
    group: impl Fn(&mut Items<'_>, &Bytes) -> Result<T, Mismatch>,
) -> Result<Vec<T>, Mismatch> {
    let mut list = Vec::new();
    match groups(reply, size)? {
        Groups::Nested(items) => {
            list.reserve(items.size_hint().0);
            for item in items {
                list.push(T::from_reply(item, block)?);
            }
        }
        Groups::Flat(mut items) => {
            list.reserve(items.size_hint().0 / size);
            while !items.is_empty() {
                list.push(group(&mut items, block)?);
            }
        }
    }
    Ok(list)
}

/// The next item of a tuple. Lists of another length were refused before.
fn next<T: FromReply>(items: &mut Items<'_>, block: &Bytes) -> Result<T, Mismatch> {
    T::from_reply(items.next().unwrap_or(ReplyView::Nil), block)
}

macro_rules! tuples {
    ($(($size:literal: $($name:ident)*))*) => {$(
        impl<$($name: FromReply),*> FromReply for ($($name,)*) {
            fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<Self, Mismatch> {
                const EXPECTED: &str = concat!("an array of ", $size);
                let kind = reply.kind();
                let mut items = items_of(reply, EXPECTED)?;
                if items.left().unwrap_or_else(|| items.clone().count() as u64) != $size {
                    return Err(Mismatch::unfit(kind, "of another length", EXPECTED));
                }
                Ok(($(next::<$name>(&mut items, block)?,)*))
            }

            fn list_from_reply(
                reply: ReplyView<'_>,
                block: &Bytes,
            ) -> Result<Vec<Self>, Mismatch> {
                list(reply, $size, block, |items, block| Ok(($(next::<$name>(items, block)?,)*)))
            }
        }
    )*};
}

tuples! {
    (1: A)
    (2: A B)
    (3: A B C)
    (4: A B C D)
    (5: A B C D E)
    (6: A B C D E F)
    (7: A B C D E F G)
    (8: A B C D E F G H)
    (9: A B C D E F G H I)
    (10: A B C D E F G H I J)
    (11: A B C D E F G H I J K)
    (12: A B C D E F G H I J K L)
}
