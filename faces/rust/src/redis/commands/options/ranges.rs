//! Options of commands on sorted sets.

use onetrip_redis::Command;

use super::options;
use super::words::words;

options! {
    /// Options of `ZADD`.
    ZAddOptions;
    /// Options of `ZRANGE` and `ZRANGESTORE`.
    ZRangeOptions;
    /// How the scores of several sets are combined.
    ZCombine;
}

words! {
    /// How the scores of a member that several sets have are combined.
    Aggregate {
        /// Their sum, the default.
        Sum = b"SUM",
        /// The lowest.
        Min = b"MIN",
        /// The highest.
        Max = b"MAX",
    }
}

impl ZAddOptions {
    /// `NX`: only members that are new.
    #[must_use]
    pub fn nx(self) -> ZAddOptions {
        ZAddOptions(self.0.word(0, "NX"))
    }

    /// `XX`: only members that are there.
    #[must_use]
    pub fn xx(self) -> ZAddOptions {
        ZAddOptions(self.0.word(0, "XX"))
    }

    /// `GT`: changes a score only to a higher one.
    #[must_use]
    pub fn gt(self) -> ZAddOptions {
        ZAddOptions(self.0.word(1, "GT"))
    }

    /// `LT`: changes a score only to a lower one.
    #[must_use]
    pub fn lt(self) -> ZAddOptions {
        ZAddOptions(self.0.word(1, "LT"))
    }

    /// `CH`: replies with how many were changed, not only with how many are new.
    #[must_use]
    pub fn ch(self) -> ZAddOptions {
        ZAddOptions(self.0.word(2, "CH"))
    }
}

impl ZRangeOptions {
    /// `BYSCORE`: the bounds are scores.
    #[must_use]
    pub fn byscore(self) -> ZRangeOptions {
        ZRangeOptions(self.0.word(0, "BYSCORE"))
    }

    /// `BYLEX`: the bounds are members.
    #[must_use]
    pub fn bylex(self) -> ZRangeOptions {
        ZRangeOptions(self.0.word(0, "BYLEX"))
    }

    /// `REV`: from the highest on; the upper bound comes first.
    #[must_use]
    pub fn rev(self) -> ZRangeOptions {
        ZRangeOptions(self.0.word(1, "REV"))
    }

    /// `LIMIT`: at most `count`, from an offset on. Not with indexes.
    #[must_use]
    pub fn limit(self, offset: u64, count: i64) -> ZRangeOptions {
        ZRangeOptions(self.0.set(2, Command::new("LIMIT").arg(offset).arg(count)))
    }

    /// `WITHSCORES`: members with their scores. Not for `ZRANGESTORE`.
    #[must_use]
    pub fn withscores(self) -> ZRangeOptions {
        ZRangeOptions(self.0.word(3, "WITHSCORES"))
    }
}

impl ZCombine {
    /// `WEIGHTS`: the factors for the scores of each set, in the order of the sets.
    #[must_use]
    pub fn weights(self, weights: impl IntoIterator<Item = f64>) -> ZCombine {
        ZCombine(self.0.set(0, Command::new("WEIGHTS").args(weights)))
    }

    /// `AGGREGATE`: how the scores of a member that several sets have are combined.
    #[must_use]
    pub fn aggregate(self, how: Aggregate) -> ZCombine {
        ZCombine(self.0.value(1, "AGGREGATE", how))
    }
}
