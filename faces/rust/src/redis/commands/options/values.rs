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
    /// After so many seconds.
    Seconds(u64),
    /// After so many milliseconds.
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

    /// `GET`: the reply is the value that was there, or nil. Together with [`nx`](Self::nx) since Redis 7.0.
    #[must_use]
    pub fn get(self) -> SetOptions {
        SetOptions(self.0.word(1, "GET"))
    }

    /// `EX`: expires after so many seconds.
    #[must_use]
    pub fn ex(self, seconds: u64) -> SetOptions {
        SetOptions(self.0.value(2, "EX", seconds))
    }

    /// `PX`: expires after so many milliseconds.
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

    /// `KEEPTTL`: expires when the value before would have.
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

    /// `COUNT`: about how many are looked at in one call, 10 unless it is said.
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
    /// `BY`: in the order of what lies at the keys that this pattern makes of the items.
    #[must_use]
    pub fn by(self, pattern: impl ToArg) -> SortOptions {
        SortOptions(self.0.value(0, "BY", pattern))
    }

    /// `LIMIT`: so many from an offset on.
    #[must_use]
    pub fn limit(self, offset: u64, count: i64) -> SortOptions {
        SortOptions(self.0.set(1, Command::new("LIMIT").arg(offset).arg(count)))
    }

    /// `GET`: instead of an item what lies at the key that this pattern makes of it; `#` is the item. May be
    /// said several times.
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
    /// `RANK`: not the first but this one; negative ones are counted from the end.
    #[must_use]
    pub fn rank(self, rank: i64) -> LPosOptions {
        LPosOptions(self.0.value(0, "RANK", rank))
    }

    /// `COUNT`: the places of so many, all for 0. The reply is a list then.
    #[must_use]
    pub fn count(self, count: u64) -> LPosOptions {
        LPosOptions(self.0.value(1, "COUNT", count))
    }

    /// `MAXLEN`: looks at so many items at most.
    #[must_use]
    pub fn maxlen(self, items: u64) -> LPosOptions {
        LPosOptions(self.0.value(2, "MAXLEN", items))
    }
}
