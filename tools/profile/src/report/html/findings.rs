//! What could be saved, the most first, and how.

use maud::{Markup, html};

use super::number::{Amount, count, several};
use super::{Page, cut};
use crate::finding::code::{self, Code, Language};
use crate::profile::Finding;

/// Findings on the page; `profile.json` has more.
const SHOWN: usize = 100;

impl Page<'_> {
    pub(super) fn findings(&self) -> Markup {
        let findings = &self.profile.findings;
        let more = findings.len().saturating_sub(SHOWN) as u64 + self.profile.findings_left_out;
        let shown = findings.iter().take(SHOWN);
        let (saving, others): (Vec<_>, Vec<_>) = shown.partition(|it| it.saves_trips >= 0.5);
        html! {
            section aria-labelledby="findings" {
                h2 #findings { "Findings" }
                @if findings.is_empty() { p { "Nothing was found that could be saved." } }
                @else {
                    p { "Ranked by the trips that they save over the whole run. No trip is counted \
                        in two of them, except where the program itself must change." }
                    (languages())
                    ol.findings {
                        @for (at, finding) in saving.iter().enumerate() {
                            li { (self.finding(finding, at == 0)) }
                        }
                    }
                    @if !others.is_empty() {
                        details {
                            summary { (several(others.len() as f64, "finding"))
                                " that save time of the server or locks, but no trips" }
                            ol.findings { @for it in others { li { (self.finding(it, false)) } } }
                        }
                    }
                    @if more > 0 {
                        p.note { (several(more as f64, "more finding")) " save less; "
                            code { "profile.json" } " has at most 1,000." }
                    }
                }
            }
        }
    }

    fn finding(&self, it: &Finding, is_open: bool) -> Markup {
        let shape = it.shape.and_then(|id| self.profile.shapes.iter().find(|of| of.id == id));
        let is_redis = shape.is_some_and(|it| it.is_redis);
        let (plain, onetrip) = code::of(&it.kind, is_redis);
        let saves = Amount::of_trips(it.saves_ms / self.rtt_ms);
        html! {
            details open[is_open] {
                summary {
                    span.kind { (it.kind) }
                    span.title {
                        span.what { (it.title) }
                        @if let Some(text) = it.statements.last() { code { (cut(text, 120)) } }
                    }
                    span.saves {
                        @if it.saves_trips >= 0.5 {
                            strong { "−" (several(it.saves_trips, "trip")) }
                            span { "−" (saves.text(self.rtt_ms)) }
                        } @else { span { "no trip" } }
                    }
                }
                div.body {
                    p { (sentence(&it.evidence)) " Seen " (count(it.count as f64)) " times"
                        @if let Some(shape) = shape {
                            ", most in " a href={ "#shape-" (shape.id) } { (cut(&shape.name, 60)) }
                        } "." }
                    @if !it.note.is_empty() { p.notice { (sentence(&it.note)) } }
                    @if !it.statements.is_empty() {
                        ul.statements { @for text in &it.statements { li { pre { (text) } } } }
                    }
                    div.mending {
                        @for (name, said, code) in [
                            ("With any driver", &it.with_any_driver, plain),
                            ("With onetrip", &it.with_onetrip, onetrip),
                        ] {
                            div { h3 { (name) } p { (words(said)) } (codes(code)) }
                        }
                    }
                }
            }
        }
    }
}

/// With a capital, and a full stop.
fn sentence(text: &str) -> String {
    let mut rest = text.trim_end_matches('.').chars();
    let first = rest.next().map(|it| it.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", rest.as_str())
}

/// A text in which code stands between backticks.
fn words(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// In which language code is shown, for the whole page.
fn languages() -> Markup {
    html! {
        fieldset.languages {
            legend { "Code for" }
            @for (id, name) in [("python", "Python"), ("node", "Node.js"), ("rust", "Rust")] {
                label {
                    input type="radio" name="language" id={ "in-" (id) }
                        checked[id == "python"]; (name)
                }
            }
        }
    }
}

fn codes(all: &[Code]) -> Markup {
    html! {
        @for it in all {
            figure class={ "code " (class(it.language)) } {
                figcaption { (name(it.language)) (it.with) }
                pre { code { (it.text) } }
            }
        }
    }
}

fn class(language: Language) -> &'static str {
    match language {
        Language::Sql => "sql",
        Language::Python => "python",
        Language::Node => "node",
        Language::Rust => "rust",
    }
}

fn name(language: Language) -> &'static str {
    match language {
        Language::Sql => "",
        Language::Python => "Python, ",
        Language::Node => "Node.js, ",
        Language::Rust => "Rust, ",
    }
}
