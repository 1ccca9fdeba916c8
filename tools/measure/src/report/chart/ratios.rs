//! Ratios as bars from 1, on a logarithmic axis, as a file of its own: nothing around it gives it
//! colours, and it can be read at the width of a telephone.

use maud::{Markup, PreEscaped, html};

use super::{Axis, Words, labels};

/// A chart of ratios, the first on top.
pub(in crate::report) struct Ratios<'a> {
    /// What they are, and that the axis is logarithmic.
    pub(in crate::report) label: &'a str,
    /// What the colours say: of those that are as they should be, and of the others.
    pub(in crate::report) meanings: [&'a str; 2],
    pub(in crate::report) blocks: &'a [Block],
}

/// Ratios that have their name in common.
#[derive(Clone, Debug)]
pub(in crate::report) struct Block {
    pub(in crate::report) heading: String,
    /// What else is to know. Of blocks with one heading that follow each other, the first has it.
    pub(in crate::report) line: String,
    pub(in crate::report) ratios: Vec<Ratio>,
}

#[derive(Clone, Debug)]
pub(in crate::report) struct Ratio {
    pub(in crate::report) label: String,
    pub(in crate::report) value: f64,
    /// What the middle half of the values lies between.
    pub(in crate::report) range: Option<(f64, f64)>,
    /// The bar that the ratio is compared with.
    pub(in crate::report) bar: Option<f64>,
    /// The value and its bar in words.
    pub(in crate::report) texts: [String; 2],
    pub(in crate::report) is_good: bool,
}

/// The axis ends there: a bar that goes on has a tip, and its value stands beside it anyway. Else
/// one that is far off would leave no room for all others.
const FARTHEST: f64 = 20.0;

/// Pixels where nothing scales the chart. On a telephone it is two thirds as wide.
const WIDTH: i32 = 540;
const MARGIN: i32 = 14;

/// Of texts, as the style sheet has it.
const SIZE: i32 = 16;

/// Where the axis begins and ends, and where values in words end.
const LEFT: i32 = 92;
const END: i32 = 386;
const VALUES: i32 = 462;

/// Heights of a line of text, of a ratio, of what is between blocks, and of the marks of the axis.
const LINE: i32 = 21;
const ROW: i32 = 22;
const GAP: i32 = 10;
const MARKS: i32 = 24;

/// What a chart is made of, from the top down.
enum Piece<'a> {
    Heading(String),
    Line(String),
    Ratio(&'a Ratio),
}

/// Blocks under each other: pieces with their heights, and where the last one ends.
fn pieces(blocks: &[Block], top: i32) -> (Vec<(i32, Piece<'_>)>, i32) {
    let (mut pieces, mut y, mut before) = (Vec::new(), top, "");
    for block in blocks {
        let mut add = |piece, height| {
            pieces.push((y, piece));
            y += height;
        };
        if block.heading != before {
            let lines = wrapped(&block.heading).into_iter();
            lines.for_each(|line| add(Piece::Heading(line), LINE));
        }
        wrapped(&block.line).into_iter().for_each(|line| add(Piece::Line(line), LINE));
        block.ratios.iter().for_each(|ratio| add(Piece::Ratio(ratio), ROW));
        y += GAP;
        before = &block.heading;
    }
    (pieces, y)
}

/// How high blocks are under each other.
pub(in crate::report) fn height(blocks: &[Block]) -> i32 {
    pieces(blocks, 0).1
}

impl Ratios<'_> {
    /// A whole file.
    pub(in crate::report) fn file(&self, words: &Words<'_>) -> String {
        let axis = self.axis();
        let title = wrapped(words.title);
        let key = MARGIN + LINE * title.len() as i32 + 4;
        let top = key + 3 * LINE + 8 + MARKS;
        let (pieces, bottom) = pieces(self.blocks, top);
        let height = bottom + MARKS + MARGIN / 2;
        let Words { id, title: name, description } = words;
        let all = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height) }
                width=(WIDTH) height=(height) role="img" aria-labelledby={ (id) "-t " (id) "-d" } {
                title id={ (id) "-t" } { (name) }
                desc id={ (id) "-d" } { (description) }
                style { (PreEscaped(include_str!("ratios.css"))) }
                rect.paper x="0.5" y="0.5" width=(WIDTH - 1) height=(height - 1) rx="8" {}
                @for (i, line) in title.iter().enumerate() {
                    text.title x=(MARGIN) y=(MARGIN + LINE * i as i32 + 14) { (line) }
                }
                (self.key(key))
                (marks(&axis, (top, bottom), &pieces))
                @for (y, piece) in &pieces {
                    @match piece {
                        Piece::Heading(line) => text.heading x=(MARGIN) y=(y + 16) { (line) },
                        Piece::Line(line) => text.quiet x=(MARGIN) y=(y + 16) { (line) },
                        Piece::Ratio(ratio) => (drawn(&axis, ratio, *y)),
                    }
                }
            }
        };
        // In lines, so that a change can be read.
        all.into_string().replace("><", ">\n<") + "\n"
    }

    fn axis(&self) -> Axis {
        let ratios = self.blocks.iter().flat_map(|block| &block.ratios);
        let reached = ratios.flat_map(|it| {
            let (low, high) = it.range.unzip();
            [Some(it.value), it.bar, low, high].into_iter().flatten()
        });
        let near = reached.map(|it| it.clamp(1.0 / FARTHEST, FARTHEST));
        Axis::logarithmic(self.label, &near.chain([1.0]).collect::<Vec<_>>())
    }

    /// What the axis is, and what the marks mean.
    fn key(&self, top: i32) -> Markup {
        let [good, bad] = self.meanings;
        let second = MARGIN + 24 + labels::width(good, SIZE) + 16;
        let (line_2, line_3) = (top + LINE, top + 2 * LINE);
        html! {
            text.quiet x=(MARGIN) y=(top + 16) { (self.label) }
            rect.good x=(MARGIN) y=(line_2 + 5) width="16" height="12" {}
            text.quiet x=(MARGIN + 24) y=(line_2 + 16) { (good) }
            rect.bad x=(second) y=(line_2 + 5) width="16" height="12" {}
            text.quiet x=(second + 24) y=(line_2 + 16) { (bad) }
            path.bar d={ "M" (MARGIN + 8) " " (line_3 + 2) "v18" } {}
            text.quiet x=(MARGIN + 24) y=(line_3 + 16) { "its bar" }
            (range(MARGIN + 100, MARGIN + 124, line_3 + 11))
            text.quiet x=(MARGIN + 132) y=(line_3 + 16) { "the middle half of the rounds" }
        }
    }
}

/// The marks of the axis, above and below, and their lines, which cross no text.
fn marks(axis: &Axis, (top, bottom): (i32, i32), pieces: &[(i32, Piece<'_>)]) -> Markup {
    let rows = pieces.iter().filter(|(_, piece)| matches!(piece, Piece::Ratio(_)));
    let rows: Vec<i32> = rows.map(|(y, _)| *y).collect();
    let across = |x: i32| rows.iter().map(|y| format!("M{x} {y}v{ROW}")).collect::<String>();
    html! {
        @for (value, label) in &axis.ticks {
            @let x = place(axis, *value);
            @let class = if *value == 1.0 { "one" } else { "grid" };
            path class=(class) d=(across(x)) {}
            @for y in [top - 6, bottom + 17] { text.quiet.mark x=(x) y=(y) { (label) } }
        }
    }
}

fn drawn(axis: &Axis, ratio: &Ratio, y: i32) -> Markup {
    let (one, value) = (place(axis, 1.0), place(axis, ratio.value));
    let class = if ratio.is_good { "good" } else { "bad" };
    // One that is 1 is a line.
    let width = (one - value).abs().max(2);
    let bar = ratio.bar.filter(|it| is_on(axis, *it)).map(|it| place(axis, it));
    let [text, bar_text] = &ratio.texts;
    html! {
        text x=(MARGIN) y=(y + 16) { (labels::fit(&ratio.label, SIZE, LEFT - MARGIN - 4)) }
        rect class=(class) x=(one.min(value)) y=(y + 4) width=(width) height="14" {}
        @if !is_on(axis, ratio.value) { path class=(class) d=(tip(one, value, y)) {} }
        @if let Some((low, high)) = ratio.range.filter(|_| is_on(axis, ratio.value)) {
            (range(place(axis, low), place(axis, high), y + 11))
        }
        @if let Some(bar) = bar { path.bar d={ "M" (bar) " " (y + 1) "v20" } {} }
        text.end.heading[!ratio.is_good] x=(VALUES) y=(y + 16) { (text) }
        text.quiet x=(VALUES + 8) y=(y + 16) { (bar_text) }
    }
}

/// A line with a cap at each end.
fn range(from: i32, to: i32, y: i32) -> Markup {
    let d = format!("M{from} {}v6M{from} {y}H{to}M{to} {}v6", y - 3, y - 3);
    html! { path.range d=(d) {} }
}

/// The end of a bar that goes on.
fn tip(one: i32, end: i32, y: i32) -> String {
    let to = if end < one { end - 9 } else { end + 9 };
    format!("M{end} {}L{to} {}L{end} {}z", y + 1, y + 11, y + 21)
}

/// Where a value stands; at the end of the axis if it lies beyond.
fn place(axis: &Axis, value: f64) -> i32 {
    LEFT + (axis.part(value).clamp(0.0, 1.0) * f64::from(END - LEFT)).round() as i32
}

fn is_on(axis: &Axis, value: f64) -> bool {
    (-0.001..=1.001).contains(&axis.part(value))
}

/// In lines that are no wider than a chart.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match longer.filter(|it| labels::width(it, SIZE) <= WIDTH - 2 * MARGIN) {
            Some(longer) => *lines.last_mut().expect("a line got longer") = longer,
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_has_lines_that_lose_no_word() {
        let text =
            "a transfer at a round trip of 100 ms, each statement awaited, one by one by one";
        let lines = wrapped(text);
        assert!(lines.len() > 1, "{lines:?}");
        assert_eq!(lines.join(" "), text);
        assert!(wrapped("").is_empty());
    }
}
