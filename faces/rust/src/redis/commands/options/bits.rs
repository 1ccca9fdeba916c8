//! Options of commands on bits.

use onetrip_redis::Command;

use super::options;
use super::words::words;

options! {
    /// Operations of `BITFIELD` on integers within a string. A type is `u` or `i` with a number of
    /// bits (`u8`, `i16`, up to `u63` and `i64`); an offset is a bit's, or, with `#` in front, an
    /// integer's.
    ///
    /// ```
    /// use onetrip::redis::commands::{BitField, Overflow};
    ///
    /// let sum = BitField::new().get("u8", "0").overflow(Overflow::Sat).incrby("i5", "#2", 1);
    /// ```
    BitField;
}

words! {
    /// How `BITOP` combines bits.
    BitOp {
        /// 1 if all are.
        And = b"AND",
        /// 1 if at least one is.
        Or = b"OR",
        /// 1 if an odd number is.
        Xor = b"XOR",
        /// The opposite; takes a single key.
        Not = b"NOT",
    }
    /// How the operations that follow handle an integer that gets too large.
    Overflow {
        /// It wraps around; the default.
        Wrap = b"WRAP",
        /// It becomes the largest possible value.
        Sat = b"SAT",
        /// It is not changed, and the reply is nil.
        Fail = b"FAIL",
    }
}

impl BitField {
    /// `GET`: reads an integer.
    #[must_use]
    pub fn get(self, of_type: &str, offset: &str) -> BitField {
        self.more(Command::new("GET").arg(of_type).arg(offset))
    }

    /// `SET`: sets an integer, and replies with its old value.
    #[must_use]
    pub fn set(self, of_type: &str, offset: &str, value: i64) -> BitField {
        self.more(Command::new("SET").arg(of_type).arg(offset).arg(value))
    }

    /// `INCRBY`: adds to an integer, and replies with its new value.
    #[must_use]
    pub fn incrby(self, of_type: &str, offset: &str, by: i64) -> BitField {
        self.more(Command::new("INCRBY").arg(of_type).arg(offset).arg(by))
    }

    /// `OVERFLOW`: how the operations that follow handle integers that get too large.
    #[must_use]
    pub fn overflow(self, how: Overflow) -> BitField {
        self.more(Command::new("OVERFLOW").arg(how))
    }

    fn more(self, operation: Command) -> BitField {
        BitField(self.0.more(0, operation))
    }
}
