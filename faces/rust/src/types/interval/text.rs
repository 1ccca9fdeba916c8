//! The text of an interval as the server writes it with `IntervalStyle = postgres`: EncodeInterval
//! in src/backend/utils/adt/datetime.c.

use std::fmt;

use super::Interval;

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&postgres(*self))
    }
}

fn postgres(interval: Interval) -> String {
    match interval {
        Interval::INFINITY => return "infinity".to_owned(),
        Interval::NEG_INFINITY => return "-infinity".to_owned(),
        _ => {}
    }
    let (years, months) = interval.years_and_months();
    let mut parts = Vec::new();
    let mut negative_before = false;
    for (value, unit) in [(years, "year"), (months, "mon"), (interval.days, "day")] {
        if value != 0 {
            // Behind a negative part, a positive part gets a plus sign.
            let plus = if negative_before && value > 0 { "+" } else { "" };
            let plural = if value == 1 { "" } else { "s" };
            parts.push(format!("{plus}{value} {unit}{plural}"));
            negative_before = value < 0;
        }
    }
    if interval.microseconds != 0 || parts.is_empty() {
        let sign = match interval.microseconds {
            ..0 => "-",
            _ if negative_before => "+",
            _ => "",
        };
        let (hours, minutes, seconds, fraction) = interval.clock();
        let fraction = Fraction(fraction);
        parts.push(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{fraction}"));
    }
    parts.join(" ")
}

/// Microseconds of a second, without the zeros at the end; nothing if there are none.
pub(in crate::types) struct Fraction(pub(in crate::types) u64);

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            microseconds => f.write_str(format!(".{microseconds:06}").trim_end_matches('0')),
        }
    }
}
