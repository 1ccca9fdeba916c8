//! The calendar, from PostgreSQL's first day, 2000-01-01.

/// Microseconds of a day.
pub(crate) const DAY: i64 = 86_400_000_000;

/// Days from 0000-03-01, with which the calendar repeats well, to PostgreSQL's first.
const SHIFT: i64 = 730_425;
/// Days of 400 years.
const ERA: i64 = 146_097;

/// Year, month and day, so many days behind the first; none outside of what Python has.
pub(crate) fn civil(days: i64) -> Option<(i32, u8, u8)> {
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
    (1..=9999).contains(&year).then_some((year as i32, month as u8, day as u8))
}

/// The other way.
pub(crate) fn days(year: i32, month: u8, day: u8) -> i64 {
    let year = i64::from(year) - i64::from(month <= 2);
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day = (153 * shifted + 2) / 5 + i64::from(day) - 1;
    era * ERA + 365 * year + year / 4 - year / 100 + day - SHIFT
}

/// Hours, minutes, seconds and microseconds.
pub(crate) fn clock(micros: i64) -> (u8, u8, u8, u32) {
    let seconds = micros / 1_000_000;
    let part = |unit: i64, of: i64| (seconds / unit % of) as u8;
    (part(3600, 24), part(60, 60), part(1, 60), (micros % 1_000_000) as u32)
}
