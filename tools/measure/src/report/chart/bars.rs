//! Bars from zero, each under its name and with its value beside it: for the comparison of few
//! values.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, BOTTOM, Drawn, FIRST, Plot, Root, SIZE, WIDTH, px};
use super::palette::{PAPER, QUIET, look};
use super::{Axis, Words, labels};

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

/// Of one bar, with its name.
const ROW: i32 = px(38);
const THICKNESS: i32 = px(14);
const LEFT: i32 = px(8);
const NAME_WIDTH_MAX: i32 = WIDTH - px(70);

impl Bars {
    /// As an element of a page.
    pub(in crate::report) fn svg(self, words: &Words<'_>) -> String {
        let height = px(6) + ROW * self.bars.len().max(1) as i32 + BOTTOM;
        canvas::svg(words, height, |root| self.paint(root))
    }

    /// Each name stands above its bar, so that a long one takes no room from the plot.
    fn paint(&self, root: &Root<'_>) -> Drawn {
        let largest = self.bars.iter().map(|it| it.range.map_or(it.value, |range| range.1));
        let x = Axis::linear(&self.label, largest.fold(0.0, f64::max));
        let widest = self.bars.iter().map(|it| labels::width(&it.text, SIZE)).max();
        let right = widest.unwrap_or_default() + px(14);
        let plot = canvas::plot(root, (LEFT, right), x, Axis::places(self.bars.len()))?;
        for (i, bar) in self.bars.iter().enumerate() {
            bar.paint(root, &plot, i as f64 + 0.2)?;
        }
        Ok(())
    }
}

impl Bar {
    fn paint(&self, root: &Root<'_>, plot: &Plot<'_>, row: f64) -> Drawn {
        let place = |x: f64| plot.plotting_area().map_coordinate(&(x, row));
        let ((start, y), (end, _)) = (place(0.0), place(self.value));
        let (top, bottom) = (y - THICKNESS / 2, y + THICKNESS / 2);
        let name = labels::fit(&self.name, SIZE, NAME_WIDTH_MAX);
        canvas::text(root, &name, (LEFT + px(4), top - px(9)), FIRST, HPos::Left)?;
        // A value that is small beside the others is seen all the same.
        let corners = [(start, top), (end.max(start + px(1)), bottom)];
        root.draw(&Rectangle::new(corners, ShapeStyle::from(look(self.kind).color).filled()))?;
        for cut in &self.cuts {
            let x = place(*cut).0;
            canvas::stroke(root, (x, top), (x, bottom), PAPER, px(3) / 2)?;
        }
        if let Some((low, high)) = self.range {
            canvas::bar(root, place(low), place(high), FIRST)?;
        }
        let right = place(self.range.map_or(self.value, |range| range.1)).0;
        canvas::text(root, &self.text, (right.max(end) + px(9), y), QUIET, HPos::Left)
    }
}
