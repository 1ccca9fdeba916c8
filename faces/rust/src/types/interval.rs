//! `interval`: months, days and microseconds, which PostgreSQL keeps separate.

mod convert;
mod iso;
mod parse;
mod text;

use bytes::{BufMut, BytesMut};
use postgres_types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use super::error::BoxError;
use super::reader::Reader;
pub(super) use text::Fraction;

/// An `interval`: months, days and microseconds, each with its own sign. They can't be converted
/// into one another, since months and days differ in length.
///
/// `Display` writes it as the server does with `IntervalStyle = postgres`, its default;
/// [`iso_8601`](Self::iso_8601) as the server does with `iso_8601`. `FromStr` reads both.
///
/// ```
/// use onetrip::types::Interval;
///
/// let lease: Interval = "1 year 2 mons -3 days +04:05:06.5".parse()?;
/// assert_eq!(lease, Interval::new(14, -3, 14_706_500_000));
/// assert_eq!(lease.iso_8601().to_string(), "P1Y2M-3DT4H5M6.5S");
/// assert_eq!("P1Y2M-3DT4H5M6.5S".parse(), Ok(lease));
/// # Ok::<_, onetrip::types::ValueError>(())
/// ```
///
/// Two intervals are equal if their parts are. The server compares differently: there a month
/// equals 30 days, and a day 24 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interval {
    /// Months, years included.
    pub months: i32,
    /// Days, weeks included.
    pub days: i32,
    /// Hours, minutes and seconds, in microseconds.
    pub microseconds: i64,
}

impl Interval {
    /// Longer than any other. PostgreSQL has it since 17. Before that, these parts are an ordinary
    /// interval, although `Display` writes `infinity` here.
    pub const INFINITY: Interval = Interval::new(i32::MAX, i32::MAX, i64::MAX);

    /// Shorter than any other; see [`INFINITY`](Self::INFINITY).
    pub const NEG_INFINITY: Interval = Interval::new(i32::MIN, i32::MIN, i64::MIN);

    /// An interval of these parts.
    pub const fn new(months: i32, days: i32, microseconds: i64) -> Interval {
        Interval { months, days, microseconds }
    }

    /// Whether it is infinite, of either sign.
    pub fn is_infinite(self) -> bool {
        self == Interval::INFINITY || self == Interval::NEG_INFINITY
    }

    /// Years, and the months that are left, with the same sign.
    fn years_and_months(self) -> (i32, i32) {
        (self.months / 12, self.months % 12)
    }

    /// Hours, minutes, seconds and microseconds, without their common sign.
    fn clock(self) -> (u64, u64, u64, u64) {
        let microseconds = self.microseconds.unsigned_abs();
        let seconds = microseconds / MICROSECONDS;
        (seconds / 3600, seconds / 60 % 60, seconds % 60, microseconds % MICROSECONDS)
    }
}

/// Microseconds in a second.
const MICROSECONDS: u64 = 1_000_000;

impl<'a> FromSql<'a> for Interval {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Interval, BoxError> {
        let mut reader = Reader::new(raw);
        let microseconds = reader.i64()?;
        let days = reader.i32()?;
        let months = reader.i32()?;
        reader.end()?;
        Ok(Interval { months, days, microseconds })
    }

    accepts!(INTERVAL);
}

impl ToSql for Interval {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        out.put_i64(self.microseconds);
        out.put_i32(self.days);
        out.put_i32(self.months);
        Ok(IsNull::No)
    }

    accepts!(INTERVAL);
    to_sql_checked!();
}

#[cfg(test)]
mod tests;
