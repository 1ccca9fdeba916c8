//! Commands on the bits of strings. The first bit of a byte is its highest.

use onetrip_redis::{Command, ToArg};

use super::options::{BitField, BitOp};
use crate::redis::{FromReply, Sends};

/// Commands on the bits of strings. The first bit of a byte is its highest.
///
/// Implemented for everything that [`Sends`].
pub trait BitmapCommands: Sends {
    /// `BITCOUNT`: how many bits are 1.
    fn bitcount(&self, key: impl ToArg) -> Self::Answer<u64> {
        self.send(Command::new("BITCOUNT").arg(key))
    }

    /// `BITCOUNT` with a range: how many bits are 1 from one byte to another, both included.
    /// Negative indexes count from the end.
    fn bitcount_range(&self, key: impl ToArg, start: i64, end: i64) -> Self::Answer<u64> {
        self.send(Command::new("BITCOUNT").arg(key).arg(start).arg(end))
    }

    /// `BITFIELD`: reads and changes integers within a string, one operation after the other.
    /// Replies with a list of numbers, nil for each that would have overflowed.
    fn bitfield<T: FromReply>(&self, key: impl ToArg, operations: BitField) -> Self::Answer<T> {
        self.send(operations.add(Command::new("BITFIELD").arg(key)))
    }

    /// `BITFIELD_RO`: as [`bitfield`](Self::bitfield), for operations that only read.
    fn bitfield_ro<T: FromReply>(&self, key: impl ToArg, operations: BitField) -> Self::Answer<T> {
        self.send(operations.add(Command::new("BITFIELD_RO").arg(key)))
    }

    /// `BITOP`: combines strings bit by bit; shorter ones are padded with zeros. Replies with its
    /// length in bytes.
    fn bitop(
        &self,
        operation: BitOp,
        destination: impl ToArg,
        keys: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<u64> {
        self.send(Command::new("BITOP").arg(operation).arg(destination).args(keys))
    }

    /// `BITPOS`: the index of the first bit that is 0 or 1, or -1.
    fn bitpos(&self, key: impl ToArg, bit: u8) -> Self::Answer<i64> {
        self.send(Command::new("BITPOS").arg(key).arg(bit))
    }

    /// `BITPOS` with a range: as [`bitpos`](Self::bitpos), from one byte to another, both included.
    fn bitpos_range(&self, key: impl ToArg, bit: u8, start: i64, end: i64) -> Self::Answer<i64> {
        self.send(Command::new("BITPOS").arg(key).arg(bit).arg(start).arg(end))
    }

    /// `GETBIT`: a bit, 0 or 1; 0 behind the end.
    fn getbit(&self, key: impl ToArg, offset: u64) -> Self::Answer<u8> {
        self.send(Command::new("GETBIT").arg(key).arg(offset))
    }

    /// `SETBIT`: sets a bit; a shorter string is first padded with zeros. Replies with the old
    /// value.
    fn setbit(&self, key: impl ToArg, offset: u64, bit: u8) -> Self::Answer<u8> {
        self.send(Command::new("SETBIT").arg(key).arg(offset).arg(bit))
    }
}

impl<S: Sends + ?Sized> BitmapCommands for S {}
