//! An axis: where values stand, which of them are marked, and what it is called.

use std::ops::Range;

use plotters::coord::ranged1d::Ranged;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};

use crate::report::format;

/// One dimension of a chart.
#[derive(Clone, Debug)]
pub(in crate::report) struct Axis {
    /// What it shows, with its unit.
    pub(super) label: String,
    scale: Scale,
    range: Range<f64>,
    pub(super) ticks: Vec<(f64, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Logarithmic,
    /// Of parts of a whole: as much room for 90 to 99 % as for 99 to 99.9 %.
    Nines,
}

impl Axis {
    /// From the mark below the smallest value to the one above the largest; marks at 1, 2 and 5, or
    /// at powers of ten where those are many.
    pub(in crate::report) fn logarithmic(label: &str, values: &[f64]) -> Axis {
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = values.iter().copied().fold(0.0, f64::max);
        let (low, high) = match smallest.is_finite() {
            true => (steps_below(smallest), steps_below(largest * 0.999_999) + 1),
            false => (0, 3),
        };
        // Marks for at least a factor of five, so that a flat line looks flat.
        let high = high.max(low + 2);
        let every = if high - low > 7 { 3 } else { 1 };
        let steps = (low..=high).filter(|step| step.rem_euclid(every) == 0);
        let ticks = steps.map(step).map(|value| (value, format::tick(value))).collect();
        let range = step(low)..step(high);
        Axis { label: with_scale(label), scale: Scale::Logarithmic, range, ticks }
    }

    /// Logarithmic, with these values marked and none else. Where the marks are `names`, their
    /// places are no values, and the axis is no scale.
    pub(in crate::report) fn at(label: &str, marks: &[(f64, String)], names: bool) -> Axis {
        let places = || marks.iter().map(|(value, _)| *value);
        let low = places().fold(f64::INFINITY, f64::min);
        let high = places().fold(0.0, f64::max).max(low * 1.01);
        let axis = Axis {
            label: if names { label.to_owned() } else { with_scale(label) },
            scale: Scale::Logarithmic,
            range: low..high,
            ticks: Vec::new(),
        };
        let ticks = thin(marks, |value| axis.part(value));
        Axis { ticks, ..axis }
    }

    /// Parts from a half up to this one, as percentiles.
    pub(in crate::report) fn percentiles(highest: f64) -> Axis {
        let marks = [(0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99")];
        let shown = marks.iter().filter(|(part, _)| *part <= highest + 1e-9);
        Axis {
            label: with_scale("percentile of operations, %"),
            scale: Scale::Nines,
            range: 0.5..highest.max(0.9),
            ticks: shown.map(|(part, label)| (*part, (*label).to_owned())).collect(),
        }
    }

    fn on_scale(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Logarithmic => value.max(f64::MIN_POSITIVE).log10(),
            Scale::Nines => -(1.0 - value).max(1e-9).log10(),
        }
    }

    /// Where a value stands: from 0 to 1.
    pub(super) fn part(&self, value: f64) -> f64 {
        let (low, high) = (self.on_scale(self.range.start), self.on_scale(self.range.end));
        (self.on_scale(value) - low) / (high - low)
    }
}

/// Who reads a logarithmic axis as a linear one is misled, so it says what it is.
fn with_scale(label: &str) -> String {
    match label.strip_suffix(')') {
        Some(label) => format!("{label}, log scale)"),
        None => format!("{label} (log scale)"),
    }
}

/// Marks that are far enough apart for their texts; the first and the last one stay.
fn thin(marks: &[(f64, String)], part: impl Fn(f64) -> f64) -> Vec<(f64, String)> {
    let far = |a: &(f64, String), b: &(f64, String)| {
        let chars = (a.1.chars().count() + b.1.chars().count()) as f64 / 2.0 + 1.0;
        (part(a.0) - part(b.0)).abs() > chars * CHARACTER
    };
    let Some((last, rest)) = marks.split_last() else { return Vec::new() };
    let mut kept: Vec<(f64, String)> = Vec::new();
    for mark in rest {
        if kept.last().is_none_or(|before| far(before, mark)) && far(mark, last) {
            kept.push(mark.clone());
        }
    }
    kept.push(last.clone());
    kept
}

/// The width of a character, as a part of a narrow chart's axis.
const CHARACTER: f64 = 0.036;

/// 1, 2, 5, 10, 20 and so on by number; 0 is 1.
fn step(number: i32) -> f64 {
    let first = [1.0, 2.0, 5.0][number.rem_euclid(3) as usize];
    first * 10f64.powi(number.div_euclid(3))
}

/// The number of the last step that is no larger than this value.
fn steps_below(value: f64) -> i32 {
    let decade = value.max(1e-9).log10().floor() as i32 * 3;
    (decade..decade + 4).rev().find(|it| step(*it) <= value * 1.000_001).unwrap_or(decade)
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        low + (self.part(*value) * f64::from(high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(value, _)| *value).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|(it, _)| it == value);
        tick.map(|(_, label)| label.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn a_logarithmic_axis_encloses_its_values() {
        let axis = Axis::logarithmic("", &[3.0, 17.0]);
        assert_eq!(labels(&axis), ["2", "5", "10", "20"]);
        assert_eq!(labels(&Axis::logarithmic("", &[10.0, 10.0])), ["10", "20", "50"]);
        assert_eq!(
            labels(&Axis::logarithmic("", &[0.1, 900.0])),
            ["0.1", "1", "10", "100", "1,000"]
        );
        assert_eq!(labels(&Axis::logarithmic("", &[])).len(), 4);
    }

    #[test]
    fn marks_that_would_touch_are_left_out() {
        let marks: Vec<_> =
            (0..11).map(|i| 2f64.powi(i)).map(|it| (it, format::tick(it))).collect();
        let axis = Axis::at("", &marks, false);
        assert!(axis.ticks.len() < 11, "{:?}", labels(&axis));
        assert_eq!(labels(&axis).last(), Some(&"1,024"));
    }

    #[test]
    fn each_nine_has_the_same_room() {
        let axis = Axis::percentiles(0.9999);
        let places: Vec<i32> =
            [0.9, 0.99, 0.999, 0.9999].iter().map(|it| axis.map(it, (0, 10_000))).collect();
        let steps: Vec<i32> = places.windows(2).map(|it| it[1] - it[0]).collect();
        assert!(steps.iter().all(|it| (it - steps[0]).abs() <= 1), "{places:?}");
        assert_eq!(labels(&Axis::percentiles(0.99)), ["50", "90", "99"]);
    }

    #[test]
    fn a_logarithmic_axis_says_so() {
        let marks = [(1.0, "a".to_owned()), (2.0, "b".to_owned())];
        assert_eq!(Axis::logarithmic("latency, ms", &[1.0]).label, "latency, ms (log scale)");
        assert_eq!(Axis::at("at once (depth)", &marks, false).label, "at once (depth, log scale)");
        assert_eq!(Axis::at("level", &marks, true).label, "level");
    }
}
