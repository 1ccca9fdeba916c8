//! Intervals in ISO 8601 with designators: `P1Y2M3DT4H5M6S`.

use std::fmt;

use super::Interval;
use super::text::Fraction;
use crate::types::ValueError;

impl Interval {
    /// The interval in ISO 8601, as the server writes it with `IntervalStyle = iso_8601`. An
    /// infinite interval is `infinity` or `-infinity`, for which ISO 8601 has no form.
    pub fn iso_8601(self) -> impl fmt::Display + fmt::Debug + Copy {
        Iso(self)
    }
}

#[derive(Clone, Copy, Debug)]
struct Iso(Interval);

impl fmt::Display for Iso {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            interval if interval.is_infinite() => fmt::Display::fmt(&interval, f),
            Interval { months: 0, days: 0, microseconds: 0 } => f.pad("PT0S"),
            interval => f.pad(&designated(interval)),
        }
    }
}

fn designated(interval: Interval) -> String {
    let (years, months) = interval.years_and_months();
    let mut out = String::from("P");
    for (value, designator) in [(years, 'Y'), (months, 'M'), (interval.days, 'D')] {
        if value != 0 {
            out.push_str(&format!("{value}{designator}"));
        }
    }
    if interval.microseconds != 0 {
        out.push('T');
        let sign = if interval.microseconds < 0 { "-" } else { "" };
        let (hours, minutes, seconds, fraction) = interval.clock();
        for (value, designator) in [(hours, 'H'), (minutes, 'M')] {
            if value != 0 {
                out.push_str(&format!("{sign}{value}{designator}"));
            }
        }
        if seconds != 0 || fraction != 0 {
            out.push_str(&format!("{sign}{seconds}{}S", Fraction(fraction)));
        }
    }
    out
}

/// Reads the text behind the P.
pub(super) fn parse(text: &str) -> Result<Interval, ValueError> {
    let (date, time) = match text.split_once('T') {
        Some((_, "")) => return Err(super::parse::NO_INTERVAL),
        Some((date, time)) => (date, time),
        None => (text, ""),
    };
    if date.is_empty() && time.is_empty() {
        return Err(super::parse::NO_INTERVAL);
    }
    let mut sum = super::parse::Sum::default();
    add(&mut sum, date, &[('Y', "year"), ('M', "month"), ('W', "week"), ('D', "day")])?;
    add(&mut sum, time, &[('H', "hour"), ('M', "minute"), ('S', "second")])?;
    sum.interval()
}

/// Adds numbers with these designators, which must come in this order, each at most once.
fn add(
    sum: &mut super::parse::Sum,
    mut text: &str,
    mut designators: &[(char, &str)],
) -> Result<(), ValueError> {
    while let Some(len) = text.find(|c: char| c.is_ascii_alphabetic()) {
        let (number, rest) = text.split_at(len);
        let designator = rest.chars().next();
        let at = designators.iter().position(|(known, _)| Some(*known) == designator);
        let at = at.ok_or(super::parse::NO_INTERVAL)?;
        sum.add(number, designators[at].1)?;
        designators = &designators[at + 1..];
        text = &rest[1..];
    }
    if text.is_empty() { Ok(()) } else { Err(super::parse::NO_INTERVAL) }
}
