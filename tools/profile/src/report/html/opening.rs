//! What the page opens with: the result in a sentence and four figures, and the slider.

use maud::{Markup, html};

use super::Page;
use super::number::{Amount, count, ms, percent, several, short};

/// The ends of the slider, in milliseconds.
const LEAST: f64 = 0.05;
const MOST: f64 = 200.0;

impl Page<'_> {
    pub(super) fn opening(&self) -> Markup {
        html! {
            h1 { "onetrip profile" }
            (self.sentence())
            (self.slider())
            (self.figures())
            (self.unseen())
        }
    }

    fn sentence(&self) -> Markup {
        let (trips, rtt) = (&self.profile.trips, self.rtt_ms);
        let ms = |trips| Amount::of_trips(trips).text(rtt);
        if trips.now < 0.5 {
            return html! { p.headline { "No trips were seen." } };
        }
        let [now, wire, proven, floor] = [trips.now, trips.wire, trips.proven, trips.floor];
        let unknown = percent(self.profile.unknown);
        html! {
            p.headline {
                @if count(now) == count(floor) {
                    "Of " (several(now, "trip")) " none was found that could be saved, "
                    (ms(now)) " on the network"
                } @else {
                    "Of " (several(now, "trip")) ", " (count(wire)) " would do without waits of \
                    the protocol, " (count(proven)) " as proven, " (count(floor)) " at best: "
                    (ms(now)) " on the network become " (ms(wire)) ", " (ms(proven)) ", "
                    (ms(floor))
                }
                small { "; " (unknown) " of the waits are unknown" } "."
            }
        }
    }

    fn figures(&self) -> Markup {
        let trips = &self.profile.trips;
        let unread: u64 = self.profile.opaque.iter().map(|it| it.1).sum();
        let waits = percent(self.profile.unknown);
        html! {
            ol.figures {
                (self.figure("now", trips.now, html! {
                    @if unread > 0 {
                        p.note { (several(unread as f64, "connection")) " could not be read, so \
                            none of their trips can be saved here." }
                    }
                    (self.notes("trips"))
                }))
                (self.figure("protocol only", trips.wire, html! {
                    p.note { "Waits of the protocol are folded. It needs no knowledge of the \
                        program." }
                }))
                (self.figure("proven", trips.proven, html! {
                    p.note { (waits) " of the waits are unknown. None of them is counted here." }
                    (self.notes("proven"))
                }))
                (self.figure("at best", trips.floor, html! {
                    p.note { "With the " (waits) " that are unknown taken as needless." }
                    (self.notes("unknown"))
                }))
            }
        }
    }

    fn figure(&self, name: &str, trips: f64, notes: Markup) -> Markup {
        html! {
            li {
                span.name { (name) }
                strong {
                    (count(trips))
                    small { @if count(trips) == "1" { " trip" } @else { " trips" } }
                }
                span.time { (Amount::of_trips(trips).text(self.rtt_ms)) " on the network" }
                (notes)
            }
        }
    }

    fn slider(&self) -> Markup {
        let source = match self.profile.rtt_source.as_str() {
            _ if self.profile.rtt_ms.is_none() => "not known; the page is drawn for 1 ms",
            "handshake" => "measured",
            "least cheap trip" => "by the least trip that costs the server next to nothing",
            _ => "by the shortest trip, which has some of the server's time in it",
        };
        html! {
            div.rtt {
                p {
                    label for="rtt" { "Round trip" } " "
                    strong { (Amount::of_trips(1.0).text(self.rtt_ms)) }
                    @if self.profile.rtt_ms.is_some() {
                        " · was " (ms(self.rtt_ms)) ", " (source)
                    } @else { " · " (source) }
                }
                input #rtt type="range" min="0" max="1000" step="1" autocomplete="off"
                    data-least=(short(LEAST)) data-most=(short(MOST))
                    data-measured=(self.rtt_ms);
                button #reset type="button" { "as it was" }
                p.note.moves { "Every time on this page follows the slider, from 0.05 to 200 ms; \
                    the recorded connections stay as they were." }
                (self.notes("round trip"))
            }
        }
    }

    /// What could not be seen at all.
    fn unseen(&self) -> Markup {
        let profile = self.profile;
        html! {
            @if !profile.opaque.is_empty() || profile.lossy > 0 || profile.incomplete.is_some() {
                div.notice role="note" {
                    strong { "Not all was seen. " }
                    @for (why, n) in &profile.opaque {
                        (several(*n as f64, "connection")) ": " (why) ". "
                    }
                    @if profile.lossy > 0 {
                        "The analysis could not keep up, and "
                        (several(profile.lossy as f64, "piece")) " of traffic went by unread \
                        (lossy). "
                    }
                    @if let Some(why) = &profile.incomplete { (why) }
                }
            }
        }
    }
}
