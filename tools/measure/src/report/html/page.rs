//! The page: what was found on top, then a section for each preset, then what it was measured with.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{opening, parts};
use crate::report::charts;
use crate::report::format;
use crate::report::picture;
use crate::report::setting;
use crate::report::summary;
use crate::report::tables::{self, presets};
use crate::results::{Preset, Results, Server};

const STYLE: &str =
    concat!(include_str!("cards.css"), include_str!("style.css"), include_str!("opening.css"));

pub(super) fn page(results: &Results) -> Markup {
    let servers: Vec<String> = setting::servers(results).into_iter().map(name).collect();
    let title = format!("onetrip bench: {}", format::list(&servers));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(picture::STYLE)) }
            }
            body {
                (header(results, &title))
                (contents(results))
                main { (main(results)) }
                (footer(results))
            }
        }
    }
}

/// Whatever would come in here, nothing is loaded and no script runs.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// With its version up to its first space: the rest says how it was built.
fn name(server: &Server) -> String {
    let version = server.version.split_whitespace().next().unwrap_or_default();
    format!("{} {version}", server.product)
}

fn header(results: &Results, title: &str) -> Markup {
    html! {
        header {
            h1 { (title) }
            @if let Some(why) = &results.stopped {
                p.notice role="note" { strong { "Not all was measured. " } (why) }
            }
            (opening::opening(results))
            div.found {
                @for found in summary::found(results) { p.headline { (found) } }
                p { (summary::measured(results)) " " (summary::repeated(results)) }
            }
        }
    }
}

fn contents(results: &Results) -> Markup {
    html! {
        nav aria-label="Contents" {
            ul {
                @for preset in presets(results) {
                    li { a href={ "#" (parts::id(preset)) } { (tables::name(preset)) } }
                }
                @if results.profiled.is_some() { li { a href="#profiled" { "A program, profiled" } } }
                li { a href="#cells" { "All figures" } }
                li { a href="#setting" { "Server, settings, command" } }
                li { a href="#reading" { "How to read this" } }
            }
        }
    }
}

fn main(results: &Results) -> Markup {
    html! {
        @if results.cells.is_empty() { p { "Nothing was measured." } }
        @for preset in presets(results) { (section(results, preset)) }
        @if let Some(profiled) = &results.profiled { (parts::profiled(profiled)) }
        (parts::cells(results))
        (parts::setting(results))
        (parts::reading())
    }
}

fn section(results: &Results, preset: Preset) -> Markup {
    let id = parts::id(preset);
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (tables::name(preset)) }
            @for (i, group) in charts::groups(results, preset).into_iter().enumerate() {
                h3 { (group.title) }
                div.charts {
                    @for (j, view) in group.views.into_iter().enumerate() {
                        (parts::figure(view, &format!("{id}-{i}-{j}")))
                    }
                }
            }
        }
    }
}

fn footer(results: &Results) -> Markup {
    html! {
        footer {
            p {
                "Made by onetrip " (results.onetrip_version) " of what it measured from "
                time datetime=(results.started_at) { (results.started_at) } " on."
            }
        }
    }
}
