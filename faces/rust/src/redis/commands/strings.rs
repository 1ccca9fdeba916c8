//! Commands on strings, which are also numbers.

use onetrip_redis::{Command, ToArg};

use super::args::put_pairs;
use super::options::{Expiry, SetOptions};
use crate::redis::{FromReply, Sends};

/// Commands on strings, which are also numbers.
///
/// Implemented for everything that [`Sends`].
pub trait StringCommands: Sends {
    /// `APPEND`: appends to a value. Replies with the new length.
    fn append(&self, key: impl ToArg, value: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("APPEND").arg(key).arg(value))
    }

    /// `DECR`: subtracts one from a number; a missing key counts as 0. Replies with the new value.
    fn decr(&self, key: impl ToArg) -> Self::Answer<i64> {
        self.send(Command::new("DECR").arg(key))
    }

    /// `DECRBY`: subtracts from a number. Replies with the new value.
    fn decrby(&self, key: impl ToArg, by: i64) -> Self::Answer<i64> {
        self.send(Command::new("DECRBY").arg(key).arg(by))
    }

    /// `DELIFEQ`: deletes a key if it holds this string, as the owner of a lock gives it back.
    /// Replies whether it did. Since Valkey 9.0.
    fn delifeq(&self, key: impl ToArg, value: impl ToArg) -> Self::Answer<bool> {
        self.send(Command::new("DELIFEQ").arg(key).arg(value))
    }

    /// `GET`: the value of a key, or nil.
    fn get<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("GET").arg(key))
    }

    /// `GETDEL`: the value of a key, or nil; the key is deleted.
    fn getdel<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("GETDEL").arg(key))
    }

    /// `GETEX`: the value of a key, or nil, and sets when it expires.
    fn getex<T: FromReply>(&self, key: impl ToArg, expiry: Expiry) -> Self::Answer<T> {
        self.send(expiry.add(Command::new("GETEX").arg(key)))
    }

    /// `GETRANGE`: the bytes of a value from `start` to `end`, both included. Negative indexes
    /// count from the end.
    fn getrange<T: FromReply>(&self, key: impl ToArg, start: i64, end: i64) -> Self::Answer<T> {
        self.send(Command::new("GETRANGE").arg(key).arg(start).arg(end))
    }

    /// `GETSET`: sets a value, and replies with the old one, or nil. An expiry is removed.
    fn getset<T: FromReply>(&self, key: impl ToArg, value: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("GETSET").arg(key).arg(value))
    }

    /// `INCR`: adds one to a number; a missing key counts as 0. Replies with the new value.
    fn incr(&self, key: impl ToArg) -> Self::Answer<i64> {
        self.send(Command::new("INCR").arg(key))
    }

    /// `INCRBY`: adds to a number. Replies with the new value.
    fn incrby(&self, key: impl ToArg, by: i64) -> Self::Answer<i64> {
        self.send(Command::new("INCRBY").arg(key).arg(by))
    }

    /// `INCRBYFLOAT`: adds to a number with a fraction. Replies with the new value.
    fn incrbyfloat(&self, key: impl ToArg, by: f64) -> Self::Answer<f64> {
        self.send(Command::new("INCRBYFLOAT").arg(key).arg(by))
    }

    /// `LCS`: the longest common subsequence of two values. Since Redis 7.0.
    fn lcs<T: FromReply>(&self, key1: impl ToArg, key2: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("LCS").arg(key1).arg(key2))
    }

    /// `LCS` with `LEN`: how long the longest common subsequence of two values is. Since Redis 7.0.
    fn lcs_len(&self, key1: impl ToArg, key2: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("LCS").arg(key1).arg(key2).arg("LEN"))
    }

    /// `MGET`: the values of keys in their order, nil for each that is missing.
    fn mget<T: FromReply>(&self, keys: impl IntoIterator<Item: ToArg>) -> Self::Answer<T> {
        self.send(Command::new("MGET").args(keys))
    }

    /// `MSET`: sets each key to its value, atomically (in a cluster: atomically for each hash
    /// slot).
    fn mset(&self, pairs: impl IntoIterator<Item = (impl ToArg, impl ToArg)>) -> Self::Answer<()> {
        self.send(put_pairs(Command::new("MSET"), pairs))
    }

    /// `MSETNX`: sets each key to its value if none of them exists. Replies whether it did.
    fn msetnx(
        &self,
        pairs: impl IntoIterator<Item = (impl ToArg, impl ToArg)>,
    ) -> Self::Answer<bool> {
        self.send(put_pairs(Command::new("MSETNX"), pairs))
    }

    /// `PSETEX`: sets a value that expires after this many milliseconds.
    fn psetex(&self, key: impl ToArg, milliseconds: u64, value: impl ToArg) -> Self::Answer<()> {
        self.send(Command::new("PSETEX").arg(key).arg(milliseconds).arg(value))
    }

    /// `SET`: sets a value, and overwrites an old one. An expiry is removed.
    fn set(&self, key: impl ToArg, value: impl ToArg) -> Self::Answer<()> {
        self.send(Command::new("SET").arg(key).arg(value))
    }

    /// `SET` with options. Replies `OK`, or nil if its condition did not hold, so `Option<()>`
    /// fits; with [`get`](SetOptions::get) the value before, or nil.
    fn set_options<T: FromReply>(
        &self,
        key: impl ToArg,
        value: impl ToArg,
        options: SetOptions,
    ) -> Self::Answer<T> {
        self.send(options.add(Command::new("SET").arg(key).arg(value)))
    }

    /// `SETEX`: sets a value that expires after this many seconds.
    fn setex(&self, key: impl ToArg, seconds: u64, value: impl ToArg) -> Self::Answer<()> {
        self.send(Command::new("SETEX").arg(key).arg(seconds).arg(value))
    }

    /// `SETNX`: sets a value if there is none. Replies whether it did.
    fn setnx(&self, key: impl ToArg, value: impl ToArg) -> Self::Answer<bool> {
        self.send(Command::new("SETNX").arg(key).arg(value))
    }

    /// `SETRANGE`: writes over a value from an offset on; a shorter value is first padded with
    /// zeros. Replies with the new length.
    fn setrange(&self, key: impl ToArg, offset: u64, value: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("SETRANGE").arg(key).arg(offset).arg(value))
    }

    /// `STRLEN`: how many bytes a value has; 0 if there is none.
    fn strlen(&self, key: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("STRLEN").arg(key))
    }
}

impl<S: Sends + ?Sized> StringCommands for S {}
