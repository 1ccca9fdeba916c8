//! The rules of two other tools, as their sources describe them, on spans of the same units.
//!
//! Sentry: `consecutive_db_detector` and `n_plus_one_db_span_detector`, with the defaults of its
//! settings. perf-sentinel: `serialized` with 3 calls or more, `n_plus_one` with 5 parameter sets
//! or more in 500 ms. They were written anew from what they do.

use std::collections::HashSet;

use onetrip_profile::Statement;

/// A statement as a tracing library shows it.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) text: String,
    /// What tells one use from another.
    pub(crate) with: String,
    pub(crate) begin_ms: f64,
    pub(crate) end_ms: f64,
    pub(crate) is_redis: bool,
}

impl Span {
    fn ms(&self) -> f64 {
        self.end_ms - self.begin_ms
    }
}

/// The statements of an example. Their values are not known.
pub(crate) fn spans(example: &[Statement], is_redis: bool) -> Vec<Span> {
    let of = |it: &Statement| Span {
        text: it.text.clone(),
        with: String::new(),
        begin_ms: it.begin_ms,
        end_ms: it.end_ms,
        is_redis,
    };
    example.iter().map(of).collect()
}

/// Sentry's runs of queries: the places of those that it calls independent.
pub(crate) fn sentry_consecutive(spans: &[Span]) -> HashSet<usize> {
    let (mut found, mut run) = (HashSet::new(), Vec::new());
    for (at, span) in spans.iter().enumerate() {
        let is_query = !span.is_redis && span.text.to_lowercase().starts_with("select");
        let overlaps = run.last().is_some_and(|last: &usize| spans[*last].end_ms > span.begin_ms);
        if !is_query || overlaps {
            found.extend(of_run(spans, &run));
            run.clear();
        } else {
            run.push(at);
        }
    }
    found.extend(of_run(spans, &run));
    found
}

/// The least duration of a span, the least that is saved, and the least part of the whole.
const SPAN_MS: f64 = 30.0;
const SAVED_MS: f64 = 100.0;
const SAVED_PART: f64 = 0.1;

fn of_run(spans: &[Span], run: &[usize]) -> Vec<usize> {
    let is_free = |at: &&usize| {
        let text = spans[**at].text.to_lowercase();
        let has_literal = text.split(|it: char| !it.is_alphanumeric() && it != '_').any(|word| {
            word.starts_with(|it: char| it.is_ascii_digit()) || word == "true" || word == "false"
        });
        !text.contains("where") && !text.contains(['?', '$', '\'']) && !has_literal
    };
    let free: Vec<usize> = run.iter().skip(1).filter(is_free).copied().collect();
    let ms = |at: &usize| spans[*at].ms();
    let whole: f64 = run.iter().map(ms).sum();
    let rest: f64 = run.iter().filter(|it| !free.contains(it)).map(ms).sum();
    let longest = free.iter().map(ms).fold(0.0, f64::max);
    let saved = whole - longest.max(rest);
    let is_found = run.len() >= 2
        && !free.is_empty()
        && free.iter().all(|it| ms(it) > SPAN_MS)
        && saved >= SAVED_MS
        && saved / whole >= SAVED_PART;
    if is_found { free } else { Vec::new() }
}

/// perf-sentinel's longest chain of calls that don't overlap: all of it but the first.
pub(crate) fn sentinel_serialized(spans: &[Span]) -> HashSet<usize> {
    let is_session = |it: &Span| {
        let text = it.text.to_lowercase();
        ["begin", "commit", "rollback", "set "].iter().any(|word| text.starts_with(word))
    };
    // Sorted by their ends, the earliest that fits is always in a longest chain.
    let mut chain: Vec<usize> = Vec::new();
    let mut by_end: Vec<usize> = (0..spans.len()).filter(|at| !is_session(&spans[*at])).collect();
    by_end.sort_by(|a, b| spans[*a].end_ms.total_cmp(&spans[*b].end_ms));
    for at in by_end {
        let fits = |last: &usize| spans[*last].end_ms <= spans[at].begin_ms;
        if chain.last().is_none_or(fits) {
            chain.push(at);
        }
    }
    let texts: HashSet<&str> = chain.iter().map(|at| &*spans[*at].text).collect();
    if chain.len() < 3 || texts.len() < 2 {
        return HashSet::new();
    }
    chain.into_iter().skip(1).collect()
}

/// Sentry's N+1: the texts of which five or more uses stand in a row behind another query, and take
/// 50 ms or more.
pub(crate) fn sentry_n_plus_one(spans: &[Span]) -> HashSet<String> {
    let mut found = HashSet::new();
    let mut at = 0;
    while at < spans.len() {
        let text = &spans[at].text;
        let len = spans[at..].iter().take_while(|it| it.text == *text).count();
        let ms: f64 = spans[at..at + len].iter().map(Span::ms).sum();
        if at > 0 && len >= 5 && ms >= 50.0 && !spans[at].is_redis {
            found.insert(text.clone());
        }
        at += len;
    }
    found
}

/// perf-sentinel's N+1: the texts with five parameter sets or more, all of them in 500 ms.
pub(crate) fn sentinel_n_plus_one(spans: &[Span]) -> HashSet<String> {
    let texts: HashSet<&String> = spans.iter().map(|it| &it.text).collect();
    let is_found = |text: &&&String| {
        let uses: Vec<_> = spans.iter().filter(|it| it.text == ***text).collect();
        let sets: HashSet<&String> = uses.iter().map(|it| &it.with).collect();
        let begins = || uses.iter().map(|it| it.begin_ms);
        let window = begins().fold(0.0, f64::max) - begins().fold(f64::MAX, f64::min);
        sets.len() >= 5 && window <= 500.0 && !uses[0].is_redis
    };
    texts.iter().filter(is_found).map(|it| (*it).clone()).collect()
}
