//! What a report opens with, where transfers were recorded: their picture, and then what was found
//! in a few large figures.

use maud::{Markup, html};

use super::parts;
use crate::report::key_figures::{self, KeyFigure};
use crate::report::picture::{COLUMNS, Picture, Width};
use crate::results::Results;

pub(super) fn opening(results: &Results) -> Markup {
    let Some(picture) = Picture::of(results) else { return html! {} };
    html! {
        (recorded(&picture))
        (large(&key_figures::key_figures(results)))
    }
}

/// The style sheet shows the one that fits.
fn recorded(picture: &Picture<'_>) -> Markup {
    html! {
        figure.recorded {
            figcaption {
                strong { (picture.title()) }
                span { (picture.subtitle()) }
            }
            (picture.inline(Width::Wide))
            (picture.inline(Width::Narrow))
            p.note { (picture.source()) }
            details {
                summary { "The messages" }
                (parts::scrolled("Messages of the picture", &messages(picture)))
            }
        }
    }
}

fn messages(picture: &Picture<'_>) -> Markup {
    html! {
        table {
            caption { "All messages, each as it left and arrived" }
            thead { tr { @for name in COLUMNS { th scope="col" { (name) } } } }
            tbody { @for [way, rest @ ..] in picture.rows() { tr {
                th scope="row" { (way) }
                @for text in rest { td { (text) } }
            } } }
        }
    }
}

fn large(figures: &[KeyFigure]) -> Markup {
    html! {
        @if !figures.is_empty() {
            ul.figures { @for figure in figures { li {
                strong {
                    @if let Some(from) = &figure.from {
                        (from) span aria-hidden="true" { " → " } span.hidden { " before, now " }
                    }
                    (figure.value)
                    @if !figure.unit.is_empty() { small { "\u{a0}" (figure.unit) } }
                }
                span { (figure.what) }
            } } }
        }
    }
}
