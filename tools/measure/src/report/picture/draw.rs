//! Where everything stands, and the picture as SVG.

use maud::{Markup, PreEscaped, html};

use super::motion::{self, Motion};
use super::{Picture, Strip, Width, words};
use crate::report::format::{self, duration_ms};
use crate::timeline::{End, Message, Trip};

/// In units that are pixels where nothing scales the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) width: f64,
    /// Left of all.
    margin: f64,
    /// In front of the lanes, for their names.
    pub(super) left: f64,
    /// Behind the lanes, for what the longest way came to.
    right: f64,
    /// Above the first strip.
    top: f64,
    /// Milliseconds from the left to the right end of the lanes.
    pub(super) ms: f64,
}

/// Of a strip: its title, one line of commands, the network between the client's lane and the
/// server's, what is below.
const TITLE: f64 = 22.0;
const COMMAND: f64 = 13.0;
const NETWORK: f64 = 60.0;
const GAP: f64 = 30.0;

/// Below the last strip: marks, and what the axis is.
const AXIS: f64 = 44.0;

/// The width of a character of a command.
const CHARACTER: f64 = 6.7;

/// Lengths of an arrow's head, along and across.
const HEAD: (f64, f64) = (7.0, 3.6);

impl Layout {
    fn of(picture: &Picture<'_>, width: Width) -> Layout {
        let (width, margin, left, right, top) = match width {
            Width::Wide => (980.0, 1.0, 64.0, 108.0, 34.0),
            Width::Narrow => (340.0, 1.0, 56.0, 86.0, 30.0),
            Width::File => (880.0, 24.0, 84.0, 128.0, 104.0),
        };
        Layout { width, margin, left, right, top, ms: picture.ends_ms().max(f64::MIN_POSITIVE) }
    }

    /// The right end of the lanes.
    fn end(&self) -> f64 {
        self.width - self.right
    }

    /// Where a moment stands.
    pub(super) fn x(&self, ms: f64) -> f64 {
        self.left + ms / self.ms * (self.end() - self.left)
    }
}

/// A strip with its place.
pub(super) struct Placed<'a> {
    strip: &'a Strip<'a>,
    top: f64,
    /// The client's lane, and the server's.
    pub(super) client: f64,
    pub(super) server: f64,
}

impl Placed<'_> {
    pub(super) fn messages(&self) -> &[Message] {
        &self.strip.timeline.messages
    }

    /// From its commands down to below its server: what is a matter of time.
    pub(super) fn timed(&self) -> (f64, f64) {
        (self.top + TITLE - 6.0, self.server + 7.0)
    }

    /// Heights at which a message leaves and arrives.
    pub(super) fn ends(&self, message: &Message) -> (f64, f64) {
        // Beside the lanes, so that these stay whole.
        let (client, server) = (self.client + 3.0, self.server - 5.0);
        match message.from {
            End::Client => (client, server),
            End::Server => (server, client),
        }
    }
}

/// The strips from the top down, and where the last one ends.
fn placed<'a>(picture: &'a Picture<'a>, layout: &Layout) -> (Vec<Placed<'a>>, f64) {
    let mut top = layout.top;
    let place = |strip: &'a Strip<'a>| {
        let rows = strip.timeline.round_trips().iter().map(|it| it.commands().len()).max();
        let client = top + TITLE + COMMAND * rows.unwrap_or(0) as f64 + 4.0;
        let placed = Placed { strip, top, client, server: client + NETWORK };
        top = placed.server + GAP;
        placed
    };
    let placed = picture.strips.iter().map(place).collect();
    (placed, top - GAP)
}

/// For a page, whose style sheet gives it its colours.
pub(super) fn svg(picture: &Picture<'_>, width: Width) -> Markup {
    let layout = Layout::of(picture, width);
    let (strips, bottom) = placed(picture, &layout);
    let id = if width == Width::Wide { "transfer-wide" } else { "transfer-narrow" };
    let class = if width == Width::Wide { "transfer wide" } else { "transfer narrow" };
    html! {
        svg class=(class) viewBox={ "0 0 " (layout.width) " " (round(bottom + AXIS)) }
            role="img" aria-labelledby={ (id) "-t " (id) "-d" } {
            (named(picture, id))
            (key(&layout, width, 12.0))
            (lanes(&layout, &strips, bottom))
            @for strip in &strips { (inside(&layout, strip, width != Width::Narrow)) }
        }
    }
}

/// With a heading, its own colours, and what moves.
pub(super) fn file(picture: &Picture<'_>) -> Markup {
    let layout = Layout::of(picture, Width::File);
    let (strips, bottom) = placed(picture, &layout);
    let (width, height) = (layout.width, round(bottom + AXIS + 34.0));
    let motion = Motion::new(&layout, &strips);
    html! {
        svg.transfer xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) }
            width=(width) height=(height) role="img" aria-labelledby="transfer-t transfer-d" {
            metadata { (picture.made) }
            (named(picture, "transfer"))
            style { (PreEscaped(motion::STYLE)) (PreEscaped(motion.keyframes())) }
            rect.paper width=(width) height=(height) rx="8" {}
            text.heading x="24" y="38" { (picture.title()) }
            text.quiet x="24" y="60" { (picture.subtitle()) }
            (key(&layout, Width::File, 84.0))
            (lanes(&layout, &strips, bottom))
            @for strip in &strips { (inside(&layout, strip, true)) }
            (motion.shapes(bottom))
            rect.edge x="0.5" y="0.5" width=(width - 1.0) height=(height - 1.0) rx="8" {}
            text.quiet x="24" y=(round(bottom + AXIS + 18.0)) { (picture.source()) }
        }
    }
}

fn named(picture: &Picture<'_>, id: &str) -> Markup {
    html! {
        title id={ (id) "-t" } { (picture.title()) }
        desc id={ (id) "-d" } { (picture.described()) }
    }
}

/// What the two kinds of arrows and the blocks are.
fn key(layout: &Layout, width: Width, y: f64) -> Markup {
    let (names, each) = match width {
        Width::Narrow => (["request", "answer", "server has work"], 84.0),
        _ => (["request of the client", "answer of the server", "the server has work"], 176.0),
    };
    let x = |i: usize| layout.margin + each * i as f64;
    let arrow = |x: f64, down: f64| arrow((x, y - 4.0 - down), (x + 14.0, y - 4.0 + down));
    html! {
        g.key {
            path.go d=(arrow(x(0), 5.0)) {}
            path.come d=(arrow(x(1), -5.0)) {}
            rect.work x=(x(2)) y=(y - 8.0) width="14" height="8" {}
            @for (i, name) in names.iter().enumerate() {
                text.quiet x=(x(i) + 21.0) y=(y) { (name) }
            }
        }
    }
}

/// What all strips lie on: the network, the time, and the axis.
fn lanes(layout: &Layout, strips: &[Placed<'_>], bottom: f64) -> Markup {
    let (left, end) = (layout.left, layout.end());
    // Not through the titles.
    let in_strip = |x: f64, it: &Placed<'_>| line((x, it.client), (x, it.server));
    let across = |x: f64| {
        let strips: String = strips.iter().map(|it| in_strip(x, it)).collect();
        strips + &line((x, bottom + 4.0), (x, bottom + 9.0))
    };
    html! {
        @for it in strips {
            rect.network x=(left) y=(round(it.client)) width=(round(end - left)) height=(NETWORK) {}
        }
        @for ms in marks(layout.ms) {
            @let x = round(layout.x(ms));
            path.grid d=(across(x)) {}
            text.mark x=(x) y=(round(bottom + 23.0)) { (format::tick_or_zero(ms)) }
        }
        text.axis x=(round(end)) y=(round(bottom + 38.0)) {
            "milliseconds since the first byte left"
        }
    }
}

fn inside(layout: &Layout, it: &Placed<'_>, has_note: bool) -> Markup {
    let timeline = it.strip.timeline;
    let end = layout.x(timeline.ends_ms());
    let middle = it.client + NETWORK / 2.0;
    html! {
        g.strip {
            text x=(layout.margin) y=(round(it.top + 12.0)) {
                tspan.way { (it.strip.title) }
                @if has_note { tspan.quiet dx="10" { (it.strip.note) } }
            }
            @for (name, y) in [("client", it.client), ("network", middle), ("server", it.server)] {
                text.lane x=(layout.left - 10.0) y=(round(y + 4.0)) { (name) }
            }
            path.life d=(line((layout.left, it.server), (layout.end(), it.server))) {}
            path.life d=(line((layout.left, it.client), (layout.end(), it.client))) {}
            path.waiting d=(line((layout.left, it.client), (end, it.client))) {}
            @for (x, y, command) in commands(layout, it) {
                text.command x=(round(x)) y=(round(y)) { (command) }
            }
            @for trip in timeline.round_trips() { (of_trip(layout, it, trip)) }
            circle.end cx=(round(end)) cy=(round(it.client)) r="4.5" {}
            @let behind = round(end + 14.0);
            text.ms x=(behind) y=(round(middle - 1.0)) { (duration_ms(timeline.ends_ms())) }
            text.trips x=(behind) y=(round(middle + 16.0)) { (words::trips(timeline)) }
        }
    }
}

/// What each trip asks for, one below the other where it leaves. What would lie on the one before
/// is left out.
fn commands<'a>(layout: &Layout, it: &Placed<'a>) -> Vec<(f64, f64, &'a str)> {
    let mut placed = Vec::new();
    let mut free = 0.0;
    for trip in it.strip.timeline.round_trips() {
        let x = layout.x(trip.0.first().map_or(0.0, |message| message.left_ms));
        if x < free {
            continue;
        }
        for (i, command) in trip.commands().into_iter().rev().enumerate() {
            placed.push((x, it.client - 7.0 - COMMAND * i as f64, command));
            free = f64::max(free, x + CHARACTER * (command.chars().count() + 1) as f64);
        }
    }
    placed
}

fn of_trip(layout: &Layout, it: &Placed<'_>, trip: Trip<'_>) -> Markup {
    html! {
        g.trip {
            @if let Some((from, to)) = trip.at_work_ms() {
                @let (from, to) = (layout.x(from), layout.x(to));
                @let width = round((to - from).max(2.0));
                rect.work x=(round(from)) y=(round(it.server - 4.0)) width=(width) height="8" {}
            }
            @for message in trip.0 {
                @let (leaves, arrives) = it.ends(message);
                @let from = (layout.x(message.left_ms), leaves);
                @let to = (layout.x(message.arrived_ms), arrives);
                path class=(class(message)) d=(arrow(from, to)) {}
            }
        }
    }
}

pub(super) fn class(message: &Message) -> &'static str {
    match message.from {
        End::Client => "go",
        End::Server => "come",
    }
}

/// With its head at the second place.
fn arrow(from: (f64, f64), to: (f64, f64)) -> String {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy).max(f64::MIN_POSITIVE);
    let (dx, dy) = (dx / length, dy / length);
    let (back, (along, across)) =
        ((to.0 - dx * HEAD.0, to.1 - dy * HEAD.0), (dx * HEAD.1, dy * HEAD.1));
    let (one, other) = ((back.0 - across, back.1 + along), (back.0 + across, back.1 - along));
    let [from, to, one, other] = [from, to, one, other].map(place);
    format!("M{from}L{to}M{one}L{to}L{other}")
}

fn line(from: (f64, f64), to: (f64, f64)) -> String {
    format!("M{}L{}", place(from), place(to))
}

fn place((x, y): (f64, f64)) -> String {
    format!("{} {}", round(x), round(y))
}

/// A tenth of a pixel is as much as can be seen.
pub(super) fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Moments that are marked: from zero, at steps of 1, 2 or 5 times a power of ten.
fn marks(ms: f64) -> Vec<f64> {
    const MARKS_MAX: f64 = 5.0;
    let decade = 10f64.powf((ms / MARKS_MAX).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|it| it * decade);
    let step = steps.into_iter().find(|step| ms / step <= MARKS_MAX).unwrap_or(ms);
    (0..=MARKS_MAX as u32).map(|i| f64::from(i) * step).filter(|it| *it <= ms).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_few_and_round() {
        assert_eq!(marks(431.0), [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert_eq!(marks(8.7), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(marks(0.26), [0.0, 0.1, 0.2]);
        assert!((1..2_000).all(|i| (2..=6).contains(&marks(f64::from(i) * 0.37).len())));
    }

    #[test]
    fn an_arrow_ends_in_its_head() {
        assert_eq!(arrow((0.0, 0.0), (20.0, 0.0)), "M0 0L20 0M13 3.6L20 0L13 -3.6");
    }
}
