//! Commands on keys of any type: whether they exist, when they expire, what they are named.

use onetrip_redis::{Command, ToArg};

use super::options::{ExpireIf, ScanOptions, SortOptions};
use crate::redis::{FromReply, Sends};

/// Commands on keys of any type: whether they exist, when they expire, what they are named.
///
/// Implemented for everything that [`Sends`].
pub trait KeyCommands: Sends {
    /// `COPY`: copies a value to a key that does not exist. Replies whether it did.
    fn copy(&self, source: impl ToArg, destination: impl ToArg) -> Self::Answer<bool> {
        self.send(Command::new("COPY").arg(source).arg(destination))
    }

    /// `COPY` with `REPLACE`: copies a value, and overwrites what is at its destination. Replies
    /// whether it did.
    fn copy_replace(&self, source: impl ToArg, destination: impl ToArg) -> Self::Answer<bool> {
        self.send(Command::new("COPY").arg(source).arg(destination).arg("REPLACE"))
    }

    /// `DEL`: deletes keys. Replies with how many existed.
    fn del(&self, keys: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("DEL").args(keys))
    }

    /// `DUMP`: a value in the form that [`restore`](Self::restore) reads, or nil.
    fn dump<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("DUMP").arg(key))
    }

    /// `EXISTS`: how many of these keys exist; one that is named twice counts twice.
    fn exists(&self, keys: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("EXISTS").args(keys))
    }

    /// `EXPIRE`: makes a key expire after this many seconds. Replies whether it exists.
    fn expire(&self, key: impl ToArg, seconds: i64) -> Self::Answer<bool> {
        self.send(Command::new("EXPIRE").arg(key).arg(seconds))
    }

    /// `EXPIRE` under a condition. Replies whether it was set. Since Redis 7.0.
    fn expire_if(&self, key: impl ToArg, seconds: i64, condition: ExpireIf) -> Self::Answer<bool> {
        self.send(Command::new("EXPIRE").arg(key).arg(seconds).arg(condition))
    }

    /// `EXPIREAT`: makes a key expire at a moment, in seconds since 1970. Replies whether it
    /// exists.
    fn expireat(&self, key: impl ToArg, seconds: i64) -> Self::Answer<bool> {
        self.send(Command::new("EXPIREAT").arg(key).arg(seconds))
    }

    /// `EXPIREAT` under a condition. Replies whether it was set. Since Redis 7.0.
    fn expireat_if(
        &self,
        key: impl ToArg,
        seconds: i64,
        condition: ExpireIf,
    ) -> Self::Answer<bool> {
        self.send(Command::new("EXPIREAT").arg(key).arg(seconds).arg(condition))
    }

    /// `EXPIRETIME`: when a key expires, in seconds since 1970; -1 if never, -2 if it does not
    /// exist. Since Redis 7.0.
    fn expiretime(&self, key: impl ToArg) -> Self::Answer<i64> {
        self.send(Command::new("EXPIRETIME").arg(key))
    }

    /// `KEYS`: all keys that match a pattern (`*`, `?`, `[a-z]`). It blocks the server: in
    /// production use SCAN.
    fn keys<T: FromReply>(&self, pattern: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("KEYS").arg(pattern))
    }

    /// `MOVE`: moves a key to another database, if it is free there. Replies whether it did.
    fn move_key(&self, key: impl ToArg, database: u32) -> Self::Answer<bool> {
        self.send(Command::new("MOVE").arg(key).arg(database))
    }

    /// `OBJECT ENCODING`: how the server stores a value, or nil.
    fn object_encoding<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("OBJECT ENCODING").arg(key))
    }

    /// `OBJECT FREQ`: about how often a key is used, on the server's own scale; an error unless its
    /// eviction policy is LFU.
    fn object_freq<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("OBJECT FREQ").arg(key))
    }

    /// `OBJECT IDLETIME`: seconds since a key was used, or nil.
    fn object_idletime<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("OBJECT IDLETIME").arg(key))
    }

    /// `OBJECT REFCOUNT`: how often a value is referred to, or nil.
    fn object_refcount<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("OBJECT REFCOUNT").arg(key))
    }

    /// `PERSIST`: makes a key never expire. Replies whether it had an expiry.
    fn persist(&self, key: impl ToArg) -> Self::Answer<bool> {
        self.send(Command::new("PERSIST").arg(key))
    }

    /// `PEXPIRE`: makes a key expire after this many milliseconds. Replies whether it exists.
    fn pexpire(&self, key: impl ToArg, milliseconds: i64) -> Self::Answer<bool> {
        self.send(Command::new("PEXPIRE").arg(key).arg(milliseconds))
    }

    /// `PEXPIREAT`: makes a key expire at a moment, in milliseconds since 1970. Replies whether it
    /// exists.
    fn pexpireat(&self, key: impl ToArg, milliseconds: i64) -> Self::Answer<bool> {
        self.send(Command::new("PEXPIREAT").arg(key).arg(milliseconds))
    }

    /// `PEXPIRETIME`: when a key expires, in milliseconds since 1970; -1 if never, -2 if it does
    /// not exist. Since Redis 7.0.
    fn pexpiretime(&self, key: impl ToArg) -> Self::Answer<i64> {
        self.send(Command::new("PEXPIRETIME").arg(key))
    }

    /// `PTTL`: milliseconds until a key expires; -1 if it never does, -2 if it does not exist.
    fn pttl(&self, key: impl ToArg) -> Self::Answer<i64> {
        self.send(Command::new("PTTL").arg(key))
    }

    /// `RANDOMKEY`: a random key, or nil if there is none.
    fn randomkey<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("RANDOMKEY"))
    }

    /// `RENAME`: renames a key, and overwrites what is there. An error if the key does not exist.
    fn rename(&self, key: impl ToArg, to: impl ToArg) -> Self::Answer<()> {
        self.send(Command::new("RENAME").arg(key).arg(to))
    }

    /// `RENAMENX`: renames a key if nothing is there. Replies whether it did.
    fn renamenx(&self, key: impl ToArg, to: impl ToArg) -> Self::Answer<bool> {
        self.send(Command::new("RENAMENX").arg(key).arg(to))
    }

    /// `RESTORE`: makes a key from the result of [`dump`](Self::dump), which expires after this
    /// many milliseconds, or never for 0.
    fn restore(&self, key: impl ToArg, milliseconds: u64, dump: impl ToArg) -> Self::Answer<()> {
        self.send(Command::new("RESTORE").arg(key).arg(milliseconds).arg(dump))
    }

    /// `SCAN`: some keys, and the cursor for the next call: 0 at first, and again when all were
    /// seen. A key may come twice.
    fn scan<T: FromReply>(&self, cursor: impl ToArg, options: ScanOptions) -> Self::Answer<T> {
        self.send(options.add(Command::new("SCAN").arg(cursor)))
    }

    /// `SORT`: the items of a list, set or sorted set in order.
    fn sort<T: FromReply>(&self, key: impl ToArg, options: SortOptions) -> Self::Answer<T> {
        self.send(options.add(Command::new("SORT").arg(key)))
    }

    /// `SORT_RO`: as [`sort`](Self::sort), and may run on a replica. Since Redis 7.0.
    fn sort_ro<T: FromReply>(&self, key: impl ToArg, options: SortOptions) -> Self::Answer<T> {
        self.send(options.add(Command::new("SORT_RO").arg(key)))
    }

    /// `SORT` with `STORE`: makes a list of the items in order. Replies with how many there are.
    fn sort_store(
        &self,
        key: impl ToArg,
        options: SortOptions,
        destination: impl ToArg,
    ) -> Self::Answer<u64> {
        self.send(options.add(Command::new("SORT").arg(key)).arg("STORE").arg(destination))
    }

    /// `TOUCH`: marks these keys as used. Replies with how many exist.
    fn touch(&self, keys: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("TOUCH").args(keys))
    }

    /// `TTL`: seconds until a key expires; -1 if it never does, -2 if it does not exist.
    fn ttl(&self, key: impl ToArg) -> Self::Answer<i64> {
        self.send(Command::new("TTL").arg(key))
    }

    /// `TYPE`: `string`, `list`, `set`, `zset`, `hash`, `stream`, or `none`.
    fn key_type<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("TYPE").arg(key))
    }

    /// `UNLINK`: as [`del`](Self::del), but memory is freed later, in the background.
    fn unlink(&self, keys: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("UNLINK").args(keys))
    }
}

impl<S: Sends + ?Sized> KeyCommands for S {}
