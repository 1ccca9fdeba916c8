//! Numbers on the page, and those in milliseconds that follow the slider.

use maud::{Markup, html};

/// Milliseconds that depend on the round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Amount {
    pub(super) fixed: f64,
    /// Round trips.
    pub(super) trips: f64,
}

impl Amount {
    pub(super) fn of_trips(trips: f64) -> Amount {
        Amount { fixed: 0.0, trips }
    }

    pub(super) fn fixed(ms: f64) -> Amount {
        Amount { fixed: ms, trips: 0.0 }
    }

    pub(super) fn at(self, rtt_ms: f64) -> f64 {
        self.fixed + self.trips * rtt_ms
    }

    /// For an attribute that the script reads.
    pub(super) fn data(self) -> String {
        format!("{},{}", short(self.fixed), short(self.trips))
    }

    /// As text, which the script writes anew.
    pub(super) fn text(self, rtt_ms: f64) -> Markup {
        html! { span.ms data-ms=(self.data()) { (ms(self.at(rtt_ms))) } }
    }

    /// As a part of another amount, in percent.
    pub(super) fn percent(self, of: Amount, rtt_ms: f64) -> String {
        let all = of.at(rtt_ms);
        let share = if all > 0.0 { self.at(rtt_ms) / all * 100.0 } else { 0.0 };
        format!("{}%", short(share))
    }
}

impl std::ops::Add for Amount {
    type Output = Amount;

    fn add(self, other: Amount) -> Amount {
        Amount { fixed: self.fixed + other.fixed, trips: self.trips + other.trips }
    }
}

/// At most four decimals.
pub(super) fn short(number: f64) -> String {
    let text = format!("{number:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A time; the function `ms` of `script.js` writes the same.
pub(super) fn ms(ms: f64) -> String {
    match ms {
        ms if ms < 0.0005 => "0 ms".to_owned(),
        ms if ms < 1.0 => format!("{ms:.3} ms"),
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 100.0 => format!("{ms:.1} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 10_000.0 => format!("{:.2} s", ms / 1e3),
        ms if ms < 120_000.0 => format!("{:.1} s", ms / 1e3),
        ms => format!("{:.1} min", ms / 6e4),
    }
}

/// A number of trips or of anything else: whole from 100 on, and with thousands divided.
pub(super) fn count(number: f64) -> String {
    let tenths = format!("{number:.1}");
    if number < 99.95 && !tenths.ends_with(".0") {
        return tenths;
    }
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 unit`, `3,000 units`.
pub(super) fn several(number: f64, word: &str) -> String {
    let number = count(number);
    if number == "1" { format!("1 {word}") } else { format!("{number} {word}s") }
}

/// A share from 0 to 1.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        share if share < 1.0 => "less than 1 %".to_owned(),
        share => format!("{share:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        for (number, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (2.5, "2.5"),
            (99.96, "100"),
            (1234.4, "1,234"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(count(number), text);
        }
        assert_eq!(
            (several(1.0, "unit"), several(2.0, "unit")),
            ("1 unit".into(), "2 units".into())
        );
    }

    #[test]
    fn an_amount_grows_with_the_round_trip() {
        let amount = Amount::fixed(2.0) + Amount::of_trips(3.0);
        assert_eq!((amount.at(0.0), amount.at(10.0)), (2.0, 32.0));
        assert_eq!(amount.data(), "2,3");
        assert_eq!(amount.percent(Amount::fixed(64.0), 10.0), "50%");
    }
}
