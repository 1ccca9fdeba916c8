//! Why one cell takes another time than a second one, by what was seen: what was tried again, what
//! the server's sessions waited for, and CPU.

use std::collections::{BTreeMap, BTreeSet};

use onetrip_measure::results::Cell;

use super::CONNECTIONS;
use super::cells::{name, ratio, time_us};

/// Causes that are named, the largest first.
const CAUSES_MAX: usize = 3;

/// Sessions that did something less often than this are not worth a word.
const SESSIONS_MIN: f64 = 0.2;

/// As `X takes 1.30 × as long as Y; of the sessions' time per transaction …; X: …; Y: …`.
pub(super) fn why(cell: &Cell, base: &Cell) -> String {
    let (ratio, is_noise) = ratio(cell, base);
    let noise = if is_noise { ", which may be noise" } else { "" };
    format!(
        "differs: {} takes {:.2} × as long as {}{noise}; {}\n    {}\n    {}",
        name(cell),
        ratio.median,
        name(base),
        causes(cell, base),
        seen(cell),
        seen(base)
    )
}

/// What the difference consists of: the time that all sessions together spend on a transaction, by
/// what they do.
fn causes(cell: &Cell, base: &Cell) -> String {
    let (spent, spent_by_base) = (session_us(cell), session_us(base));
    let whats: BTreeSet<&str> = spent.keys().chain(spent_by_base.keys()).copied().collect();
    let of = |all: &BTreeMap<&str, f64>, what| all.get(what).copied().unwrap_or(0.0);
    let mut differences: Vec<(&str, f64)> =
        whats.into_iter().map(|it| (it, of(&spent, it) - of(&spent_by_base, it))).collect();
    differences.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let largest = differences.iter().take(CAUSES_MAX);
    let largest = largest.map(|(what, us)| format!("{us:+.0} µs {what}")).collect::<Vec<_>>();
    let session_us = |cell| f64::from(CONNECTIONS) * time_us(cell).median;
    format!(
        "sessions spend {:.0} against {:.0} µs per transaction: {}",
        session_us(cell),
        session_us(base),
        largest.join(", ")
    )
}

/// Time of sessions per transaction, by what they waited for.
fn session_us(cell: &Cell) -> BTreeMap<&str, f64> {
    let time = time_us(cell).median;
    cell.waits.iter().map(|(what, sessions)| (what.as_str(), sessions * time)).collect()
}

/// What was seen of a cell.
fn seen(cell: &Cell) -> String {
    format!(
        "{}: {:.0} µs; {}; {}; CPU per transaction {} µs of the server, {} of the client",
        name(cell),
        time_us(cell).median,
        tried_again(cell),
        waiting(cell),
        cpu(cell.server_cpu_us()),
        cpu(cell.client_cpu_us()),
    )
}

fn tried_again(cell: &Cell) -> String {
    if cell.retries.is_empty() {
        return "nothing was tried again".to_owned();
    }
    let counts = cell.retries.iter().map(|(code, count)| format!("{count} times for {code}"));
    let counts = counts.collect::<Vec<_>>().join(" and ");
    format!("{} transactions were tried again {counts}", cell.operations())
}

fn waiting(cell: &Cell) -> String {
    let mut waits: Vec<(&String, f64)> =
        cell.waits.iter().map(|(what, sessions)| (what, *sessions)).collect();
    waits.sort_by(|a, b| b.1.total_cmp(&a.1));
    let waits = waits.into_iter().filter(|(_, sessions)| *sessions >= SESSIONS_MIN);
    let waits = waits.map(|(what, sessions)| format!("{sessions:.1} {what}")).collect::<Vec<_>>();
    format!("of {CONNECTIONS} sessions in the mean {}", waits.join(", "))
}

fn cpu(spread: Option<onetrip_measure::spread::Spread>) -> String {
    spread.map_or("?".to_owned(), |spread| format!("{:.0}", spread.median))
}
