//! Commands on lists. Those that wait for an item do so on a connection of their own.

use onetrip_redis::{Command, ToArg};

use super::args::put_counted;
use super::options::{LPosOptions, Side};
use crate::redis::{FromReply, Sends};

/// Commands on lists. Those that wait for an item do so on a connection of their own.
///
/// Implemented for everything that [`Sends`].
pub trait ListCommands: Sends {
    /// `BLMOVE`: as [`lmove`](Self::lmove), and waits for an item up to `timeout` seconds, or for
    /// ever with 0.
    fn blmove<T: FromReply>(
        &self,
        source: impl ToArg,
        destination: impl ToArg,
        from: Side,
        to: Side,
        timeout: f64,
    ) -> Self::Answer<T> {
        self.send(
            Command::new("BLMOVE").arg(source).arg(destination).arg(from).arg(to).arg(timeout),
        )
    }

    /// `BLMPOP`: as [`lmpop`](Self::lmpop), and waits for an item up to `timeout` seconds, or for
    /// ever with 0. Since Redis 7.0.
    fn blmpop<T: FromReply>(
        &self,
        timeout: f64,
        keys: impl IntoIterator<Item: ToArg>,
        side: Side,
        count: u64,
    ) -> Self::Answer<T> {
        self.send(
            put_counted(Command::new("BLMPOP").arg(timeout), keys)
                .arg(side)
                .arg("COUNT")
                .arg(count),
        )
    }

    /// `BLPOP`: removes the first item of the first nonempty list among these, and waits for one up
    /// to `timeout` seconds, or for ever with 0. Replies with the key and the item, or nil when the
    /// time is over.
    fn blpop<T: FromReply>(
        &self,
        keys: impl IntoIterator<Item: ToArg>,
        timeout: f64,
    ) -> Self::Answer<T> {
        self.send(Command::new("BLPOP").args(keys).arg(timeout))
    }

    /// `BRPOP`: as [`blpop`](Self::blpop), from the end of a list.
    fn brpop<T: FromReply>(
        &self,
        keys: impl IntoIterator<Item: ToArg>,
        timeout: f64,
    ) -> Self::Answer<T> {
        self.send(Command::new("BRPOP").args(keys).arg(timeout))
    }

    /// `BRPOPLPUSH`: as [`rpoplpush`](Self::rpoplpush), and waits for an item up to `timeout`
    /// seconds, or for ever with 0.
    fn brpoplpush<T: FromReply>(
        &self,
        source: impl ToArg,
        destination: impl ToArg,
        timeout: f64,
    ) -> Self::Answer<T> {
        self.send(Command::new("BRPOPLPUSH").arg(source).arg(destination).arg(timeout))
    }

    /// `LINDEX`: the item at an index, or nil. Negative indexes count from the end.
    fn lindex<T: FromReply>(&self, key: impl ToArg, index: i64) -> Self::Answer<T> {
        self.send(Command::new("LINDEX").arg(key).arg(index))
    }

    /// `LINSERT AFTER`: inserts a value behind an item with another value. Replies with the new
    /// length, -1 if there is no such item, or 0 if there is no list.
    fn linsert_after(
        &self,
        key: impl ToArg,
        pivot: impl ToArg,
        value: impl ToArg,
    ) -> Self::Answer<i64> {
        self.send(Command::new("LINSERT").arg(key).arg("AFTER").arg(pivot).arg(value))
    }

    /// `LINSERT BEFORE`: inserts a value in front of an item with another value, and replies as
    /// [`linsert_after`](Self::linsert_after).
    fn linsert_before(
        &self,
        key: impl ToArg,
        pivot: impl ToArg,
        value: impl ToArg,
    ) -> Self::Answer<i64> {
        self.send(Command::new("LINSERT").arg(key).arg("BEFORE").arg(pivot).arg(value))
    }

    /// `LLEN`: how many items there are.
    fn llen(&self, key: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("LLEN").arg(key))
    }

    /// `LMOVE`: moves an item from an end of a list to an end of another one. Replies with it, or
    /// nil.
    fn lmove<T: FromReply>(
        &self,
        source: impl ToArg,
        destination: impl ToArg,
        from: Side,
        to: Side,
    ) -> Self::Answer<T> {
        self.send(Command::new("LMOVE").arg(source).arg(destination).arg(from).arg(to))
    }

    /// `LMPOP`: removes up to `count` items from the first nonempty list among these. Replies with
    /// its key and the items, or nil. Since Redis 7.0.
    fn lmpop<T: FromReply>(
        &self,
        keys: impl IntoIterator<Item: ToArg>,
        side: Side,
        count: u64,
    ) -> Self::Answer<T> {
        self.send(put_counted(Command::new("LMPOP"), keys).arg(side).arg("COUNT").arg(count))
    }

    /// `LPOP`: removes the first item. Replies with it, or nil.
    fn lpop<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("LPOP").arg(key))
    }

    /// `LPOP` with a count: removes up to `count` items from the beginning; nil if there is no
    /// list.
    fn lpop_count<T: FromReply>(&self, key: impl ToArg, count: u64) -> Self::Answer<T> {
        self.send(Command::new("LPOP").arg(key).arg(count))
    }

    /// `LPOS`: the index of the first item with this value.
    fn lpos(&self, key: impl ToArg, value: impl ToArg) -> Self::Answer<Option<u64>> {
        self.send(Command::new("LPOS").arg(key).arg(value))
    }

    /// `LPOS` with options: the index of an item with this value, or several indexes with
    /// [`count`](LPosOptions::count).
    fn lpos_options<T: FromReply>(
        &self,
        key: impl ToArg,
        value: impl ToArg,
        options: LPosOptions,
    ) -> Self::Answer<T> {
        self.send(options.add(Command::new("LPOS").arg(key).arg(value)))
    }

    /// `LPUSH`: inserts values at the beginning, one after the other, so that the last one comes
    /// first. Replies with the new length.
    fn lpush(&self, key: impl ToArg, values: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("LPUSH").arg(key).args(values))
    }

    /// `LPUSHX`: as [`lpush`](Self::lpush), only if there is a list.
    fn lpushx(&self, key: impl ToArg, values: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("LPUSHX").arg(key).args(values))
    }

    /// `LRANGE`: the items from one index to another, both included. Negative indexes count from
    /// the end.
    fn lrange<T: FromReply>(&self, key: impl ToArg, start: i64, stop: i64) -> Self::Answer<T> {
        self.send(Command::new("LRANGE").arg(key).arg(start).arg(stop))
    }

    /// `LREM`: removes up to `count` items of this value, from the beginning; from the end for a
    /// negative count, and all for 0. Replies with how many.
    fn lrem(&self, key: impl ToArg, count: i64, value: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("LREM").arg(key).arg(count).arg(value))
    }

    /// `LSET`: replaces the item at an index. An error if there is none.
    fn lset(&self, key: impl ToArg, index: i64, value: impl ToArg) -> Self::Answer<()> {
        self.send(Command::new("LSET").arg(key).arg(index).arg(value))
    }

    /// `LTRIM`: keeps the items from one index to another, both included, and removes the rest.
    fn ltrim(&self, key: impl ToArg, start: i64, stop: i64) -> Self::Answer<()> {
        self.send(Command::new("LTRIM").arg(key).arg(start).arg(stop))
    }

    /// `RPOP`: removes the last item. Replies with it, or nil.
    fn rpop<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("RPOP").arg(key))
    }

    /// `RPOP` with a count: removes up to `count` items from the end; nil if there is no list.
    fn rpop_count<T: FromReply>(&self, key: impl ToArg, count: u64) -> Self::Answer<T> {
        self.send(Command::new("RPOP").arg(key).arg(count))
    }

    /// `RPOPLPUSH`: moves the last item of a list to the beginning of another one. Replies with it,
    /// or nil.
    fn rpoplpush<T: FromReply>(
        &self,
        source: impl ToArg,
        destination: impl ToArg,
    ) -> Self::Answer<T> {
        self.send(Command::new("RPOPLPUSH").arg(source).arg(destination))
    }

    /// `RPUSH`: appends values. Replies with the new length.
    fn rpush(&self, key: impl ToArg, values: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("RPUSH").arg(key).args(values))
    }

    /// `RPUSHX`: as [`rpush`](Self::rpush), only if there is a list.
    fn rpushx(&self, key: impl ToArg, values: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("RPUSHX").arg(key).args(values))
    }
}

impl<S: Sends + ?Sized> ListCommands for S {}
