//! Bars with their values beside them: for what was measured with one number of tasks only. They
//! are as wide as there is room, and their texts stay as large as those of the page.

use maud::{Markup, html};

use super::{Words, labels};

/// A chart of bars from zero, the first one on top.
pub(in crate::report) struct Bars {
    /// What they show, with its unit.
    pub(in crate::report) label: String,
    pub(in crate::report) bars: Vec<Bar>,
}

/// One of them.
pub(in crate::report) struct Bar {
    pub(in crate::report) name: String,
    pub(in crate::report) value: f64,
    /// What the middle half of the values lies between.
    pub(in crate::report) range: Option<(f64, f64)>,
    /// The value in words.
    pub(in crate::report) text: String,
}

/// Pixels of a bar with its name above it: higher where there are few.
const ROW: usize = 48;
const ROW_MAX: usize = 72;
const HEIGHT_MIN: usize = 200;

/// Pixels of a name, and of the line below all bars.
const NAME: usize = 22;
const LABEL: usize = 28;

/// Of the width, in percent, for the longest bar; its value needs the rest.
const LONGEST: f64 = 78.0;

/// What is wider loses its middle: the narrowest card has as much room.
const NAME_WIDTH_MAX: i32 = 290;

impl Bars {
    /// As an element of a page.
    pub(in crate::report) fn svg(self, words: &Words<'_>) -> String {
        let Words { id, title, description } = words;
        let count = self.bars.len().max(1);
        let row = (HEIGHT_MIN / count).clamp(ROW, ROW_MAX);
        let height = row * count + LABEL;
        let all = html! {
            svg.bars style={ "height:" (height) "px" } role="img"
                aria-labelledby={ (id) "-t " (id) "-d" } {
                title id={ (id) "-t" } { (title) }
                desc id={ (id) "-d" } { (description) }
                @for (i, bar) in self.bars.iter().enumerate() { (self.drawn(bar, i * row, row)) }
                text.quiet x="0" y=(height - 6) { (self.label) }
            }
        };
        all.into_string()
    }

    fn drawn(&self, bar: &Bar, top: usize, row: usize) -> Markup {
        let largest = self.bars.iter().map(|it| it.range.map_or(it.value, |(_, high)| high));
        let largest = largest.fold(f64::MIN_POSITIVE, f64::max);
        let part = |value: f64| format!("{:.2}%", value / largest * LONGEST);
        let end = part(bar.range.map_or(bar.value, |(_, high)| high.max(bar.value)));
        let high = row - NAME - 10;
        let middle = top + NAME + high / 2;
        html! {
            text x="0" y=(top + 16) { (labels::fit(&bar.name, 13, NAME_WIDTH_MAX)) }
            rect x="0" y=(top + NAME) width=(part(bar.value)) height=(high) rx="2" {}
            @if let Some((low, high)) = bar.range {
                line x1=(part(low)) y1=(middle) x2=(part(high)) y2=(middle) {}
                @for at in [low, high] {
                    line x1=(part(at)) y1=(middle - 4) x2=(part(at)) y2=(middle + 4) {}
                }
            }
            text.value x=(end) y=(middle + 5) dx="8" { (bar.text) }
        }
    }
}
