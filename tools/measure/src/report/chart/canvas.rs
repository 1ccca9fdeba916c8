//! What all charts have: the drawing area, axes with their names, marks, and the SVG's own words.

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Words;
use super::axis::Axis;
use super::labels;
use super::palette::{AXIS, GRID, Look, Mark, PAPER, QUIET};

pub(super) type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Plot<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;
pub(super) type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<std::io::Error>>;

/// Plotters draws at whole numbers only, so a chart is drawn larger than it is shown.
pub(super) const fn px(pixels: i32) -> i32 {
    pixels * 4
}

/// As wide as a chart is, before the page makes it fit.
pub(super) const WIDTH: i32 = px(400);

/// Of all texts in a chart.
pub(super) const SIZE: i32 = px(12);

/// Above the plot, for the name of the vertical axis.
pub(super) const TOP: i32 = px(26);

/// Below the plot: marks, and the name of the axis.
const MARKS: i32 = px(24);
pub(super) const BOTTOM: i32 = MARKS + px(18);

/// A chart of this height as an element of a page.
pub(super) fn svg(
    words: &Words<'_>,
    height: i32,
    paint: impl FnOnce(&Root<'_>) -> Drawn,
) -> String {
    let mut drawn = String::new();
    let root = SVGBackend::with_string(&mut drawn, (WIDTH as u32, height as u32));
    let root = root.into_drawing_area();
    paint(&root).and_then(|()| root.present()).expect("memory takes a chart");
    drop(root);
    named(&drawn, words, height)
}

/// With a name and a description in the place of a fixed size.
fn named(drawn: &str, words: &Words<'_>, height: i32) -> String {
    let content = drawn.split_once('>').map_or(drawn, |(_, content)| content);
    let content = content.replace(" opacity=\"1\"", "").replace(" font-family=\"sans-serif\"", "");
    let id = words.id;
    let head = maud::html! {
        title id={ (id) "-t" } { (words.title) }
        desc id={ (id) "-d" } { (words.description) }
    };
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">{}{}",
        head.into_string(),
        joined(&content),
    )
}

/// Texts on one line with their tags: they begin and end with no line end then.
fn joined(content: &str) -> String {
    let mut joined = String::with_capacity(content.len());
    let mut lines = content.trim_start().lines().peekable();
    while let Some(line) = lines.next() {
        joined.push_str(line);
        let is_inside = line.starts_with("<text") || lines.peek() == Some(&"</text>");
        if !is_inside {
            joined.push('\n');
        }
    }
    joined
}

/// A plot with its axes, between these margins.
pub(super) fn plot<'a>(
    root: &Root<'a>,
    (left, right): (i32, i32),
    x: Axis,
    y: Axis,
) -> Drawn<Plot<'a>> {
    name_axes(root, &x, &y, right)?;
    let mut plot = ChartBuilder::on(root)
        .margin_top(TOP)
        .margin_right(right)
        .margin_bottom(BOTTOM - MARKS)
        .x_label_area_size(MARKS)
        .y_label_area_size(left)
        .build_cartesian_2d(x, y)?;
    plot.configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(ShapeStyle::from(GRID).stroke_width(px(1) as u32))
        .axis_style(ShapeStyle::from(AXIS).stroke_width(px(1) as u32))
        .label_style(style(QUIET))
        .set_all_tick_mark_size(px(3))
        .draw()?;
    Ok(plot)
}

/// The vertical one's on top of it, where it is read without turning the head.
fn name_axes(root: &Root<'_>, x: &Axis, y: &Axis, right: i32) -> Drawn {
    let (width, height) = root.dim_in_pixel();
    text(root, &y.label, (px(2), px(9)), QUIET, HPos::Left)?;
    let at = (width as i32 - right, height as i32 - px(8));
    text(root, &x.label, at, QUIET, HPos::Right)
}

/// The room that the texts of a vertical axis need.
pub(super) fn left_of(axis: &Axis) -> i32 {
    let widths = axis.ticks.iter().map(|(_, label)| labels::width(label, SIZE));
    widths.max().unwrap_or_default() + px(9)
}

fn style(color: RGBColor) -> TextStyle<'static> {
    // Plotters makes a font's size this much smaller.
    ("sans-serif", f64::from(SIZE) * 1.24).into_font().color(&color)
}

/// A text whose middle is at this height.
pub(super) fn text(
    root: &Root<'_>,
    text: &str,
    at: (i32, i32),
    color: RGBColor,
    side: HPos,
) -> Drawn {
    if text.is_empty() {
        return Ok(());
    }
    let style = style(color).pos(Pos::new(side, VPos::Center));
    root.draw(&Text::new(text.to_owned(), at, style))
}

/// A straight line of this width.
pub(super) fn stroke(
    root: &Root<'_>,
    from: (i32, i32),
    to: (i32, i32),
    color: RGBColor,
    width: i32,
) -> Drawn {
    let style = ShapeStyle::from(color).stroke_width(width as u32);
    root.draw(&PathElement::new(vec![from, to], style))
}

/// What values lie between, with a cap at each end: drawn in single strokes, which are never dashed.
pub(super) fn bar(root: &Root<'_>, from: (i32, i32), to: (i32, i32), color: RGBColor) -> Drawn {
    let (x, y) = if from.0 == to.0 { (px(3), 0) } else { (0, px(3)) };
    stroke(root, from, to, color, px(1))?;
    for (at_x, at_y) in [from, to] {
        stroke(root, (at_x - x, at_y - y), (at_x + x, at_y + y), color, px(1))?;
    }
    Ok(())
}

/// The mark of a line at a place.
pub(super) fn mark(root: &Root<'_>, (x, y): (i32, i32), look: Look) -> Drawn {
    let radius = px(4);
    if look.mark == Mark::Cross {
        let style = ShapeStyle::from(look.color).stroke_width(px(2) as u32);
        return root.draw(&Cross::new((x, y), radius - px(1), style));
    }
    outline(root, (x, y), radius, look.mark, look.color)?;
    match look.is_hollow {
        true => outline(root, (x, y), radius - px(2), look.mark, PAPER),
        false => Ok(()),
    }
}

fn outline(root: &Root<'_>, (x, y): (i32, i32), r: i32, mark: Mark, color: RGBColor) -> Drawn {
    let filled = ShapeStyle::from(color).filled();
    match mark {
        Mark::Square => {
            let r = r * 7 / 8;
            root.draw(&Rectangle::new([(x - r, y - r), (x + r, y + r)], filled))
        }
        Mark::Triangle => root.draw(&TriangleMarker::new((x, y), r * 5 / 4, filled)),
        Mark::Diamond => {
            let r = r * 5 / 4;
            let corners = vec![(x, y - r), (x + r, y), (x, y + r), (x - r, y)];
            root.draw(&Polygon::new(corners, filled))
        }
        Mark::Circle | Mark::Cross => root.draw(&Circle::new((x, y), r, filled)),
    }
}
