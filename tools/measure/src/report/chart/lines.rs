//! Lines over an axis, each with its name at its end.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, BOTTOM, Drawn, Plot, Root, SIZE, TOP, WIDTH, px};
use super::palette::{AXIS, OTHERS, QUIET, look};
use super::{Axis, Words, labels};

/// A chart of lines.
pub(in crate::report) struct Lines {
    pub(in crate::report) x: Axis,
    pub(in crate::report) y: Axis,
    pub(in crate::report) lines: Vec<Line>,
    /// Drawn behind, without names: what the lines are to be seen among.
    pub(in crate::report) others: Vec<Line>,
    /// A bound, with its name.
    pub(in crate::report) bound: Option<Line>,
}

/// One of them.
pub(in crate::report) struct Line {
    pub(in crate::report) name: String,
    pub(in crate::report) points: Vec<Point>,
}

/// A place on a line, with what the middle half of the values lies between.
#[derive(Clone, Copy)]
pub(in crate::report) struct Point {
    pub(in crate::report) x: f64,
    pub(in crate::report) y: f64,
    pub(in crate::report) range: Option<(f64, f64)>,
    pub(in crate::report) is_marked: bool,
}

const HEIGHT: i32 = px(270);

/// What is wider gets two lines,
const NAME_WIDTH: i32 = px(140);

/// and of these each loses its middle, if need be.
const NAME_WIDTH_MAX: i32 = px(146);

const LINE_HEIGHT: i32 = px(14);
const NAMES_TOP: i32 = TOP - px(6);
const NAMES_BOTTOM: i32 = HEIGHT - BOTTOM + px(7);

/// Between the end of a line and its name.
const NAME_GAP: i32 = px(14);

impl Lines {
    /// As an element of a page.
    pub(in crate::report) fn svg(self, words: &Words<'_>) -> String {
        canvas::svg(words, HEIGHT, |root| self.paint(root))
    }

    fn paint(&self, root: &Root<'_>) -> Drawn {
        let names = self.names();
        let widths = names.iter().flatten().map(|line| labels::width(line, SIZE));
        let right = widths.max().unwrap_or_default() + NAME_GAP + px(4);
        let margins = (canvas::left_of(&self.y), right);
        let plot = canvas::plot(root, margins, self.x.clone(), self.y.clone())?;
        for line in &self.others {
            path(root, &plot, line, ShapeStyle::from(OTHERS).stroke_width(px(1) as u32))?;
        }
        if let Some(bound) = &self.bound {
            path(root, &plot, bound, ShapeStyle::from(AXIS).stroke_width(px(2) as u32))?;
        }
        for (i, line) in self.lines.iter().enumerate() {
            draw_line(root, &plot, i, line)?;
        }
        self.draw_names(root, &plot, &names, WIDTH - right)
    }

    /// All lines that have a name to be written, with their numbers; the bound has none.
    fn named(&self) -> impl Iterator<Item = (Option<usize>, &Line)> {
        let bound = self.bound.iter().map(|line| (None, line));
        self.lines.iter().enumerate().map(|(i, line)| (Some(i), line)).chain(bound)
    }

    /// The lines of each name: one each, where two would not have room.
    fn names(&self) -> Vec<Vec<String>> {
        let fitted = |text: &String| labels::fit(text, SIZE, NAME_WIDTH_MAX);
        let texts = || self.named().map(|(_, line)| &line.name);
        let two: Vec<Vec<String>> = texts()
            .map(|name| labels::lines(name, SIZE, NAME_WIDTH).iter().map(fitted).collect())
            .collect();
        let height: i32 = two.iter().map(|lines| height(lines)).sum();
        match height <= NAMES_BOTTOM - NAMES_TOP {
            true => two,
            false => texts().map(|name| vec![fitted(name)]).collect(),
        }
    }

    fn draw_names(
        &self,
        root: &Root<'_>,
        plot: &Plot<'_>,
        names: &[Vec<String>],
        right: i32,
    ) -> Drawn {
        let ends: Vec<(i32, i32)> = self.named().map(|(_, line)| end(plot, line)).collect();
        let wanted = ends.iter().zip(names).map(|((_, y), lines)| (*y, height(lines)));
        let places = labels::spread_out(&wanted.collect::<Vec<_>>(), (NAMES_TOP, NAMES_BOTTOM));
        for (i, (number, _)) in self.named().enumerate() {
            let color = number.map_or(QUIET, |number| look(number).color);
            let at = (right + NAME_GAP, places[i]);
            draw_name(root, &names[i], at, color)?;
            let (x, y) = ends[i];
            if (y - at.1).abs() > px(2) || at.0 - x > px(20) {
                let from = (x + px(5), y);
                canvas::stroke(root, from, (at.0 - px(2), at.1), AXIS, px(1) / 2)?;
            }
        }
        Ok(())
    }
}

fn height(lines: &[String]) -> i32 {
    lines.len() as i32 * LINE_HEIGHT
}

fn draw_name(root: &Root<'_>, lines: &[String], (x, y): (i32, i32), color: RGBColor) -> Drawn {
    let top = y - (height(lines) - LINE_HEIGHT) / 2;
    for (i, line) in lines.iter().enumerate() {
        canvas::text(root, line, (x, top + i as i32 * LINE_HEIGHT), color, HPos::Left)?;
    }
    Ok(())
}

fn end(plot: &Plot<'_>, line: &Line) -> (i32, i32) {
    let last = line.points.last().map_or((0.0, 0.0), |it| (it.x, it.y));
    plot.plotting_area().map_coordinate(&last)
}

fn draw_line(root: &Root<'_>, plot: &Plot<'_>, number: usize, line: &Line) -> Drawn {
    let look = look(number);
    let place = |x, y| plot.plotting_area().map_coordinate(&(x, y));
    path(root, plot, line, ShapeStyle::from(look.color).stroke_width(px(2) as u32))?;
    for point in &line.points {
        if let Some((low, high)) = point.range {
            let (from, to) = (place(point.x, low), place(point.x, high));
            canvas::bar(root, from, to, look.color)?;
        }
        if point.is_marked {
            canvas::mark(root, place(point.x, point.y), look)?;
        }
    }
    Ok(())
}

fn path(root: &Root<'_>, plot: &Plot<'_>, line: &Line, style: ShapeStyle) -> Drawn {
    let points = line.points.iter().map(|it| (it.x, it.y));
    let places = points.map(|it| plot.plotting_area().map_coordinate(&it)).collect::<Vec<_>>();
    match places.len() {
        0 | 1 => Ok(()),
        _ => root.draw(&PathElement::new(places, style)),
    }
}
