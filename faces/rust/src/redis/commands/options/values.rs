//! Options of commands on keys, strings and lists.

use onetrip_redis::{Command, ToArg};

use super::options;

options! {
    /// Options of `SET`.
    ///
    /// ```
    /// use onetrip::redis::commands::SetOptions;
    ///
    /// let options = SetOptions::new().nx().ex(60);
    /// ```
    SetOptions;
    /// Options of `SCAN`, `HSCAN`, `SSCAN` and `ZSCAN`.
    ScanOptions;
    /// Options of `SORT` and `SORT_RO`.
    SortOptions;
    /// Options of `LPOS`.
    LPosOptions;
}

/// When a key expires, as `GETEX` sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// As it was.
    Keep,
    /// After this many seconds.
    Seconds(u64),
    /// After this many milliseconds.
    Milliseconds(u64),
    /// At a moment, in seconds since 1970.
    AtSeconds(u64),
    /// At a moment, in milliseconds since 1970.
    AtMilliseconds(u64),
    /// Never.
    Never,
}

impl Expiry {
    pub(in crate::redis::commands) fn add(self, command: Command) -> Command {
        let (word, at) = match self {
            Expiry::Keep => return command,
            Expiry::Never => return command.arg("PERSIST"),
            Expiry::Seconds(at) => ("EX", at),
            Expiry::Milliseconds(at) => ("PX", at),
            Expiry::AtSeconds(at) => ("EXAT", at),
            Expiry::AtMilliseconds(at) => ("PXAT", at),
        };
        command.arg(word).arg(at)
    }
}

impl SetOptions {
    /// `NX`: only if there is no value.
    #[must_use]
    pub fn nx(self) -> SetOptions {
        SetOptions(self.0.word(0, "NX"))
    }

    /// `XX`: only if there is a value.
    #[must_use]
    pub fn xx(self) -> SetOptions {
        SetOptions(self.0.word(0, "XX"))
    }

    /// `GET`: the reply is the value that was there, or nil. Together with [`nx`](Self::nx) since
    /// Redis 7.0.
    #[must_use]
    pub fn get(self) -> SetOptions {
        SetOptions(self.0.word(1, "GET"))
    }

    /// `EX`: expires after this many seconds.
    #[must_use]
    pub fn ex(self, seconds: u64) -> SetOptions {
        SetOptions(self.0.value(2, "EX", seconds))
    }

    /// `PX`: expires after this many milliseconds.
    #[must_use]
    pub fn px(self, milliseconds: u64) -> SetOptions {
        SetOptions(self.0.value(2, "PX", milliseconds))
    }

    /// `EXAT`: expires at a moment, in seconds since 1970.
    #[must_use]
    pub fn exat(self, seconds: u64) -> SetOptions {
        SetOptions(self.0.value(2, "EXAT", seconds))
    }

    /// `PXAT`: expires at a moment, in milliseconds since 1970.
    #[must_use]
    pub fn pxat(self, milliseconds: u64) -> SetOptions {
        SetOptions(self.0.value(2, "PXAT", milliseconds))
    }

    /// `KEEPTTL`: keeps the expiry of the old value.
    #[must_use]
    pub fn keepttl(self) -> SetOptions {
        SetOptions(self.0.word(2, "KEEPTTL"))
    }
}

impl ScanOptions {
    /// `MATCH`: only those that match a pattern.
    #[must_use]
    pub fn pattern(self, pattern: impl ToArg) -> ScanOptions {
        ScanOptions(self.0.value(0, "MATCH", pattern))
    }

    /// `COUNT`: about how many are examined in one call; 10 by default.
    #[must_use]
    pub fn count(self, count: u64) -> ScanOptions {
        ScanOptions(self.0.value(1, "COUNT", count))
    }

    /// `TYPE`: only keys of this type. For `SCAN` alone.
    #[must_use]
    pub fn of_type(self, name: impl ToArg) -> ScanOptions {
        ScanOptions(self.0.value(2, "TYPE", name))
    }
}

impl SortOptions {
    /// `BY`: sorts by the values of other keys; the pattern makes their names from the items.
    #[must_use]
    pub fn by(self, pattern: impl ToArg) -> SortOptions {
        SortOptions(self.0.value(0, "BY", pattern))
    }

    /// `LIMIT`: at most `count`, from an offset on.
    #[must_use]
    pub fn limit(self, offset: u64, count: i64) -> SortOptions {
        SortOptions(self.0.set(1, Command::new("LIMIT").arg(offset).arg(count)))
    }

    /// `GET`: returns the value of another key instead of an item; the pattern makes its name from
    /// the item, and `#` is the item itself. May be called several times.
    #[must_use]
    pub fn get(self, pattern: impl ToArg) -> SortOptions {
        SortOptions(self.0.more(2, Command::new("GET").arg(pattern)))
    }

    /// `DESC`: the highest first.
    #[must_use]
    pub fn desc(self) -> SortOptions {
        SortOptions(self.0.word(3, "DESC"))
    }

    /// `ALPHA`: as texts, not as numbers.
    #[must_use]
    pub fn alpha(self) -> SortOptions {
        SortOptions(self.0.word(4, "ALPHA"))
    }
}

impl LPosOptions {
    /// `RANK`: the match with this number, instead of the first; negative numbers count from the
    /// end.
    #[must_use]
    pub fn rank(self, rank: i64) -> LPosOptions {
        LPosOptions(self.0.value(0, "RANK", rank))
    }

    /// `COUNT`: the indexes of up to this many, all for 0. The reply is a list then.
    #[must_use]
    pub fn count(self, count: u64) -> LPosOptions {
        LPosOptions(self.0.value(1, "COUNT", count))
    }

    /// `MAXLEN`: examines at most `items` items.
    #[must_use]
    pub fn maxlen(self, items: u64) -> LPosOptions {
        LPosOptions(self.0.value(2, "MAXLEN", items))
    }
}
