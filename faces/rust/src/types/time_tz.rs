//! `timetz`: a time of day with its offset from UTC.

use std::fmt;
use std::str::FromStr;

use bytes::{BufMut, BytesMut};
use postgres_types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use super::ValueError;
use super::error::BoxError;
use super::interval::Fraction;
use super::reader::Reader;

/// A `timetz`: a time of day and its offset from UTC.
///
/// `Display` writes it as the server does, and `FromStr` reads that.
///
/// ```
/// use onetrip::types::TimeTz;
///
/// let time: TimeTz = "07:30:00.5-03:30".parse()?;
/// assert_eq!(time, TimeTz { microseconds: 27_000_500_000, utc_offset: -12_600 });
/// # Ok::<_, onetrip::types::ValueError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TimeTz {
    /// Microseconds since midnight, local time; 24:00 is allowed.
    pub microseconds: i64,
    /// Seconds by which local time is ahead of UTC: 3600 for +01.
    pub utc_offset: i32,
}

const DAY: i64 = 86_400_000_000;

/// The offset is less than 16 hours: MAX_TZDISP_HOUR in src/include/datatype/timestamp.h.
const OFFSET_END: i32 = 16 * 3600;

impl<'a> FromSql<'a> for TimeTz {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<TimeTz, BoxError> {
        let mut reader = Reader::new(raw);
        let microseconds = reader.i64()?;
        // The server sends the offset towards the west.
        let west = reader.i32()?;
        reader.end()?;
        Ok(TimeTz { microseconds, utc_offset: west.checked_neg().ok_or(OUT_OF_RANGE)? }
            .checked()?)
    }

    accepts!(TIMETZ);
}

impl ToSql for TimeTz {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        let time = self.checked()?;
        out.put_i64(time.microseconds);
        out.put_i32(-time.utc_offset);
        Ok(IsNull::No)
    }

    accepts!(TIMETZ);
    to_sql_checked!();
}

const OUT_OF_RANGE: ValueError = ValueError::new("it is out of the range of timetz");

impl TimeTz {
    /// The fields are public, so values are checked when they are sent and when they are read.
    fn checked(self) -> Result<TimeTz, ValueError> {
        let in_range = (0..=DAY).contains(&self.microseconds)
            && (-OFFSET_END + 1..OFFSET_END).contains(&self.utc_offset);
        if in_range { Ok(self) } else { Err(OUT_OF_RANGE) }
    }
}

impl fmt::Display for TimeTz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.microseconds.div_euclid(1_000_000);
        let fraction = Fraction(self.microseconds.rem_euclid(1_000_000).unsigned_abs());
        let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let sign = if self.utc_offset < 0 { '-' } else { '+' };
        let mut text = format!("{h:02}:{m:02}:{s:02}{fraction}{sign}");
        let offset = self.utc_offset.unsigned_abs();
        let (h, m, s) = (offset / 3600, offset / 60 % 60, offset % 60);
        text.push_str(&format!("{h:02}"));
        if m != 0 || s != 0 {
            text.push_str(&format!(":{m:02}"));
        }
        if s != 0 {
            text.push_str(&format!(":{s:02}"));
        }
        f.pad(&text)
    }
}

/// Reads `hh:mm[:ss[.ffffff]]` and an offset `±hh[:mm[:ss]]`.
///
/// # Errors
/// The text does not have this form, or is out of range.
impl FromStr for TimeTz {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<TimeTz, ValueError> {
        let at = text.find(['+', '-']).ok_or(NO_TIME)?;
        let (time, offset) = text.split_at(at);
        let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
        let seconds = seconds(time, 2)?;
        let sign = if offset.starts_with('-') { -1 } else { 1 };
        let utc_offset = sign * self::seconds(&offset[1..], 1)?;
        let microseconds = i64::from(seconds) * 1_000_000 + microseconds(fraction)?;
        TimeTz { microseconds, utc_offset }.checked()
    }
}

const NO_TIME: ValueError = ValueError::new("it is not a time with an offset");

/// Reads hours, minutes and seconds; at least `fields_min` of them.
fn seconds(text: &str, fields_min: usize) -> Result<i32, ValueError> {
    let fields: Vec<&str> = text.split(':').collect();
    if !(fields_min..=3).contains(&fields.len()) {
        return Err(NO_TIME);
    }
    let mut sum = 0;
    for (number, unit) in [3600, 60, 1].into_iter().enumerate() {
        let field = fields.get(number).copied().unwrap_or("00");
        if field.len() != 2 || !field.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NO_TIME);
        }
        let value: i32 = field.parse().map_err(|_| NO_TIME)?;
        if number > 0 && value > 59 {
            return Err(NO_TIME);
        }
        sum += value * unit;
    }
    Ok(sum)
}

fn microseconds(fraction: &str) -> Result<i64, ValueError> {
    if fraction.len() > 6 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NO_TIME);
    }
    format!("{fraction:0<6}").parse().map_err(|_| NO_TIME)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_written_as_they_were_read() {
        for text in ["00:00:00+00", "24:00:00-15:59:59", "12:34:56.000001+05:30", "07:00:00.5-03"] {
            assert_eq!(text.parse::<TimeTz>().unwrap().to_string(), text);
        }
        assert_eq!("07:00+01".parse::<TimeTz>().unwrap().to_string(), "07:00:00+01");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "+",
            "12:00:00",
            "12+00",
            "1:00+00",
            "12:60+00",
            "24:00:01+00",
            "12:00:00+16",
            "12:00:00.1234567+00",
            "12:00:00+00:00:00:00",
            "12:00:00+",
            "1٣:00+00",
        ] {
            assert!(text.parse::<TimeTz>().is_err(), "{text}");
        }
    }
}
