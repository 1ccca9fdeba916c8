//! Lists, sets and maps.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use bytes::Bytes;
use onetrip_redis::reply::{Items, Reply as ReplyView};

use super::{FromReply, Mismatch};

/// The items of an aggregate; those of a map are keys and values by turns.
pub(super) fn items_of<'a>(
    reply: ReplyView<'a>,
    expected: &'static str,
) -> Result<Items<'a>, Mismatch> {
    match reply {
        ReplyView::Array(items) | ReplyView::Set(items) | ReplyView::Push(items) => Ok(items),
        ReplyView::Map(pairs) => Ok(pairs.items()),
        _ => Err(Mismatch::new(&reply, expected)),
    }
}

pub(super) fn items<T: FromReply>(reply: ReplyView<'_>, block: &Bytes) -> Result<Vec<T>, Mismatch> {
    let items = items_of(reply, "an array")?;
    // The items exist: a reply is read completely before any item is requested.
    let mut list = Vec::with_capacity(items.size_hint().0);
    for item in items {
        list.push(T::from_reply(item, block)?);
    }
    Ok(list)
}

impl<T: FromReply> FromReply for Vec<T> {
    fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<Vec<T>, Mismatch> {
        T::list_from_reply(reply, block)
    }
}

impl<T: FromReply, const N: usize> FromReply for [T; N] {
    fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<[T; N], Mismatch> {
        let kind = reply.kind();
        let items = T::list_from_reply(reply, block)?;
        items
            .try_into()
            .map_err(|_| Mismatch::unfit(kind, "of another length", format!("an array of {N}")))
    }
}

impl<T: FromReply + Eq + Hash, S: BuildHasher + Default> FromReply for HashSet<T, S> {
    fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<HashSet<T, S>, Mismatch> {
        Ok(T::list_from_reply(reply, block)?.into_iter().collect())
    }
}

impl<T: FromReply + Ord> FromReply for BTreeSet<T> {
    fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<BTreeSet<T>, Mismatch> {
        Ok(T::list_from_reply(reply, block)?.into_iter().collect())
    }
}

impl<K, V, S> FromReply for HashMap<K, V, S>
where
    K: FromReply + Eq + Hash,
    V: FromReply,
    S: BuildHasher + Default,
{
    fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<HashMap<K, V, S>, Mismatch> {
        Ok(<(K, V)>::list_from_reply(reply, block)?.into_iter().collect())
    }
}

impl<K: FromReply + Ord, V: FromReply> FromReply for BTreeMap<K, V> {
    fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<BTreeMap<K, V>, Mismatch> {
        Ok(<(K, V)>::list_from_reply(reply, block)?.into_iter().collect())
    }
}
