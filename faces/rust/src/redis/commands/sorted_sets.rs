//! Commands on sorted sets: members in the order of their scores. A bound of a range is a score,
//! one with `(` in front that is not included, `-inf` or `+inf`.

use onetrip_redis::{Command, ToArg};

use super::args::{put_counted, put_pairs};
use super::options::{End, ScanOptions, ZAddOptions, ZCombine, ZRangeOptions};
use crate::redis::{FromReply, Sends};

/// Commands on sorted sets: members in the order of their scores. A bound of a range is a score,
/// one with `(` in front that is not included, `-inf` or `+inf`.
///
/// Implemented for everything that [`Sends`].
pub trait SortedSetCommands: Sends {
    /// `BZMPOP`: as [`zmpop`](Self::zmpop), and waits for a member up to `timeout` seconds, or for
    /// ever with 0. Since Redis 7.0.
    fn bzmpop<T: FromReply>(
        &self,
        timeout: f64,
        keys: impl IntoIterator<Item: ToArg>,
        end: End,
        count: u64,
    ) -> Self::Answer<T> {
        self.send(
            put_counted(Command::new("BZMPOP").arg(timeout), keys).arg(end).arg("COUNT").arg(count),
        )
    }

    /// `BZPOPMAX`: removes the member with the highest score from the first of these sets that has
    /// one, and waits for it up to `timeout` seconds, or for ever with 0. Replies with key, member
    /// and score, or nil.
    fn bzpopmax<T: FromReply>(
        &self,
        keys: impl IntoIterator<Item: ToArg>,
        timeout: f64,
    ) -> Self::Answer<T> {
        self.send(Command::new("BZPOPMAX").args(keys).arg(timeout))
    }

    /// `BZPOPMIN`: as [`bzpopmax`](Self::bzpopmax), with the lowest score.
    fn bzpopmin<T: FromReply>(
        &self,
        keys: impl IntoIterator<Item: ToArg>,
        timeout: f64,
    ) -> Self::Answer<T> {
        self.send(Command::new("BZPOPMIN").args(keys).arg(timeout))
    }

    /// `ZADD`: adds a member, or changes its score. Replies with 1 if it is new.
    fn zadd(&self, key: impl ToArg, score: f64, member: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("ZADD").arg(key).arg(score).arg(member))
    }

    /// `ZADD` of several, each a score with its member. Replies with how many are new.
    fn zadd_multiple(
        &self,
        key: impl ToArg,
        members: impl IntoIterator<Item = (impl ToArg, impl ToArg)>,
    ) -> Self::Answer<u64> {
        self.send(put_pairs(Command::new("ZADD").arg(key), members))
    }

    /// `ZADD` with options. Replies with how many are new, or changed with [`ch`](ZAddOptions::ch).
    fn zadd_options(
        &self,
        key: impl ToArg,
        options: ZAddOptions,
        members: impl IntoIterator<Item = (impl ToArg, impl ToArg)>,
    ) -> Self::Answer<u64> {
        self.send(put_pairs(options.add(Command::new("ZADD").arg(key)), members))
    }

    /// `ZADD` with `INCR`: adds to the score of a member. Replies with the new score, or nil if the
    /// condition did not hold.
    fn zadd_incr(
        &self,
        key: impl ToArg,
        options: ZAddOptions,
        by: f64,
        member: impl ToArg,
    ) -> Self::Answer<Option<f64>> {
        self.send(options.add(Command::new("ZADD").arg(key)).arg("INCR").arg(by).arg(member))
    }

    /// `ZCARD`: how many members there are.
    fn zcard(&self, key: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("ZCARD").arg(key))
    }

    /// `ZCOUNT`: how many members have a score in this range.
    fn zcount(&self, key: impl ToArg, min: impl ToArg, max: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("ZCOUNT").arg(key).arg(min).arg(max))
    }

    /// `ZDIFF`: the members of the first set that are in none of the others.
    fn zdiff<T: FromReply>(&self, keys: impl IntoIterator<Item: ToArg>) -> Self::Answer<T> {
        self.send(put_counted(Command::new("ZDIFF"), keys))
    }

    /// `ZDIFF` with `WITHSCORES`: as [`zdiff`](Self::zdiff), with their scores.
    fn zdiff_withscores<T: FromReply>(
        &self,
        keys: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<T> {
        self.send(put_counted(Command::new("ZDIFF"), keys).arg("WITHSCORES"))
    }

    /// `ZDIFFSTORE`: makes a sorted set of [`zdiff`](Self::zdiff). Replies with how many members it
    /// has.
    fn zdiffstore(
        &self,
        destination: impl ToArg,
        keys: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<u64> {
        self.send(put_counted(Command::new("ZDIFFSTORE").arg(destination), keys))
    }

    /// `ZINCRBY`: adds to the score of a member; a missing member counts as 0. Replies with the new
    /// value.
    fn zincrby(&self, key: impl ToArg, by: f64, member: impl ToArg) -> Self::Answer<f64> {
        self.send(Command::new("ZINCRBY").arg(key).arg(by).arg(member))
    }

    /// `ZINTER`: the members that all of these sets have.
    fn zinter<T: FromReply>(
        &self,
        keys: impl IntoIterator<Item: ToArg>,
        options: ZCombine,
    ) -> Self::Answer<T> {
        self.send(options.add(put_counted(Command::new("ZINTER"), keys)))
    }

    /// `ZINTER` with `WITHSCORES`: as [`zinter`](Self::zinter), with their scores.
    fn zinter_withscores<T: FromReply>(
        &self,
        keys: impl IntoIterator<Item: ToArg>,
        options: ZCombine,
    ) -> Self::Answer<T> {
        self.send(options.add(put_counted(Command::new("ZINTER"), keys)).arg("WITHSCORES"))
    }

    /// `ZINTERCARD`: how many members all of these sets have. Since Redis 7.0.
    fn zintercard(&self, keys: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(put_counted(Command::new("ZINTERCARD"), keys))
    }

    /// `ZINTERSTORE`: makes a sorted set of [`zinter`](Self::zinter). Replies with how many members
    /// it has.
    fn zinterstore(
        &self,
        destination: impl ToArg,
        keys: impl IntoIterator<Item: ToArg>,
        options: ZCombine,
    ) -> Self::Answer<u64> {
        self.send(options.add(put_counted(Command::new("ZINTERSTORE").arg(destination), keys)))
    }

    /// `ZLEXCOUNT`: how many members lie between two, where all scores are equal. A bound is `[` or
    /// `(` and a member, `-` or `+`.
    fn zlexcount(&self, key: impl ToArg, min: impl ToArg, max: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("ZLEXCOUNT").arg(key).arg(min).arg(max))
    }

    /// `ZMPOP`: removes up to `count` members from the first nonempty set among these. Replies with
    /// its key and the members with their scores, or nil. Since Redis 7.0.
    fn zmpop<T: FromReply>(
        &self,
        keys: impl IntoIterator<Item: ToArg>,
        end: End,
        count: u64,
    ) -> Self::Answer<T> {
        self.send(put_counted(Command::new("ZMPOP"), keys).arg(end).arg("COUNT").arg(count))
    }

    /// `ZMSCORE`: the scores of members in their order.
    fn zmscore(
        &self,
        key: impl ToArg,
        members: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<Vec<Option<f64>>> {
        self.send(Command::new("ZMSCORE").arg(key).args(members))
    }

    /// `ZPOPMAX`: removes up to `count` members with the highest scores. Replies with them and
    /// their scores.
    fn zpopmax<T: FromReply>(&self, key: impl ToArg, count: u64) -> Self::Answer<T> {
        self.send(Command::new("ZPOPMAX").arg(key).arg(count))
    }

    /// `ZPOPMIN`: removes up to `count` members with the lowest scores. Replies with them and their
    /// scores.
    fn zpopmin<T: FromReply>(&self, key: impl ToArg, count: u64) -> Self::Answer<T> {
        self.send(Command::new("ZPOPMIN").arg(key).arg(count))
    }

    /// `ZRANDMEMBER`: a random member, or nil.
    fn zrandmember<T: FromReply>(&self, key: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("ZRANDMEMBER").arg(key))
    }

    /// `ZRANDMEMBER` with a count: up to `count` distinct members; if `count` is negative, exactly
    /// that many, perhaps with repeats.
    fn zrandmember_count<T: FromReply>(&self, key: impl ToArg, count: i64) -> Self::Answer<T> {
        self.send(Command::new("ZRANDMEMBER").arg(key).arg(count))
    }

    /// `ZRANDMEMBER` with `WITHSCORES`: as [`zrandmember_count`](Self::zrandmember_count), with
    /// their scores.
    fn zrandmember_withscores<T: FromReply>(&self, key: impl ToArg, count: i64) -> Self::Answer<T> {
        self.send(Command::new("ZRANDMEMBER").arg(key).arg(count).arg("WITHSCORES"))
    }

    /// `ZRANGE`: the members from one index to another, both included, in the order of their
    /// scores. Negative indexes count from the end.
    fn zrange<T: FromReply>(&self, key: impl ToArg, start: i64, stop: i64) -> Self::Answer<T> {
        self.send(Command::new("ZRANGE").arg(key).arg(start).arg(stop))
    }

    /// `ZRANGE` with `WITHSCORES`: as [`zrange`](Self::zrange), with their scores.
    fn zrange_withscores<T: FromReply>(
        &self,
        key: impl ToArg,
        start: i64,
        stop: i64,
    ) -> Self::Answer<T> {
        self.send(Command::new("ZRANGE").arg(key).arg(start).arg(stop).arg("WITHSCORES"))
    }

    /// `ZRANGE` with options: by index, score or member, in either direction.
    fn zrange_options<T: FromReply>(
        &self,
        key: impl ToArg,
        start: impl ToArg,
        stop: impl ToArg,
        options: ZRangeOptions,
    ) -> Self::Answer<T> {
        self.send(options.add(Command::new("ZRANGE").arg(key).arg(start).arg(stop)))
    }

    /// `ZRANGEBYLEX`: the members between two, where all scores are equal. Bounds as in
    /// [`zlexcount`](Self::zlexcount).
    fn zrangebylex<T: FromReply>(
        &self,
        key: impl ToArg,
        min: impl ToArg,
        max: impl ToArg,
    ) -> Self::Answer<T> {
        self.send(Command::new("ZRANGEBYLEX").arg(key).arg(min).arg(max))
    }

    /// `ZRANGEBYSCORE`: the members with scores in this range.
    fn zrangebyscore<T: FromReply>(
        &self,
        key: impl ToArg,
        min: impl ToArg,
        max: impl ToArg,
    ) -> Self::Answer<T> {
        self.send(Command::new("ZRANGEBYSCORE").arg(key).arg(min).arg(max))
    }

    /// `ZRANGEBYSCORE` with `WITHSCORES`: as [`zrangebyscore`](Self::zrangebyscore), with their
    /// scores.
    fn zrangebyscore_withscores<T: FromReply>(
        &self,
        key: impl ToArg,
        min: impl ToArg,
        max: impl ToArg,
    ) -> Self::Answer<T> {
        self.send(Command::new("ZRANGEBYSCORE").arg(key).arg(min).arg(max).arg("WITHSCORES"))
    }

    /// `ZRANGEBYSCORE` with `LIMIT`: up to `count` of the members with scores in this range, from
    /// an offset on; all of them if `count` is negative.
    fn zrangebyscore_limit<T: FromReply>(
        &self,
        key: impl ToArg,
        min: impl ToArg,
        max: impl ToArg,
        offset: u64,
        count: i64,
    ) -> Self::Answer<T> {
        self.send(
            Command::new("ZRANGEBYSCORE")
                .arg(key)
                .arg(min)
                .arg(max)
                .arg("LIMIT")
                .arg(offset)
                .arg(count),
        )
    }

    /// `ZRANGESTORE`: makes a sorted set of a range of another one. Replies with how many members
    /// it has.
    fn zrangestore(
        &self,
        destination: impl ToArg,
        source: impl ToArg,
        start: impl ToArg,
        stop: impl ToArg,
        options: ZRangeOptions,
    ) -> Self::Answer<u64> {
        self.send(
            options
                .add(Command::new("ZRANGESTORE").arg(destination).arg(source).arg(start).arg(stop)),
        )
    }

    /// `ZRANK`: the index of a member in the order of scores, from 0.
    fn zrank(&self, key: impl ToArg, member: impl ToArg) -> Self::Answer<Option<u64>> {
        self.send(Command::new("ZRANK").arg(key).arg(member))
    }

    /// `ZREM`: removes members. Replies with how many existed.
    fn zrem(&self, key: impl ToArg, members: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("ZREM").arg(key).args(members))
    }

    /// `ZREMRANGEBYLEX`: removes the members between two. Bounds as in
    /// [`zlexcount`](Self::zlexcount). Replies with how many existed.
    fn zremrangebylex(
        &self,
        key: impl ToArg,
        min: impl ToArg,
        max: impl ToArg,
    ) -> Self::Answer<u64> {
        self.send(Command::new("ZREMRANGEBYLEX").arg(key).arg(min).arg(max))
    }

    /// `ZREMRANGEBYRANK`: removes the members from one index to another, both included. Replies
    /// with how many existed.
    fn zremrangebyrank(&self, key: impl ToArg, start: i64, stop: i64) -> Self::Answer<u64> {
        self.send(Command::new("ZREMRANGEBYRANK").arg(key).arg(start).arg(stop))
    }

    /// `ZREMRANGEBYSCORE`: removes the members with scores in this range. Replies with how many
    /// existed.
    fn zremrangebyscore(
        &self,
        key: impl ToArg,
        min: impl ToArg,
        max: impl ToArg,
    ) -> Self::Answer<u64> {
        self.send(Command::new("ZREMRANGEBYSCORE").arg(key).arg(min).arg(max))
    }

    /// `ZREVRANGE`: as [`zrange`](Self::zrange), from the highest score on.
    fn zrevrange<T: FromReply>(&self, key: impl ToArg, start: i64, stop: i64) -> Self::Answer<T> {
        self.send(Command::new("ZREVRANGE").arg(key).arg(start).arg(stop))
    }

    /// `ZREVRANGE` with `WITHSCORES`: as [`zrevrange`](Self::zrevrange), with their scores.
    fn zrevrange_withscores<T: FromReply>(
        &self,
        key: impl ToArg,
        start: i64,
        stop: i64,
    ) -> Self::Answer<T> {
        self.send(Command::new("ZREVRANGE").arg(key).arg(start).arg(stop).arg("WITHSCORES"))
    }

    /// `ZREVRANGEBYSCORE`: as [`zrangebyscore`](Self::zrangebyscore), from the highest score on;
    /// the upper bound comes first.
    fn zrevrangebyscore<T: FromReply>(
        &self,
        key: impl ToArg,
        max: impl ToArg,
        min: impl ToArg,
    ) -> Self::Answer<T> {
        self.send(Command::new("ZREVRANGEBYSCORE").arg(key).arg(max).arg(min))
    }

    /// `ZREVRANK`: the index of a member from the highest score, from 0.
    fn zrevrank(&self, key: impl ToArg, member: impl ToArg) -> Self::Answer<Option<u64>> {
        self.send(Command::new("ZREVRANK").arg(key).arg(member))
    }

    /// `ZSCAN`: some members with their scores, and the cursor for the next call, as in
    /// [`scan`](super::KeyCommands::scan).
    fn zscan<T: FromReply>(
        &self,
        key: impl ToArg,
        cursor: impl ToArg,
        options: ScanOptions,
    ) -> Self::Answer<T> {
        self.send(options.add(Command::new("ZSCAN").arg(key).arg(cursor)))
    }

    /// `ZSCORE`: the score of a member.
    fn zscore(&self, key: impl ToArg, member: impl ToArg) -> Self::Answer<Option<f64>> {
        self.send(Command::new("ZSCORE").arg(key).arg(member))
    }

    /// `ZUNION`: the members that any of these sets has.
    fn zunion<T: FromReply>(
        &self,
        keys: impl IntoIterator<Item: ToArg>,
        options: ZCombine,
    ) -> Self::Answer<T> {
        self.send(options.add(put_counted(Command::new("ZUNION"), keys)))
    }

    /// `ZUNION` with `WITHSCORES`: as [`zunion`](Self::zunion), with their scores.
    fn zunion_withscores<T: FromReply>(
        &self,
        keys: impl IntoIterator<Item: ToArg>,
        options: ZCombine,
    ) -> Self::Answer<T> {
        self.send(options.add(put_counted(Command::new("ZUNION"), keys)).arg("WITHSCORES"))
    }

    /// `ZUNIONSTORE`: makes a sorted set of [`zunion`](Self::zunion). Replies with how many members
    /// it has.
    fn zunionstore(
        &self,
        destination: impl ToArg,
        keys: impl IntoIterator<Item: ToArg>,
        options: ZCombine,
    ) -> Self::Answer<u64> {
        self.send(options.add(put_counted(Command::new("ZUNIONSTORE").arg(destination), keys)))
    }
}

impl<S: Sends + ?Sized> SortedSetCommands for S {}
