//! Commands on streams: entries of fields and values, in the order of their ids. Reading with
//! [`block`](XReadOptions::block) waits on a connection of its own.

use onetrip_redis::{Command, ToArg};

use super::args::{put_pairs, put_streams};
use super::options::{Trim, XAddOptions, XClaimOptions, XReadOptions};
use crate::redis::{FromReply, Sends};

/// Commands on streams: entries of fields and values, in the order of their ids. Reading with
/// [`block`](XReadOptions::block) waits on a connection of its own.
///
/// Implemented for everything that [`Sends`].
pub trait StreamCommands: Sends {
    /// `XACK`: acknowledges entries for a group. Replies with how many of them were pending.
    fn xack(
        &self,
        key: impl ToArg,
        group: impl ToArg,
        ids: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<u64> {
        self.send(Command::new("XACK").arg(key).arg(group).args(ids))
    }

    /// `XADD`: adds an entry of fields and values. Replies with its id, which the server generates
    /// for `*`.
    fn xadd<T: FromReply>(
        &self,
        key: impl ToArg,
        id: impl ToArg,
        pairs: impl IntoIterator<Item = (impl ToArg, impl ToArg)>,
    ) -> Self::Answer<T> {
        self.send(put_pairs(Command::new("XADD").arg(key).arg(id), pairs))
    }

    /// `XADD` with options. Replies with the id, or nil if
    /// [`nomkstream`](XAddOptions::nomkstream) is set and there is no stream.
    fn xadd_options<T: FromReply>(
        &self,
        key: impl ToArg,
        options: XAddOptions,
        id: impl ToArg,
        pairs: impl IntoIterator<Item = (impl ToArg, impl ToArg)>,
    ) -> Self::Answer<T> {
        self.send(put_pairs(options.add(Command::new("XADD").arg(key)).arg(id), pairs))
    }

    /// `XAUTOCLAIM`: gives a consumer entries, from an id on, that were pending with others for at
    /// least this many milliseconds. Replies with the id to go on from, the entries, and (since
    /// 7.0) the ids of those that were deleted.
    fn xautoclaim<T: FromReply>(
        &self,
        key: impl ToArg,
        group: impl ToArg,
        consumer: impl ToArg,
        min_idle: u64,
        start: impl ToArg,
        options: XClaimOptions,
    ) -> Self::Answer<T> {
        self.send(options.add(
            Command::new("XAUTOCLAIM").arg(key).arg(group).arg(consumer).arg(min_idle).arg(start),
        ))
    }

    /// `XCLAIM`: gives a consumer these entries if they were pending with others for at least this
    /// many milliseconds. Replies with those that it got.
    fn xclaim<T: FromReply>(
        &self,
        key: impl ToArg,
        group: impl ToArg,
        consumer: impl ToArg,
        min_idle: u64,
        ids: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<T> {
        self.send(Command::new("XCLAIM").arg(key).arg(group).arg(consumer).arg(min_idle).args(ids))
    }

    /// `XDEL`: deletes entries. Replies with how many existed.
    fn xdel(&self, key: impl ToArg, ids: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("XDEL").arg(key).args(ids))
    }

    /// `XGROUP CREATE`: makes a group that reads the entries behind an id: `$` for new ones, 0 for
    /// all. An error if there is no stream.
    fn xgroup_create(
        &self,
        key: impl ToArg,
        group: impl ToArg,
        id: impl ToArg,
    ) -> Self::Answer<()> {
        self.send(Command::new("XGROUP CREATE").arg(key).arg(group).arg(id))
    }

    /// `XGROUP CREATE` with `MKSTREAM`: as [`xgroup_create`](Self::xgroup_create), and makes the
    /// stream if there is none.
    fn xgroup_create_mkstream(
        &self,
        key: impl ToArg,
        group: impl ToArg,
        id: impl ToArg,
    ) -> Self::Answer<()> {
        self.send(Command::new("XGROUP CREATE").arg(key).arg(group).arg(id).arg("MKSTREAM"))
    }

    /// `XGROUP CREATECONSUMER`: makes a consumer. Replies whether it is new.
    fn xgroup_createconsumer(
        &self,
        key: impl ToArg,
        group: impl ToArg,
        consumer: impl ToArg,
    ) -> Self::Answer<bool> {
        self.send(Command::new("XGROUP CREATECONSUMER").arg(key).arg(group).arg(consumer))
    }

    /// `XGROUP DELCONSUMER`: removes a consumer. Replies with how many entries were pending with
    /// it.
    fn xgroup_delconsumer(
        &self,
        key: impl ToArg,
        group: impl ToArg,
        consumer: impl ToArg,
    ) -> Self::Answer<u64> {
        self.send(Command::new("XGROUP DELCONSUMER").arg(key).arg(group).arg(consumer))
    }

    /// `XGROUP DESTROY`: removes a group. Replies whether there was one.
    fn xgroup_destroy(&self, key: impl ToArg, group: impl ToArg) -> Self::Answer<bool> {
        self.send(Command::new("XGROUP DESTROY").arg(key).arg(group))
    }

    /// `XGROUP SETID`: makes a group read the entries behind an id.
    fn xgroup_setid(&self, key: impl ToArg, group: impl ToArg, id: impl ToArg) -> Self::Answer<()> {
        self.send(Command::new("XGROUP SETID").arg(key).arg(group).arg(id))
    }

    /// `XINFO CONSUMERS`: the consumers of a group, each a map.
    fn xinfo_consumers<T: FromReply>(&self, key: impl ToArg, group: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("XINFO CONSUMERS").arg(key).arg(group))
    }

    /// `XINFO GROUPS`: the groups of a stream, each a map.
    fn xinfo_groups<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("XINFO GROUPS").arg(key))
    }

    /// `XINFO STREAM`: information about a stream, as a map.
    fn xinfo_stream<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("XINFO STREAM").arg(key))
    }

    /// `XLEN`: how many entries there are.
    fn xlen(&self, key: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("XLEN").arg(key))
    }

    /// `XPENDING`: how many entries are pending, the lowest and the highest of their ids, and how
    /// many with each consumer.
    fn xpending<T: FromReply>(&self, key: impl ToArg, group: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("XPENDING").arg(key).arg(group))
    }

    /// `XPENDING` with a range: up to `count` pending entries. Each has its id, its consumer, the
    /// milliseconds since its last delivery, and the number of deliveries.
    fn xpending_range<T: FromReply>(
        &self,
        key: impl ToArg,
        group: impl ToArg,
        start: impl ToArg,
        end: impl ToArg,
        count: u64,
    ) -> Self::Answer<T> {
        self.send(Command::new("XPENDING").arg(key).arg(group).arg(start).arg(end).arg(count))
    }

    /// `XRANGE`: the entries from one id to another, both included; `-` is the lowest and `+` the
    /// highest.
    fn xrange<T: FromReply>(
        &self,
        key: impl ToArg,
        start: impl ToArg,
        end: impl ToArg,
    ) -> Self::Answer<T> {
        self.send(Command::new("XRANGE").arg(key).arg(start).arg(end))
    }

    /// `XRANGE` with `COUNT`: as [`xrange`](Self::xrange), at most `count` of them.
    fn xrange_count<T: FromReply>(
        &self,
        key: impl ToArg,
        start: impl ToArg,
        end: impl ToArg,
        count: u64,
    ) -> Self::Answer<T> {
        self.send(Command::new("XRANGE").arg(key).arg(start).arg(end).arg("COUNT").arg(count))
    }

    /// `XREAD`: the entries of streams behind an id each, given as pairs. Nil if there is nothing.
    fn xread<T: FromReply>(
        &self,
        streams: impl IntoIterator<Item = (impl ToArg, impl ToArg)>,
    ) -> Self::Answer<T> {
        self.send(put_streams(Command::new("XREAD"), streams))
    }

    /// `XREAD` with options: with a maximum count, or waiting for entries.
    fn xread_options<T: FromReply>(
        &self,
        options: XReadOptions,
        streams: impl IntoIterator<Item = (impl ToArg, impl ToArg)>,
    ) -> Self::Answer<T> {
        self.send(put_streams(options.add(Command::new("XREAD")), streams))
    }

    /// `XREADGROUP`: as [`xread`](Self::xread), for a consumer of a group: the id `>` stands for
    /// entries that no other consumer has received.
    fn xreadgroup<T: FromReply>(
        &self,
        group: impl ToArg,
        consumer: impl ToArg,
        options: XReadOptions,
        streams: impl IntoIterator<Item = (impl ToArg, impl ToArg)>,
    ) -> Self::Answer<T> {
        self.send(put_streams(
            options.add(Command::new("XREADGROUP").arg("GROUP").arg(group).arg(consumer)),
            streams,
        ))
    }

    /// `XREVRANGE`: as [`xrange`](Self::xrange), backwards; the higher id comes first.
    fn xrevrange<T: FromReply>(
        &self,
        key: impl ToArg,
        end: impl ToArg,
        start: impl ToArg,
    ) -> Self::Answer<T> {
        self.send(Command::new("XREVRANGE").arg(key).arg(end).arg(start))
    }

    /// `XREVRANGE` with `COUNT`: as [`xrevrange`](Self::xrevrange), at most `count` of them.
    fn xrevrange_count<T: FromReply>(
        &self,
        key: impl ToArg,
        end: impl ToArg,
        start: impl ToArg,
        count: u64,
    ) -> Self::Answer<T> {
        self.send(Command::new("XREVRANGE").arg(key).arg(end).arg(start).arg("COUNT").arg(count))
    }

    /// `XTRIM`: removes the oldest entries. Replies with how many.
    fn xtrim(&self, key: impl ToArg, trim: Trim) -> Self::Answer<u64> {
        self.send(trim.add(Command::new("XTRIM").arg(key)))
    }
}

impl<S: Sends + ?Sized> StreamCommands for S {}
