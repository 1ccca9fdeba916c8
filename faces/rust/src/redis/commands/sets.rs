//! Commands on sets.

use onetrip_redis::{Command, ToArg};

use super::args::put_counted;
use super::options::ScanOptions;
use crate::redis::{FromReply, Sends};

/// Commands on sets.
///
/// Implemented for everything that [`Sends`].
pub trait SetCommands: Sends {
    /// `SADD`: adds members. Replies with how many are new.
    fn sadd(&self, key: impl ToArg, members: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("SADD").arg(key).args(members))
    }

    /// `SCARD`: how many members there are.
    fn scard(&self, key: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("SCARD").arg(key))
    }

    /// `SDIFF`: the members of the first set that are in none of the others.
    fn sdiff<T: FromReply>(&self, keys: impl IntoIterator<Item: ToArg>) -> Self::Answer<T> {
        self.send(Command::new("SDIFF").args(keys))
    }

    /// `SDIFFSTORE`: makes a set of [`sdiff`](Self::sdiff). Replies with how many members it has.
    fn sdiffstore(
        &self,
        destination: impl ToArg,
        keys: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<u64> {
        self.send(Command::new("SDIFFSTORE").arg(destination).args(keys))
    }

    /// `SINTER`: the members that all of these sets have.
    fn sinter<T: FromReply>(&self, keys: impl IntoIterator<Item: ToArg>) -> Self::Answer<T> {
        self.send(Command::new("SINTER").args(keys))
    }

    /// `SINTERCARD`: how many members all of these sets have. Since Redis 7.0.
    fn sintercard(&self, keys: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(put_counted(Command::new("SINTERCARD"), keys))
    }

    /// `SINTERCARD` with `LIMIT`: as [`sintercard`](Self::sintercard), and stops counting at
    /// `limit`. Since Redis 7.0.
    fn sintercard_limit(
        &self,
        keys: impl IntoIterator<Item: ToArg>,
        limit: u64,
    ) -> Self::Answer<u64> {
        self.send(put_counted(Command::new("SINTERCARD"), keys).arg("LIMIT").arg(limit))
    }

    /// `SINTERSTORE`: makes a set of [`sinter`](Self::sinter). Replies with how many members it
    /// has.
    fn sinterstore(
        &self,
        destination: impl ToArg,
        keys: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<u64> {
        self.send(Command::new("SINTERSTORE").arg(destination).args(keys))
    }

    /// `SISMEMBER`: whether this is a member.
    fn sismember(&self, key: impl ToArg, member: impl ToArg) -> Self::Answer<bool> {
        self.send(Command::new("SISMEMBER").arg(key).arg(member))
    }

    /// `SMEMBERS`: all members.
    fn smembers<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("SMEMBERS").arg(key))
    }

    /// `SMISMEMBER`: whether each of these is a member.
    fn smismember(
        &self,
        key: impl ToArg,
        members: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<Vec<bool>> {
        self.send(Command::new("SMISMEMBER").arg(key).args(members))
    }

    /// `SMOVE`: moves a member to another set. Replies whether there was one.
    fn smove(
        &self,
        source: impl ToArg,
        destination: impl ToArg,
        member: impl ToArg,
    ) -> Self::Answer<bool> {
        self.send(Command::new("SMOVE").arg(source).arg(destination).arg(member))
    }

    /// `SPOP`: removes a random member. Replies with it, or nil.
    fn spop<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("SPOP").arg(key))
    }

    /// `SPOP` with a count: removes up to `count` random members.
    fn spop_count<T: FromReply>(&self, key: impl ToArg, count: u64) -> Self::Answer<T> {
        self.send(Command::new("SPOP").arg(key).arg(count))
    }

    /// `SRANDMEMBER`: a random member, or nil.
    fn srandmember<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("SRANDMEMBER").arg(key))
    }

    /// `SRANDMEMBER` with a count: up to `count` distinct members; if `count` is negative, exactly
    /// that many, perhaps with repeats.
    fn srandmember_count<T: FromReply>(&self, key: impl ToArg, count: i64) -> Self::Answer<T> {
        self.send(Command::new("SRANDMEMBER").arg(key).arg(count))
    }

    /// `SREM`: removes members. Replies with how many existed.
    fn srem(&self, key: impl ToArg, members: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("SREM").arg(key).args(members))
    }

    /// `SSCAN`: some members, and the cursor for the next call, as in
    /// [`scan`](super::KeyCommands::scan).
    fn sscan<T: FromReply>(
        &self,
        key: impl ToArg,
        cursor: impl ToArg,
        options: ScanOptions,
    ) -> Self::Answer<T> {
        self.send(options.add(Command::new("SSCAN").arg(key).arg(cursor)))
    }

    /// `SUNION`: the members that any of these sets has.
    fn sunion<T: FromReply>(&self, keys: impl IntoIterator<Item: ToArg>) -> Self::Answer<T> {
        self.send(Command::new("SUNION").args(keys))
    }

    /// `SUNIONSTORE`: makes a set of [`sunion`](Self::sunion). Replies with how many members it
    /// has.
    fn sunionstore(
        &self,
        destination: impl ToArg,
        keys: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<u64> {
        self.send(Command::new("SUNIONSTORE").arg(destination).args(keys))
    }
}

impl<S: Sends + ?Sized> SetCommands for S {}
