//! The colours, marks and dashes of lines. They tell lines apart each by itself: whoever sees no
//! colours has the marks and the dashes.

use plotters::style::RGBColor;

/// Of lines, in the order in which they are given out. The dashes are the style sheet's, by colour.
const LINES: [RGBColor; 8] = [
    RGBColor(0x00, 0x5F, 0xA3),
    RGBColor(0xA8, 0x44, 0x00),
    RGBColor(0x00, 0x6E, 0x56),
    RGBColor(0x98, 0x2E, 0x74),
    RGBColor(0x4B, 0x4B, 0x9D),
    RGBColor(0x73, 0x5A, 0x00),
    RGBColor(0xB0, 0x20, 0x2E),
    RGBColor(0x3F, 0x5A, 0x66),
];

/// So many lines can be told apart in one chart.
pub(in crate::report) const LINES_MAX: usize = LINES.len();

pub(super) const QUIET: RGBColor = RGBColor(0x57, 0x60, 0x6A);
pub(super) const AXIS: RGBColor = RGBColor(0x8C, 0x95, 0x9F);
pub(super) const GRID: RGBColor = RGBColor(0xE1, 0xE4, 0xE8);
pub(super) const OTHERS: RGBColor = RGBColor(0xCF, 0xD4, 0xDA);
pub(super) const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);

/// How a point is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
}

/// How the line with this number looks. Marks of the later ones are hollow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) color: RGBColor,
    pub(super) mark: Mark,
    pub(super) is_hollow: bool,
}

pub(super) fn look(number: usize) -> Look {
    let marks = [Mark::Circle, Mark::Square, Mark::Triangle, Mark::Diamond];
    let number = number % LINES.len();
    let mark = if number == LINES.len() - 1 { Mark::Cross } else { marks[number % marks.len()] };
    Look { color: LINES[number], mark, is_hollow: number >= marks.len() }
}
