//! Commands on hashes: fields with values under one key.

use onetrip_redis::{Command, ToArg};

use super::args::put_pairs;
use super::options::ScanOptions;
use crate::redis::{FromReply, Sends};

/// Commands on hashes: fields with values under one key.
///
/// Implemented for everything that [`Sends`].
pub trait HashCommands: Sends {
    /// `HDEL`: deletes fields. Replies with how many existed.
    fn hdel(&self, key: impl ToArg, fields: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("HDEL").arg(key).args(fields))
    }

    /// `HEXISTS`: whether a field exists.
    fn hexists(&self, key: impl ToArg, field: impl ToArg) -> Self::Answer<bool> {
        self.send(Command::new("HEXISTS").arg(key).arg(field))
    }

    /// `HGET`: the value of a field, or nil.
    fn hget<T: FromReply>(&self, key: impl ToArg, field: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("HGET").arg(key).arg(field))
    }

    /// `HGETALL`: all fields with their values, as a map; empty if there is no key.
    fn hgetall<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("HGETALL").arg(key))
    }

    /// `HINCRBY`: adds to the number in a field. Replies with the new value.
    fn hincrby(&self, key: impl ToArg, field: impl ToArg, by: i64) -> Self::Answer<i64> {
        self.send(Command::new("HINCRBY").arg(key).arg(field).arg(by))
    }

    /// `HINCRBYFLOAT`: adds to the number with a fraction in a field. Replies with the new value.
    fn hincrbyfloat(&self, key: impl ToArg, field: impl ToArg, by: f64) -> Self::Answer<f64> {
        self.send(Command::new("HINCRBYFLOAT").arg(key).arg(field).arg(by))
    }

    /// `HKEYS`: the names of all fields.
    fn hkeys<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("HKEYS").arg(key))
    }

    /// `HLEN`: how many fields there are.
    fn hlen(&self, key: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("HLEN").arg(key))
    }

    /// `HMGET`: the values of fields in their order, nil for each that is missing.
    fn hmget<T: FromReply>(
        &self,
        key: impl ToArg,
        fields: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<T> {
        self.send(Command::new("HMGET").arg(key).args(fields))
    }

    /// `HRANDFIELD`: the name of a random field, or nil.
    fn hrandfield<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("HRANDFIELD").arg(key))
    }

    /// `HRANDFIELD` with a count: up to `count` distinct fields; if `count` is negative, exactly
    /// that many, perhaps with repeats.
    fn hrandfield_count<T: FromReply>(&self, key: impl ToArg, count: i64) -> Self::Answer<T> {
        self.send(Command::new("HRANDFIELD").arg(key).arg(count))
    }

    /// `HRANDFIELD` with `WITHVALUES`: as [`hrandfield_count`](Self::hrandfield_count), with their
    /// values.
    fn hrandfield_withvalues<T: FromReply>(&self, key: impl ToArg, count: i64) -> Self::Answer<T> {
        self.send(Command::new("HRANDFIELD").arg(key).arg(count).arg("WITHVALUES"))
    }

    /// `HSCAN`: some fields with their values, and the cursor for the next call, as in
    /// [`scan`](super::KeyCommands::scan).
    fn hscan<T: FromReply>(
        &self,
        key: impl ToArg,
        cursor: impl ToArg,
        options: ScanOptions,
    ) -> Self::Answer<T> {
        self.send(options.add(Command::new("HSCAN").arg(key).arg(cursor)))
    }

    /// `HSET`: sets a field. Replies with 1 if it is new, 0 if it existed.
    fn hset(&self, key: impl ToArg, field: impl ToArg, value: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("HSET").arg(key).arg(field).arg(value))
    }

    /// `HSET` of several fields at once. Replies with how many are new.
    fn hset_multiple(
        &self,
        key: impl ToArg,
        pairs: impl IntoIterator<Item = (impl ToArg, impl ToArg)>,
    ) -> Self::Answer<u64> {
        self.send(put_pairs(Command::new("HSET").arg(key), pairs))
    }

    /// `HSETNX`: sets a field if there is none. Replies whether it did.
    fn hsetnx(&self, key: impl ToArg, field: impl ToArg, value: impl ToArg) -> Self::Answer<bool> {
        self.send(Command::new("HSETNX").arg(key).arg(field).arg(value))
    }

    /// `HSTRLEN`: how many bytes the value of a field has; 0 if there is none.
    fn hstrlen(&self, key: impl ToArg, field: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("HSTRLEN").arg(key).arg(field))
    }

    /// `HVALS`: the values of all fields.
    fn hvals<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("HVALS").arg(key))
    }
}

impl<S: Sends + ?Sized> HashCommands for S {}
