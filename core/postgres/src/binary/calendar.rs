//! Dates and times, which PostgreSQL counts from 2000-01-01 on.

use super::{Malformed, Parts};

/// Microseconds of a day.
pub const DAY: i64 = 86_400_000_000;

/// Days from 1970-01-01 to 2000-01-01.
pub const DAYS_FROM_1970: i32 = 10_957;

/// Days from 0000-03-01, with which the calendar repeats well, to PostgreSQL's first.
const SHIFT: i64 = 730_425;
/// Days of 400 years.
const ERA: i64 = 146_097;

/// Year, month and day of the day that is so many days behind PostgreSQL's first. Year 0 is 1 BC.
pub fn civil(days: i64) -> (i64, u8, u8) {
    // By eras of 400 years that begin in March: the leap day is the last of its year (Howard
    // Hinnant, "chrono-compatible low-level date algorithms").
    let days = days + SHIFT;
    let (era, day) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    let day = day - (153 * shifted + 2) / 5 + 1;
    (year, month as u8, day as u8)
}

/// The days from PostgreSQL's first to this one.
pub fn days(year: i32, month: u8, day: u8) -> i64 {
    let year = i64::from(year) - i64::from(month <= 2);
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day = (153 * shifted + 2) / 5 + i64::from(day) - 1;
    era * ERA + 365 * year + year / 4 - year / 100 + day - SHIFT
}

/// Hours, minutes, seconds and microseconds of a time of day in microseconds.
pub fn clock(micros: i64) -> (u8, u8, u8, u32) {
    let seconds = (micros / 1_000_000) as u32;
    let part = |unit: u32, of: u32| (seconds / unit % of) as u8;
    (part(3600, 24), part(60, 60), part(1, 60), (micros % 1_000_000) as u32)
}

/// The microseconds of a time of day.
pub fn micros(hour: u8, minute: u8, second: u8, micros: u32) -> i64 {
    let minutes = i64::from(hour) * 60 + i64::from(minute);
    (minutes * 60 + i64::from(second)) * 1_000_000 + i64::from(micros)
}

/// Appends a time of day as the server prints it, with as many digits behind the point as it needs.
pub fn put_time(micros: i64, out: &mut Vec<u8>) {
    let whole = micros / 1_000_000;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    push(out, format_args!("{hours:02}:{minutes:02}:{seconds:02}"));
    let part = micros % 1_000_000;
    if part != 0 {
        push(out, format_args!(".{part:06}"));
        let zeros = out.iter().rev().take_while(|byte| **byte == b'0').count();
        out.truncate(out.len() - zeros);
    }
}

/// Appends a moment, counted from 2000-01-01 in UTC, as the server prints it in UTC.
pub fn put_utc(micros: i64, out: &mut Vec<u8>) {
    put_moment(micros, "+00", out);
}

/// The same without a zone.
pub fn put_timestamp(micros: i64, out: &mut Vec<u8>) {
    put_moment(micros, "", out);
}

fn put_moment(micros: i64, zone: &str, out: &mut Vec<u8>) {
    match micros {
        i64::MAX => return out.extend_from_slice(b"infinity"),
        i64::MIN => return out.extend_from_slice(b"-infinity"),
        _ => {}
    }
    let era = put_day(micros.div_euclid(DAY), out);
    out.push(b' ');
    put_time(micros.rem_euclid(DAY), out);
    push(out, format_args!("{zone}{era}"));
}

/// Appends a day, counted from 2000-01-01, as the server prints it.
pub fn put_date(days: i32, out: &mut Vec<u8>) {
    match days {
        i32::MAX => out.extend_from_slice(b"infinity"),
        i32::MIN => out.extend_from_slice(b"-infinity"),
        _ => {
            let era = put_day(days.into(), out);
            out.extend_from_slice(era.as_bytes());
        }
    }
}

/// Appends year, month and day, and returns what stands at the end, behind the time.
fn put_day(days: i64, out: &mut Vec<u8>) -> &'static str {
    let (year, month, day) = civil(days);
    // The year 0 is the year 1 before Christ.
    let (shown, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    push(out, format_args!("{shown:04}-{month:02}-{day:02}"));
    era
}

/// Appends a distance from UTC, in seconds to the west.
pub fn put_offset(west: i32, out: &mut Vec<u8>) {
    let sign = if west > 0 { '-' } else { '+' };
    let seconds = west.unsigned_abs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    push(out, format_args!("{sign}{hours:02}:{minutes:02}:{seconds:02}"));
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // A Vec takes all that is written to it.
    let _ = std::io::Write::write_fmt(out, text);
}

/// An interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Hours, minutes and seconds, in microseconds.
    pub micros: i64,
    /// Days, weeks included.
    pub days: i32,
    /// Months, years included.
    pub months: i32,
}

impl Interval {
    /// Reads the binary form.
    ///
    /// # Errors
    /// It has not its length.
    pub fn read(value: &[u8]) -> Result<Interval, Malformed> {
        let mut parts = Parts(value);
        let micros = i64::from_be_bytes(parts.take()?);
        let (days, months) = (parts.i32()?, parts.i32()?);
        if parts.0.is_empty() { Ok(Interval { micros, days, months }) } else { Err(Malformed) }
    }

    /// Appends a text from which the server reads the same, whatever its IntervalStyle.
    pub fn put_text(self, out: &mut Vec<u8>) {
        let Interval { micros, days, months } = self;
        match (micros, days, months) {
            (i64::MAX, i32::MAX, i32::MAX) => return out.extend_from_slice(b"infinity"),
            (i64::MIN, i32::MIN, i32::MIN) => return out.extend_from_slice(b"-infinity"),
            _ => {}
        }
        push(out, format_args!("{months} mons {days} days "));
        let (seconds, part) =
            (micros.unsigned_abs() / 1_000_000, micros.unsigned_abs() % 1_000_000);
        let sign = if micros < 0 { "-" } else { "+" };
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        push(out, format_args!("{sign}{hours}:{minutes:02}:{seconds:02}.{part:06}"));
    }

    /// Appends the binary form.
    pub fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.micros.to_be_bytes());
        out.extend_from_slice(&self.days.to_be_bytes());
        out.extend_from_slice(&self.months.to_be_bytes());
    }
}
