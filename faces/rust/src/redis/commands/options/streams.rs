//! Options of commands on streams.

use onetrip_redis::{Command, ToArg};

use super::options;

options! {
    /// Options of `XREAD` and `XREADGROUP`.
    XReadOptions;
    /// Options of `XADD`.
    XAddOptions;
    /// Options of `XAUTOCLAIM`.
    XClaimOptions;
}

/// How much of a stream is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trim(Command);

impl Trim {
    /// `MAXLEN =`: exactly this many entries.
    #[must_use]
    pub fn maxlen(entries: u64) -> Trim {
        Trim(Command::new("MAXLEN =").arg(entries))
    }

    /// `MAXLEN ~`: at least this many entries, and about as many, which costs the server less.
    #[must_use]
    pub fn maxlen_about(entries: u64) -> Trim {
        Trim(Command::new("MAXLEN ~").arg(entries))
    }

    /// `MINID =`: the entries from this id on.
    #[must_use]
    pub fn minid(id: impl ToArg) -> Trim {
        Trim(Command::new("MINID =").arg(id))
    }

    /// `MINID ~`: at least the entries from this id on, which costs the server less.
    #[must_use]
    pub fn minid_about(id: impl ToArg) -> Trim {
        Trim(Command::new("MINID ~").arg(id))
    }

    /// `LIMIT`: removes at most `entries` in one go; only with `~`.
    #[must_use]
    pub fn limit(self, entries: u64) -> Trim {
        Trim(self.0.arg("LIMIT").arg(entries))
    }

    pub(in crate::redis::commands) fn add(&self, command: Command) -> Command {
        command.args(self.0.iter())
    }
}

impl XReadOptions {
    /// `COUNT`: at most `entries` entries of each stream.
    #[must_use]
    pub fn count(self, entries: u64) -> XReadOptions {
        XReadOptions(self.0.value(0, "COUNT", entries))
    }

    /// `BLOCK`: waits up to `milliseconds` for an entry, or for ever with 0.
    #[must_use]
    pub fn block(self, milliseconds: u64) -> XReadOptions {
        XReadOptions(self.0.value(1, "BLOCK", milliseconds))
    }

    /// `NOACK`: entries count as acknowledged when they are read. For `XREADGROUP` alone.
    #[must_use]
    pub fn noack(self) -> XReadOptions {
        XReadOptions(self.0.word(2, "NOACK"))
    }
}

impl XAddOptions {
    /// `NOMKSTREAM`: does nothing if there is no stream.
    #[must_use]
    pub fn nomkstream(self) -> XAddOptions {
        XAddOptions(self.0.word(0, "NOMKSTREAM"))
    }

    /// Removes the oldest entries.
    #[must_use]
    pub fn trim(self, trim: Trim) -> XAddOptions {
        XAddOptions(self.0.set(1, trim.0))
    }
}

impl XClaimOptions {
    /// `COUNT`: at most `entries` entries; 100 by default.
    #[must_use]
    pub fn count(self, entries: u64) -> XClaimOptions {
        XClaimOptions(self.0.value(0, "COUNT", entries))
    }

    /// `JUSTID`: replies with ids only, and does not count a delivery.
    #[must_use]
    pub fn justid(self) -> XClaimOptions {
        XClaimOptions(self.0.word(1, "JUSTID"))
    }
}
