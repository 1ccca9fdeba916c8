//! Reads an interval: the server's forms, and further common units.

use std::str::FromStr;

use super::Interval;
use crate::types::ValueError;

pub(super) const NO_INTERVAL: ValueError = ValueError::new("it is not an interval");
const OUT_OF_RANGE: ValueError = ValueError::new("it is out of the range of interval");

/// Reads numbers with units and a time (`1 year 2 mons -3 days +04:05:06.789`), ISO 8601 with
/// designators (`P1Y2M-3DT4H5M6.789S`), `infinity` and `-infinity`. Units are microseconds,
/// milliseconds, seconds, minutes, hours, days, weeks, months (`mons`), years, decades, centuries
/// and millennia, each at most once. Those from hours downwards may have a fraction.
///
/// # Errors
/// It is none of these, or a part does not fit.
impl FromStr for Interval {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Interval, ValueError> {
        match text {
            "infinity" | "+infinity" => return Ok(Interval::INFINITY),
            "-infinity" => return Ok(Interval::NEG_INFINITY),
            _ => {}
        }
        if let Some(designated) = text.strip_prefix('P') {
            return super::iso::parse(designated);
        }
        let mut words = text.split_ascii_whitespace().peekable();
        if words.peek().is_none() {
            return Err(NO_INTERVAL);
        }
        let mut sum = Sum::default();
        while let Some(word) = words.next() {
            match word.contains(':') {
                true => sum.add_time(word)?,
                false => sum.add(word, words.next().ok_or(NO_INTERVAL)?)?,
            }
        }
        sum.interval()
    }
}

/// The sums of the parts so far, wide enough not to overflow before they are checked.
#[derive(Debug, Default)]
pub(super) struct Sum {
    months: i64,
    days: i64,
    microseconds: i128,
    /// Which of the [`UNITS`] have occurred, as bits: the server accepts each once.
    seen: u16,
}

impl Sum {
    /// Adds a number of units.
    pub(super) fn add(&mut self, number: &str, unit: &str) -> Result<(), ValueError> {
        let is_it = |(names, ..): &Unit| names.contains(&unit);
        let at = UNITS.iter().position(is_it).ok_or(NO_INTERVAL)?;
        let (_, months, days, microseconds) = UNITS[at];
        self.see(1 << at)?;
        if microseconds > 0 {
            let part = decimal(number, microseconds)?;
            self.microseconds = self.microseconds.saturating_add(part);
            return Ok(());
        }
        let number: i64 = whole(number)?.into();
        self.months = self.months.saturating_add(number * months);
        self.days = self.days.saturating_add(number * days);
        Ok(())
    }

    fn see(&mut self, units: u16) -> Result<(), ValueError> {
        if self.seen & units != 0 {
            return Err(NO_INTERVAL);
        }
        self.seen |= units;
        Ok(())
    }

    /// Adds `[+-]hours:minutes[:seconds[.fraction]]`.
    fn add_time(&mut self, text: &str) -> Result<(), ValueError> {
        self.see((1 << TIME_UNITS) - 1)?;
        let (sign, rest) = sign(text);
        let mut fields = rest.splitn(3, ':');
        let mut field = || fields.next().unwrap_or("0");
        let (hours, minutes, seconds) = (field(), field(), field());
        if !is_number(hours) || !is_number(minutes) || seconds.starts_with(['+', '-']) {
            return Err(NO_INTERVAL);
        }
        let (minutes, seconds) = (decimal(minutes, 60_000_000)?, decimal(seconds, 1_000_000)?);
        // The server accepts up to 60 whole seconds, with a fraction.
        if minutes > 59 * 60_000_000 || seconds >= 61_000_000 {
            return Err(NO_INTERVAL);
        }
        let time = decimal(hours, 3_600_000_000)? + minutes + seconds;
        self.microseconds = self.microseconds.saturating_add(sign * time);
        Ok(())
    }

    pub(super) fn interval(self) -> Result<Interval, ValueError> {
        let fits = |_| OUT_OF_RANGE;
        Ok(Interval {
            months: self.months.try_into().map_err(fits)?,
            days: self.days.try_into().map_err(fits)?,
            microseconds: self.microseconds.try_into().map_err(|_| OUT_OF_RANGE)?,
        })
    }
}

/// The names of a unit, and its months, days or microseconds.
type Unit = (&'static [&'static str], i64, i64, i64);

const UNITS: [Unit; 12] = [
    (&["microsecond", "microseconds"], 0, 0, 1),
    (&["millisecond", "milliseconds"], 0, 0, 1_000),
    (&["second", "seconds", "sec", "secs"], 0, 0, 1_000_000),
    (&["minute", "minutes", "min", "mins"], 0, 0, 60_000_000),
    (&["hour", "hours"], 0, 0, 3_600_000_000),
    (&["day", "days"], 0, 1, 0),
    (&["week", "weeks"], 0, 7, 0),
    (&["mon", "mons", "month", "months"], 1, 0, 0),
    (&["year", "years"], 12, 0, 0),
    (&["decade", "decades"], 120, 0, 0),
    (&["century", "centuries"], 1_200, 0, 0),
    (&["millennium", "millennia"], 12_000, 0, 0),
];

/// How many of the units a time of day stands for.
const TIME_UNITS: u16 = 5;

fn sign(text: &str) -> (i128, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A whole number.
fn whole(text: &str) -> Result<i32, ValueError> {
    let (_, digits) = sign(text);
    if !is_number(digits) {
        return Err(NO_INTERVAL);
    }
    text.parse().map_err(|_| OUT_OF_RANGE)
}

/// A number of units, in microseconds. A fraction may have as many digits as a microsecond needs.
fn decimal(text: &str, unit: i64) -> Result<i128, ValueError> {
    let (sign, text) = sign(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_part = |digits: &str| digits.is_empty() || is_number(digits);
    if (whole.is_empty() && fraction.is_empty()) || !is_part(whole) || !is_part(fraction) {
        return Err(NO_INTERVAL);
    }
    let number = |digits: &str| match digits {
        "" => Ok(0),
        digits => digits.parse::<i64>().map(i128::from).map_err(|_| OUT_OF_RANGE),
    };
    let mut microseconds = number(whole)? * i128::from(unit);
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        let power = 10_i128.checked_pow(fraction.len() as u32).ok_or(OUT_OF_RANGE)?;
        let part = number(fraction)? * i128::from(unit);
        if part % power != 0 {
            return Err(ValueError::new("it has a fraction of a microsecond"));
        }
        microseconds += part / power;
    }
    Ok(sign * microseconds)
}
