//! Figures as people read them.

use crate::spread::Spread;

/// Three significant digits, thousands apart: `0.0123`, `1.23`, `1,235`.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let magnitude = match value.abs() {
        zero if zero < 1e-9 => 0,
        value => value.log10().floor() as i32,
    };
    let digits = (2 - magnitude).clamp(0, 9) as usize;
    let rounded = format!("{value:.digits$}");
    // 9.996 has three digits before it is rounded, and 10.00 four.
    let over =
        rounded.trim_start_matches('-').parse::<f64>().unwrap_or(0.0) >= 10f64.powi(magnitude + 1);
    let text = match over && digits > 0 {
        true => format!("{value:.*}", digits - 1),
        false => rounded,
    };
    thousands(&text)
}

/// As [`number`], without zeros that say nothing: for the ends of axes.
pub(super) fn tick(value: f64) -> String {
    let text = number(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Two significant digits: for marks at odd places.
pub(super) fn coarse(value: f64) -> String {
    let digits = match value {
        it if it > 0.0 => (1 - it.log10().floor() as i32).clamp(0, 9) as usize,
        _ => 0,
    };
    tick(format!("{value:.digits$}").parse().unwrap_or(value))
}

/// The same, where zero is one of them.
pub(super) fn tick_or_zero(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { tick(value) }
}

/// A whole number, thousands apart.
pub(super) fn count(value: u64) -> String {
    thousands(&value.to_string())
}

fn thousands(text: &str) -> String {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, whole) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

/// The median, with its quartiles where there is more than one value.
pub(super) fn spread(spread: &Spread) -> String {
    let median = number(spread.median);
    match spread.values > 1 {
        true => format!("{median} ({}–{})", number(spread.low), number(spread.high)),
        false => median,
    }
}

/// The median, with how far the farther quartile is from it: where there is little room.
pub(super) fn short_spread(spread: &Spread) -> String {
    let median = number(spread.median);
    let off = (spread.high - spread.median).max(spread.median - spread.low) / spread.median;
    match spread.values > 1 && off.is_finite() {
        true => format!("{median} ±{:.0}%", off * 100.0),
        false => median,
    }
}

/// A time in the unit that suits it: for sentences.
pub(super) fn duration_ms(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{}\u{a0}µs", number(ms * 1e3)),
        ms if ms < 1000.0 => format!("{}\u{a0}ms", number(ms)),
        ms => format!("{}\u{a0}s", number(ms / 1e3)),
    }
}

/// How many times as much: `1.04 ×`, `3.1 ×`, `41 ×`.
pub(super) fn times(ratio: f64) -> String {
    let digits = match ratio {
        it if it < 2.0 => 2,
        it if it < 10.0 => 1,
        _ => 0,
    };
    // With a space at which no line breaks.
    format!("{}\u{a0}×", thousands(&format!("{ratio:.digits$}")))
}

/// Codes with how often: `40001: 1,234, 40P01: 5`.
pub(super) fn codes(codes: &std::collections::BTreeMap<String, u64>) -> String {
    let each = codes.iter().map(|(code, times)| format!("{code}: {}", count(*times)));
    each.collect::<Vec<_>>().join(", ")
}

/// `one`, `one and two`, `one, two and three`.
pub(super) fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// With an `s` unless it is one.
pub(super) fn several(count: usize, word: &str) -> String {
    let number = self::count(count as u64);
    match count {
        1 => format!("{number} {word}"),
        _ => format!("{number} {word}s"),
    }
}

/// Without a capital in front.
pub(super) fn small(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_lowercase().chain(rest).collect()).unwrap_or_default()
}

/// With a capital in front.
pub(super) fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.0, 0.01234, 0.9996, 1.5, 9.996, 12.34, 999.7, 1234.5, 1_234_567.0];
        let texts = shown.map(number);
        let expected =
            ["0.00", "0.0123", "1.00", "1.50", "10.0", "12.3", "1,000", "1,234", "1,234,567"];
        assert_eq!(texts, expected);
        assert_eq!(number(f64::NAN), "–");
        assert_eq!([0.5, 20.0, 1000.0].map(tick), ["0.5", "20", "1,000"]);
    }

    #[test]
    fn ratios_have_as_many_digits_as_they_can_bear() {
        assert_eq!(
            [1.044, 3.13, 41.3, 1234.0].map(times),
            ["1.04\u{a0}×", "3.1\u{a0}×", "41\u{a0}×", "1,234\u{a0}×"]
        );
    }

    #[test]
    fn words_are_listed_as_in_a_sentence() {
        let words = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(list(&words), "a, b and c");
        assert_eq!(list(&words[..1]), "a");
        assert_eq!(several(1, "task") + &several(2, "task"), "1 task2 tasks");
    }
}
