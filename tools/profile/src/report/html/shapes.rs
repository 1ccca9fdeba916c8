//! Units of the same statements: as they were, and as they could be.

use maud::{Markup, html};

use super::number::{Amount, count, several};
use super::waterfall::{Waterfall, Way, waterfalls};
use super::{Page, cut, legend};
use crate::profile::Shape;

/// Shapes on the page, and those of them that are open in the beginning.
const SHOWN: usize = 20;
const OPEN: usize = 2;

impl Page<'_> {
    pub(super) fn shapes(&self) -> Markup {
        let shapes = &self.profile.shapes;
        let more = shapes.len().saturating_sub(SHOWN) as u64 + self.profile.shapes_left_out;
        html! {
            section aria-labelledby="shapes" {
                h2 #shapes { "Shapes of units" }
                p { (several(self.profile.units as f64, "unit")) " of "
                    (several((shapes.len() as u64 + self.profile.shapes_left_out) as f64, "shape"))
                    ", those with most trips first. Numbers are the mean of a unit, and drawings \
                    show one of them." }
                (self.notes("units"))
                (legend())
                @for (at, shape) in shapes.iter().take(SHOWN).enumerate() {
                    (self.shape(shape, at < OPEN))
                }
                @if more > 0 {
                    p.note { "And " (several(more as f64, "shape")) " with fewer trips." }
                }
            }
        }
    }

    fn shape(&self, shape: &Shape, is_open: bool) -> Markup {
        let trips = &shape.trips;
        let units = shape.count.max(1) as f64;
        let fixed = Amount::fixed((shape.time.server_ms + shape.time.program_ms) / units);
        let network = shape.time.network_ms / units / self.rtt_ms;
        let per_trip = if trips.now > 0.0 { network / trips.now } else { 0.0 };
        let mean = |trips: f64| (fixed + Amount::of_trips(trips * per_trip)).text(self.rtt_ms);
        html! {
            details.shape id={ "shape-" (shape.id) } open[is_open] {
                summary {
                    span.title { code.what { (cut(&shape.name, 160)) } }
                    span.saves {
                        strong { (several(units, "unit")) }
                        span { (count(trips.now)) " → " (count(trips.proven)) " trips" }
                    }
                }
                div.body {
                    dl.ways {
                        @for (name, trips) in [("now", trips.now), ("protocol only", trips.wire),
                            ("proven", trips.proven), ("at best", trips.floor)] {
                            div { dt { (name) } dd { (several(trips, "trip")) ", " (mean(trips)) } }
                        }
                    }
                    @if !shape.boundaries.is_empty() {
                        p.note { "How units were told apart: " (boundaries(shape)) "." }
                    }
                    (self.drawings(shape, per_trip * self.rtt_ms))
                    @if shape.example_left_out > 0 {
                        p.note { (several(shape.example_left_out as f64, "statement"))
                            " of this unit are not in the profile." }
                    }
                }
            }
        }
    }

    fn drawings(&self, shape: &Shape, network_ms: f64) -> Markup {
        let [now, proven, floor] = waterfalls(&shape.example, network_ms, self.rtt_ms);
        if now.trips == 0 {
            return html! {};
        }
        let scale = now.whole;
        html! {
            div.pair {
                (self.drawing("Before", &now, Way::Now, scale))
                @if proven.trips < now.trips {
                    (self.drawing("After, as proven", &proven, Way::Proven, scale))
                    @if floor.trips < proven.trips {
                        details.best {
                            summary { "At best" }
                            (self.drawing("At best", &floor, Way::Floor, scale))
                        }
                    }
                } @else if floor.trips < now.trips {
                    (self.drawing("At best; nothing is proven", &floor, Way::Floor, scale))
                }
            }
        }
    }

    fn drawing(&self, name: &str, it: &Waterfall<'_>, way: Way, scale: Amount) -> Markup {
        html! {
            figure.waterfall {
                figcaption { (name) ": " (several(it.trips as f64, "trip")) ", "
                    (it.whole.text(self.rtt_ms)) }
                (it.drawn(way, scale, self.rtt_ms))
            }
        }
    }
}

fn boundaries(shape: &Shape) -> String {
    let said = |kind: &str| match kind {
        "first" => "the first of its connection",
        "trace" => "another trace in a comment",
        "transaction" => "a transaction began or ended",
        "pool" => "a pool handed the connection on",
        "gap" => "a long gap",
        _ => "a unit that became too long",
    };
    let all: Vec<_> =
        shape.boundaries.iter().map(|(it, n)| format!("{} ({n})", said(it))).collect();
    all.join(", ")
}
