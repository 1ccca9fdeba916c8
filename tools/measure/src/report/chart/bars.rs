//! Bars from zero, each under its name and with its value beside it: for the comparison of few
//! values. They are as wide as there is room, and their texts stay as large as those of the page.

use maud::{Markup, html};

use super::{LINES_MAX, Words, labels};

/// A chart of bars, the first one on top.
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
    /// Which colour it has: the same for those of a kind.
    pub(in crate::report) kind: usize,
    /// Where it is cut into blocks.
    pub(in crate::report) cuts: Vec<f64>,
}

/// Pixels of a bar with its name above it: higher where there are few.
const ROW: usize = 48;
const ROW_MAX: usize = 72;
const HEIGHT_MIN: usize = 200;

/// Pixels of a name, and of the line below all bars.
const NAME: usize = 22;
const LABEL: usize = 28;

/// Of the width, in percent, for the longest bar; its value needs the rest. A value that is small
/// beside the others is seen all the same.
const LONGEST: f64 = 78.0;
const SHORTEST: f64 = 0.3;

/// What is wider loses its middle: the narrowest card has as much room.
const NAME_WIDTH_MAX: i32 = 290;

impl Bars {
    /// As an element of a page.
    pub(in crate::report) fn svg(self, words: &Words<'_>) -> String {
        let Words { id, title, description } = words;
        let count = self.bars.len().max(1);
        let row = (HEIGHT_MIN / count).clamp(ROW, ROW_MAX);
        let height = row * count + LABEL;
        let largest = self.bars.iter().map(Bar::end).fold(f64::MIN_POSITIVE, f64::max);
        let all = html! {
            svg.bars style={ "height:" (height) "px" } role="img"
                aria-labelledby={ (id) "-t " (id) "-d" } {
                title id={ (id) "-t" } { (title) }
                desc id={ (id) "-d" } { (description) }
                @for (i, bar) in self.bars.iter().enumerate() { (bar.drawn(i * row, row, largest)) }
                text.quiet x="0" y=(height - 6) { (self.label) }
            }
        };
        all.into_string()
    }
}

impl Bar {
    /// How far it reaches, with its range.
    fn end(&self) -> f64 {
        self.range.map_or(self.value, |(_, high)| high.max(self.value))
    }

    fn drawn(&self, top: usize, row: usize, largest: f64) -> Markup {
        let part = |value: f64| format!("{:.2}%", (value / largest * LONGEST).max(SHORTEST));
        let (above, high) = (top + NAME, row - NAME - 10);
        let middle = above + high / 2;
        let color = format!("fill:var(--c{})", self.kind % LINES_MAX);
        html! {
            text x="0" y=(top + 16) { (labels::fit(&self.name, 13, NAME_WIDTH_MAX)) }
            rect x="0" y=(above) width=(part(self.value)) height=(high) rx="2" style=(color) {}
            @for cut in &self.cuts {
                line.cut x1=(part(*cut)) y1=(above) x2=(part(*cut)) y2=(above + high) {}
            }
            @if let Some((low, high)) = self.range {
                line x1=(part(low)) y1=(middle) x2=(part(high)) y2=(middle) {}
                @for at in [low, high] {
                    line x1=(part(at)) y1=(middle - 4) x2=(part(at)) y2=(middle + 4) {}
                }
            }
            text.value x=(part(self.end())) y=(middle + 5) dx="8" { (self.text) }
        }
    }
}
