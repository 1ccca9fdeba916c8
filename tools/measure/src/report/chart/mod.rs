//! Charts as SVG, drawn by plotters. All colours in them are signs that the page's style sheet gives
//! a colour to, for light and for dark; without it they are those of the light theme.

mod axis;
mod bars;
mod canvas;
mod labels;
mod lines;
mod palette;
mod ratios;

pub(super) use axis::Axis;
pub(super) use bars::{Bar, Bars};
pub(super) use lines::{Line, Lines, Point};
pub(super) use palette::LINES_MAX;
pub(super) use ratios::{Block, Ratio, Ratios, height};

/// What stands in a chart's SVG for those who can't see it.
pub(super) struct Words<'a> {
    /// Tells it from all other charts of the page: a valid id.
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    pub(super) description: &'a str,
}
