//! Where the time went, and what was seen.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::number::{Amount, count, ms, percent, several};
use super::{Page, cut, scrolled};
use crate::profile::{StatementTime, Time};

/// Statements in the table.
const SHOWN: usize = 25;

impl Page<'_> {
    /// The network's part follows the slider, the others stay.
    fn parts(&self, time: &Time) -> [(&'static str, Amount); 3] {
        [
            ("network", Amount::of_trips(time.network_ms / self.rtt_ms)),
            ("server", Amount::fixed(time.server_ms)),
            ("program", Amount::fixed(time.program_ms)),
        ]
    }

    pub(super) fn time(&self) -> Markup {
        let parts = self.parts(&self.profile.time);
        let whole = parts.iter().fold(Amount::default(), |sum, it| sum + it.1);
        let [network, server, _] = parts.map(|it| it.1);
        let begins = [Amount::default(), network, network + server];
        html! {
            section aria-labelledby="time" {
                h2 #time { "Time" }
                p { "Of all units: " (network.text(self.rtt_ms)) " on the network, "
                    (server.text(self.rtt_ms)) " in the server, its queue and the transfer, and "
                    (parts[2].1.text(self.rtt_ms)) " in the program between two trips." }
                div.fall data-scale=(whole.data()) {
                    svg.sums height="24" aria-hidden="true" {
                        @for ((class, amount), begin) in parts.into_iter().zip(begins) {
                            rect class=(class) y="0" height="24"
                                x=(begin.percent(whole, self.rtt_ms))
                                width=(amount.percent(whole, self.rtt_ms))
                                data-at={ "0:" (begin.data()) ";1:" (amount.data()) } {}
                        }
                    }
                }
                p.legend { span.network { "network" } span.server { "server" }
                    span.program { "program" } }
                (scrolled("Time by statement", &self.by_statement()))
            }
        }
    }

    fn by_statement(&self) -> Markup {
        let mut all: BTreeMap<&str, StatementTime> = BTreeMap::new();
        for it in self.profile.shapes.iter().flat_map(|it| &it.by_statement) {
            let sum = all.entry(&it.text).or_default();
            sum.count += it.count;
            sum.trips += it.trips;
            sum.time.network_ms += it.time.network_ms;
            sum.time.server_ms += it.time.server_ms;
            sum.time.program_ms += it.time.program_ms;
        }
        let whole = |it: &Time| it.network_ms + it.server_ms + it.program_ms;
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by(|a, b| whole(&b.1.time).total_cmp(&whole(&a.1.time)));
        html! {
            table {
                caption { "By statement, those with most time first. The network's and the \
                    program's time count for the first statement of a trip." }
                thead { tr {
                    th scope="col" { "statement" } th scope="col" { "times" }
                    th scope="col" { "trips" } th scope="col" { "network" }
                    th scope="col" { "server" } th scope="col" { "program" }
                } }
                tbody { @for (text, it) in all.iter().take(SHOWN) { tr {
                    th scope="row" { code title=(text) { (cut(text, 100)) } }
                    td { (count(it.count as f64)) } td { (count(it.trips as f64)) }
                    @for (_, amount) in self.parts(&it.time) { td { (amount.text(self.rtt_ms)) } }
                } } }
            }
        }
    }

    pub(super) fn coverage(&self) -> Markup {
        let profile = self.profile;
        let unread: u64 = profile.opaque.iter().map(|it| it.1).sum();
        html! {
            section aria-labelledby="coverage" {
                h2 #coverage { "Coverage" }
                dl {
                    dt { "recorded" } dd { (ms(profile.seconds * 1000.0)) }
                    dt { "connections" } dd { (count(profile.connections as f64))
                        @if unread > 0 { ", of them " (count(unread as f64)) " not read" } }
                    @for (why, n) in &profile.opaque {
                        dt { "not read" } dd { (several(*n as f64, "connection")) ": " (why) }
                    }
                    dt { "lossy" } dd { @if profile.lossy == 0 { "no traffic went by unread" }
                        @else { (several(profile.lossy as f64, "piece")) " of traffic unread" } }
                    dt { "units" } dd { (count(profile.units as f64)) }
                    dt { "unknown" }
                    dd { (percent(profile.unknown)) " of the waits: they may have been needed, \
                        or not" }
                    @if let Some([least, most]) = profile.rtt_range_ms {
                        dt { "round trip" } dd { "between " (ms(least)) " and " (ms(most)) }
                    }
                }
            }
        }
    }
}
