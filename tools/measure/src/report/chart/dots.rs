//! Dots beside names: for what was measured with one number of tasks only.

use plotters::style::text_anchor::HPos;

use super::canvas::{self, BOTTOM, Drawn, FIRST, Root, SIZE, WIDTH, px};
use super::palette::{QUIET, look};
use super::{Axis, Words, labels};

/// A chart of dots, the first one on top.
pub(in crate::report) struct Dots {
    /// What they show, with its unit.
    pub(in crate::report) label: String,
    pub(in crate::report) dots: Vec<Dot>,
}

/// One of them.
pub(in crate::report) struct Dot {
    pub(in crate::report) name: String,
    pub(in crate::report) value: f64,
    /// What the middle half of the values lies between.
    pub(in crate::report) range: Option<(f64, f64)>,
    /// The value in words.
    pub(in crate::report) text: String,
}

/// Of one dot, with its name: higher where there are few.
const ROW: i32 = px(36);
const ROW_MAX: i32 = px(56);
const HEIGHT_MIN: i32 = px(200);
const LEFT: i32 = px(8);
const NAME_WIDTH_MAX: i32 = WIDTH - px(70);

impl Dots {
    /// As an element of a page.
    pub(in crate::report) fn svg(self, words: &Words<'_>) -> String {
        let rows = self.dots.len().max(1) as i32;
        let row = (HEIGHT_MIN / rows).clamp(ROW, ROW_MAX);
        let height = px(6) + row * rows + BOTTOM;
        canvas::svg(words, height, |root| self.paint(root))
    }

    /// Each name stands above its dot, so that a long one takes no room from the plot.
    fn paint(&self, root: &Root<'_>) -> Drawn {
        let largest = self.dots.iter().map(|it| it.range.map_or(it.value, |range| range.1));
        let x = Axis::linear(&self.label, largest.fold(0.0, f64::max));
        let widest = self.dots.iter().map(|it| labels::width(&it.text, SIZE)).max();
        let right = widest.unwrap_or_default() + px(14);
        let plot = canvas::plot(root, (LEFT, right), x, Axis::places(self.dots.len()))?;
        for (i, dot) in self.dots.iter().enumerate() {
            let place = |x| plot.plotting_area().map_coordinate(&(x, i as f64 + 0.2));
            let (x, y) = place(dot.value);
            let name = labels::fit(&dot.name, SIZE, NAME_WIDTH_MAX);
            canvas::text(root, &name, (LEFT + px(4), y - px(15)), FIRST, HPos::Left)?;
            if let Some((low, high)) = dot.range {
                canvas::bar(root, place(low), place(high), look(0).color)?;
            }
            canvas::mark(root, (x, y), look(0))?;
            let right = place(dot.range.map_or(dot.value, |range| range.1)).0;
            canvas::text(root, &dot.text, (right + px(9), y), QUIET, HPos::Left)?;
        }
        Ok(())
    }
}
