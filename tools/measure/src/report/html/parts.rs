//! Pieces of the page.

use maud::{Markup, PreEscaped, html};

use crate::report::details::{self, Details};
use crate::report::format::{self, number};
use crate::report::grid::{Figure, Grid, Row};
use crate::report::plots::View;
use crate::report::setting;
use crate::results::{Line, Preset, Profiled, Results};

/// A preset's heading.
pub(super) fn id(preset: Preset) -> &'static str {
    match preset {
        Preset::Concurrency => "concurrency",
        Preset::Trips => "trips",
        Preset::Fortunes => "fortunes",
        Preset::Script => "script",
        Preset::Redis => "redis",
    }
}

/// A chart under what it shows, and over its figures.
pub(super) fn figure(view: View, id: &str) -> Markup {
    let (headline, grid, notes) = (view.headline.clone(), view.grid.clone(), view.notes.clone());
    let svg = view.svg(id);
    html! {
        figure {
            figcaption { (headline) "." }
            (PreEscaped(svg))
            div {
                @if !notes.is_empty() { p.note { (notes.join(" ")) } }
                details {
                    summary { "The figures" }
                    (scrolled("Figures of this chart", &table(&grid, &headline)))
                }
            }
        }
    }
}

/// A wide table moves within its own frame, never the page.
pub(super) fn scrolled(label: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" aria-label=(label) tabindex="0" { (table) } }
}

fn table(grid: &Grid, headline: &str) -> Markup {
    let caption = html! {
        caption {
            (format::capital(&grid.what)) ": median, and quartiles where there are several values"
            span.hidden { ". " (headline) }
        }
    };
    if let [row] = grid.rows.as_slice() {
        return html! { table { (caption) (downwards(grid, row)) } };
    }
    html! {
        table {
            (caption)
            thead { tr {
                th scope="col" { (grid.corner) }
                @for column in &grid.columns { th scope="col" { (column.label) } }
            } }
            tbody { @for row in &grid.rows { tr {
                th scope="row" { (row.label) }
                @for figure in &row.figures { td { (figure_text(figure.as_ref())) } }
            } } }
        }
    }
}

/// What has one row only: a line for each column.
fn downwards(grid: &Grid, row: &Row) -> Markup {
    html! {
        thead { tr { th scope="col" { (grid.across) } th scope="col" { (row.label) } } }
        tbody { @for (column, figure) in grid.columns.iter().zip(&row.figures) { tr {
            th scope="row" { (column.label) }
            td { (figure_text(figure.as_ref())) }
        } } }
    }
}

fn figure_text(figure: Option<&Figure>) -> String {
    figure.map_or_else(|| "–".to_owned(), |it| format::spread(&it.spread))
}

/// What was found of a program.
pub(super) fn profiled(profiled: &Profiled) -> Markup {
    let table = html! {
        table {
            caption { (profiled.title) "." }
            thead { tr {
                th scope="col" { "form" } th scope="col" { "trips" } th scope="col" { "ms" }
            } }
            tbody { @for form in &profiled.forms { tr {
                th scope="row" { (form.name) }
                td { (form.trips.map_or_else(|| "–".to_owned(), |it| format!("{it:.1}"))) }
                td { (format!("{:.1}", form.ms)) }
            } } }
        }
    };
    html! {
        section aria-labelledby="profiled" {
            h2 id="profiled" { "A program, profiled" }
            (scrolled("Forms of the program", &table))
            p { (profiled.says) }
        }
    }
}

/// Every cell with all that is known of it.
pub(super) fn cells(results: &Results) -> Markup {
    let table = html! {
        table {
            caption { "All cells, in the order in which they were planned. Latencies are in ms." }
            thead { tr {
                th scope="col" { "workload" }
                @for name in details::COLUMNS { th scope="col" { (name) } }
            } }
            tbody { @for cell in &results.cells { @let it = Details::of(cell);
                tr {
                    th scope="row" { (it.name) }
                    @for text in &it.texts { td { (text) } }
                }
            } }
        }
    };
    html! {
        section aria-labelledby="cells" {
            h2 id="cells" { "All figures" }
            details {
                summary { (format::several(results.cells.len(), "cell")) }
                (scrolled("All cells", &table))
            }
        }
    }
}

/// With what it was measured.
pub(super) fn setting(results: &Results) -> Markup {
    html! {
        section aria-labelledby="setting" {
            h2 id="setting" { "Server, settings, command" }
            dl { @for (name, value) in setting::facts(results) { dt { (name) } dd { (value) } } }
            @for server in setting::servers(results) { @if !server.settings.is_empty() {
                details {
                    summary { "Settings of the server (" (server.product) ")" }
                    dl.settings { @for (name, value) in &server.settings {
                        dt { code { (name) } } dd { code { (value) } }
                    } }
                }
            } }
            @for (what, of) in setting::lines(results) { @if !of.is_empty() { (lines(&what, of)) } }
        }
    }
}

fn lines(what: &str, lines: &[Line]) -> Markup {
    html! {
        div.scroll role="region" aria-label="Round trips" tabindex="0" { table {
            caption { (what) }
            thead { tr {
                th scope="col" { "added" } th scope="col" { "median" }
                th scope="col" { "quartiles" } th scope="col" { "requests" }
            } }
            tbody { @for line in lines { tr {
                th scope="row" { (format::tick_or_zero(line.rtt_added_ms)) }
                td { (number(line.rtt_ms.median)) }
                td { (number(line.rtt_ms.low)) "–" (number(line.rtt_ms.high)) }
                td { (format::count(line.rtt_ms.values as u64)) }
            } } }
        } }
    }
}

/// What words and bars mean.
pub(super) fn reading() -> Markup {
    html! {
        section aria-labelledby="reading" {
            h2 id="reading" { "How to read this" }
            @for sentence in setting::READING { p { (sentence) } }
            p { "A thin line with ends, at a mark or at the end of a bar, reaches from the first to \
                 the third quartile; where there is none, it is shorter than the mark, or there is \
                 one value only. Lines that are told apart by colour have marks and dashes of their \
                 own too." }
        }
    }
}
