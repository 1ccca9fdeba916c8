//! `report.html`: one file that needs no other. Without JavaScript it can be read as it is, at the
//! round trip that was measured; with it numbers follow a slider.

mod findings;
mod lanes;
mod number;
mod opening;
mod shapes;
mod time;
mod waterfall;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::cut;
use crate::profile::Profile;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The round trip that the page is drawn for where none was measured.
const RTT_MS: f64 = 1.0;

/// `report.html`.
#[must_use]
pub fn html(profile: &Profile) -> String {
    let page = Page { profile, rtt_ms: profile.rtt_ms.filter(|it| *it > 0.0).unwrap_or(RTT_MS) };
    page.whole().into_string()
}

/// What all parts of the page are made from.
struct Page<'a> {
    profile: &'a Profile,
    /// The round trip that the page is drawn for.
    rtt_ms: f64,
}

/// Whatever text would come in here, nothing is loaded, and no script runs but that of the page.
fn policy() -> String {
    let hash = BASE64_STANDARD.encode(Sha256::digest(SCRIPT));
    format!("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'")
}

impl Page<'_> {
    fn whole(&self) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta http-equiv="Content-Security-Policy" content=(policy());
                    title { "onetrip profile" }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header { (self.opening()) }
                    nav aria-label="Contents" { ul {
                        li { a href="#findings" { "Findings" } }
                        li { a href="#shapes" { "Shapes of units" } }
                        li { a href="#lanes" { "Connections" } }
                        li { a href="#time" { "Time" } }
                        li { a href="#coverage" { "Coverage" } }
                        li { a href="#reading" { "How to read this" } }
                    } }
                    main {
                        (arrow())
                        (self.findings())
                        (self.shapes())
                        (self.lanes())
                        (self.time())
                        (self.coverage())
                        (reading())
                    }
                    footer { p { "Made by onetrip " (env!("CARGO_PKG_VERSION")) "." } }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        }
    }

    /// Notes on a subject.
    fn notes(&self, about: &str) -> Markup {
        html! {
            @for note in self.profile.notes.iter().filter(|it| it.about == about) {
                p.note { (note.text) }
            }
        }
    }
}

/// The head of all arrows.
fn arrow() -> Markup {
    html! {
        svg.hidden aria-hidden="true" { defs {
            marker #arrow viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6"
                orient="auto" { path.head d="M0 0L6 3L0 6z" {} }
        } }
    }
}

/// A wide table moves within its own frame, never the page.
fn scrolled(label: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" aria-label=(label) tabindex="0" { (table) } }
}

/// What colours mean.
fn legend() -> Markup {
    html! {
        p.legend {
            span.network { "network" } span.server { "server, its queue and transfer" }
            span.queue { "waits for the statement in front" } span.program { "program" }
            span.value { "takes a value of that result" }
        }
    }
}

const READING: [&str; 6] = [
    "A trip begins with the first byte of a request while nothing is under way, and ends with the \
     last byte of all answers.",
    "A unit is what a program did on a connection between two boundaries: a trace in a comment, an \
     explicit transaction, a pool that hands the connection on, or a long gap. Units with the same \
     statements in the same order are one shape, however often their loops ran.",
    "Protocol only: waits for BEGIN, COMMIT, SAVEPOINT, settings, Parse and the like are folded \
     into the trips beside them. Proven: statements that were seen to be independent share trips \
     too. At best: what is unknown is taken as independent as well, which it may not be.",
    "Independent means: it took no value of the result before it, all of its parameters were known \
     earlier, and it followed in n units over k classes of results (none, one, many rows, an \
     error), whatever came back.",
    "Where two statements are neither linked nor seen to be independent, they are unknown, and \
     unknown is never counted as proven.",
    "A trip's time is the network's round trip, and the rest is the server's: its work, its queue \
     and the transfer. A trip that is saved saves the network's part; the server's and the \
     program's stay as they were.",
];

fn reading() -> Markup {
    html! {
        section aria-labelledby="reading" {
            h2 #reading { "How to read this" }
            @for sentence in READING { p { (sentence) } }
        }
    }
}
