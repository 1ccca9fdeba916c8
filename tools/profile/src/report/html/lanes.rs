//! Connections as they were recorded: a lane each, with trips as bars.

use maud::{Markup, html};

use super::number::{ms, several, short};
use super::{Page, cut};
use crate::profile::{Lane, LaneUnit, Timeline};

/// The height of a lane in CSS pixels, and where in it is what; `style.css` has the same height.
const LANE: usize = 32;
const LINK: usize = 5;
const BAR: usize = 12;
const BAR_HEIGHT: usize = 12;
/// The height of the axis, and its ticks: all, and every 16th at first.
const AXIS: usize = 22;
const TICKS: usize = 64;
/// Characters of a statement in the title of a trip, and statements.
const WIDTH: usize = 100;
const STATEMENTS: usize = 12;

impl Page<'_> {
    pub(super) fn lanes(&self) -> Markup {
        html! {
            section aria-labelledby="lanes" {
                h2 #lanes { "Connections" }
                p { "As they were recorded: the slider does not move them. A frame is a unit, and \
                    a bracket leads from the result to the statement that took a value of it." }
                @if self.profile.timelines.is_empty() { p { "No units were kept." } }
                p.legend {
                    span.network { "network" } span.server { "server, its queue and transfer" }
                    span.program { "program" } span.value { "takes a value of that result" }
                }
                @for timeline in &self.profile.timelines { (self.timeline(timeline)) }
            }
        }
    }

    fn timeline(&self, it: &Timeline) -> Markup {
        let title = if it.what == "busiest" { "The busiest second" } else { "The first units" };
        let scale = Scale { begin: it.begin_ms, length: (it.end_ms - it.begin_ms).max(1e-6) };
        let height = it.lanes.len() * LANE + AXIS;
        let id = &it.what;
        html! {
            figure.lanes aria-labelledby={ "lanes-" (id) } {
                figcaption id={ "lanes-" (id) } {
                    (title) ": " (ms(scale.length)) " from " (ms(it.begin_ms)) " on, "
                    (several(it.lanes.len() as f64, "connection"))
                    @if it.units_left_out > 0 {
                        "; " (several(it.units_left_out as f64, "unit")) " of this time had no room"
                    }
                }
                p.zoom { button type="button" value="4" { "closer" }
                    button type="button" value="0.25" { "farther" }
                    button type="button" value="0" { "all" } }
                div.frame {
                    ul { @for lane in &it.lanes { li { (name(lane)) } } }
                    div.scroll role="region" aria-label=(title) tabindex="0" {
                        svg height=(height) role="img" aria-label=(title) {
                            (axis(&scale, it.lanes.len()))
                            @for (at, lane) in it.lanes.iter().enumerate() {
                                @for unit in &lane.units {
                                    (self.unit(it, unit, &scale, at * LANE))
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn unit(&self, timeline: &Timeline, unit: &LaneUnit, scale: &Scale, y: usize) -> Markup {
        let (Some(first), Some(last)) = (unit.trips.first(), unit.trips.last()) else {
            return html! {};
        };
        let statements = |from: f64, to: f64| {
            let of_trip =
                unit.statements.iter().filter(|it| it.begin_ms >= from && it.begin_ms < to);
            let texts = of_trip.filter_map(|it| timeline.texts.get(it.text as usize));
            texts.map(|it| cut(it, WIDTH)).take(STATEMENTS).collect::<Vec<_>>().join("\n")
        };
        html! {
            g {
                (scale.bar("unit", (first.begin_ms, last.end_ms), (y + BAR - 3, BAR_HEIGHT + 6)))
                @for (at, trip) in unit.trips.iter().enumerate() {
                    @let next = unit.trips.get(at + 1).map_or(f64::MAX, |it| it.begin_ms);
                    @let half = trip.network_ms / 2.0;
                    @if next < f64::MAX {
                        (scale.bar("program", (trip.end_ms, next), (y + BAR + 4, BAR_HEIGHT - 8)))
                    }
                    g { title { (ms(trip.end_ms - trip.begin_ms)) ", of them "
                            (ms(trip.network_ms)) " on the network\n"
                            (statements(trip.begin_ms, next)) }
                        (scale.bar("network", (trip.begin_ms, trip.end_ms), (y + BAR, BAR_HEIGHT)))
                        (scale.bar("server", (trip.begin_ms + half, trip.end_ms - half),
                            (y + BAR, BAR_HEIGHT))) }
                }
                @for (from, to) in &unit.links { (link(unit, *from, *to, scale, y)) }
            }
        }
    }
}

/// Up from the end of one statement, over to the other, and down to its beginning.
fn link(unit: &LaneUnit, from: u32, to: u32, scale: &Scale, y: usize) -> Markup {
    let of = |at: u32| unit.statements.get(at as usize);
    let (Some(from), Some(to)) = (of(from), of(to)) else { return html! {} };
    let (from, to) = (scale.percent(from.end_ms), scale.percent(to.begin_ms));
    html! {
        line.value x1=(from) x2=(from) y1=(y + BAR) y2=(y + LINK) {}
        line.value x1=(from) x2=(to) y1=(y + LINK) y2=(y + LINK) {}
        line.value x1=(to) x2=(to) y1=(y + LINK) y2=(y + BAR - 1) marker-end="url(#arrow)" {}
    }
}

fn axis(scale: &Scale, lanes: usize) -> Markup {
    let height = lanes * LANE;
    html! {
        @for tick in 0..TICKS {
            @let share = tick as f64 / TICKS as f64;
            @let x = format!("{}%", short(share * 100.0));
            g class=(if tick % 16 == 0 { "tick" } else { "tick fine" }) {
                line x1=(x) x2=(x) y1="0" y2=(height + 5) {}
                text x=(x) y=(height + 18) dx="3" { (ms(share * scale.length)) }
            }
        }
    }
}

fn name(lane: &Lane) -> String {
    format!("{} {}", if lane.is_redis { "Redis" } else { "PG" }, lane.connection)
}

struct Scale {
    begin: f64,
    length: f64,
}

impl Scale {
    fn percent(&self, at: f64) -> String {
        format!("{}%", short((at - self.begin) / self.length * 100.0))
    }

    fn bar(&self, class: &str, times: (f64, f64), (y, height): (usize, usize)) -> Markup {
        let width = format!("{}%", short((times.1 - times.0).max(0.0) / self.length * 100.0));
        let x = self.percent(times.0);
        html! { rect class=(class) x=(x) width=(width) y=(y) height=(height) {} }
    }
}
