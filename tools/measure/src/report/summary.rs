//! What was measured and what came out, in a few sentences.

use super::answer;
use super::format::{self, duration_ms, times};
use super::headlines;
use super::measure::Measure;
use super::redis;
use super::setting;
use super::tables::{self, cells_of, presets};
use crate::results::{Cell, Preset, Results, Server};
use crate::spread::Ratio;

/// What was measured, on what and from where.
pub(super) fn measured(results: &Results) -> String {
    let cells = format::several(results.cells.len(), "combination");
    let presets: Vec<String> =
        presets(results).into_iter().map(|it| format::small(tables::name(it))).collect();
    let about =
        if presets.is_empty() { String::new() } else { format!(" ({})", presets.join("; ")) };
    let operations: u64 = results.cells.iter().map(Cell::operations).sum();
    let operations = format::count(operations);
    format!(
        "{cells} of workload and parameters{about}, {operations} operations, on {}.",
        server(results)
    )
}

fn server(results: &Results) -> String {
    let of = |server: &Server| {
        let whose = match server.private {
            true => "a server that was started for this run".to_owned(),
            false => format!("the server at {}", server.url),
        };
        format!("{} {}, {whose}", server.product, server.version)
    };
    setting::servers(results).into_iter().map(of).collect::<Vec<_>>().join(", and ")
}

/// How often each was repeated, and what follows for the figures.
pub(super) fn repeated(results: &Results) -> String {
    let counts = results.cells.iter().map(|it| it.repetitions.len());
    let (least, most) = (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0));
    let times = match least == most {
        true => format::several(least, "repetition"),
        false => format!("{least} to {most} repetitions"),
    };
    let few = least < crate::spread::REPETITIONS_MIN;
    let caution = if few { " Fewer than three can't tell a difference from noise." } else { "" };
    match most {
        0 | 1 => format!("Figures are of {times}.{caution}"),
        _ => format!("Figures are medians of {times}, with their quartiles.{caution}"),
    }
}

/// What came out, the most telling first; nothing where there is nothing to compare.
pub(super) fn found(results: &Results) -> Vec<String> {
    let told = [
        one_trip(results, Preset::Trips),
        contention(results),
        one_trip(results, Preset::Redis),
        redis::told(results),
        behind(results),
    ];
    answer::told(results).into_iter().chain(told.into_iter().flatten()).collect()
}

/// Of open loops: where the server did less than what came.
fn behind(results: &Results) -> Option<String> {
    /// A schedule at random has as much to do with a few percent.
    const KEPT_UP: f64 = 0.9;
    let rates = results.cells.iter().filter_map(|cell| {
        let (intended, done) = (cell.key.rate?, cell.rate()?.median);
        (done < KEPT_UP * intended).then_some((cell, intended, done))
    });
    let (cell, intended, done) = rates.min_by(|a, b| (a.2 / a.1).total_cmp(&(b.2 / b.1)))?;
    let name = super::details::name(cell);
    let [intended, done] = [intended, done].map(format::number);
    Some(format!(
        "{name} did not keep up with its rate: {intended} per second were due and {done} were done. Its latencies \
         are those of a queue that grew as long as the repetition lasted; what is left of it is among the \
         errors as \"never begun\"."
    ))
}

/// What a trip less gives back: of the two modes of a workload that differ most in trips.
fn one_trip(results: &Results, preset: Preset) -> Option<String> {
    let cells = cells_of(results, preset);
    let pairs = cells.iter().flat_map(|a| cells.iter().map(move |b| (*a, *b))).rev();
    // Of Redis what shares a trip with a hundred others is another story.
    let pairs = pairs.filter(|(_, fast)| preset == Preset::Trips || is_a_trip(fast));
    let saved = |(slow, fast): &(&Cell, &Cell)| {
        is_same_but_mode(slow, fast).then(|| trips(slow).zip(trips(fast)))?.map(|(a, b)| a - b)
    };
    let pairs = pairs.filter_map(|pair| Some((pair, saved(&pair)?)));
    let pairs = pairs.filter(|(_, saved)| *saved >= 0.5);
    // The longest round trip has the least noise.
    let key = |(pair, saved): &((&Cell, &Cell), f64)| (pair.0.key.rtt_added_ms, *saved);
    let ((slow, fast), saved) =
        pairs.max_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal))?;
    trip_sentence(results, slow, fast, saved)
}

fn is_a_trip(cell: &Cell) -> bool {
    trips(cell).is_some_and(|trips| trips > 0.99)
}

fn is_same_but_mode(a: &Cell, b: &Cell) -> bool {
    let (a, b) = (&a.key, &b.key);
    a.workload == b.workload
        && a.rtt_added_ms == b.rtt_added_ms
        && a.tasks == b.tasks
        && a.depth == b.depth
}

fn trips(cell: &Cell) -> Option<f64> {
    Some(cell.trips_per_operation()?.median)
}

fn trip_sentence(results: &Results, slow: &Cell, fast: &Cell, saved: f64) -> Option<String> {
    let (before, after) = (Measure::Latency.of(slow)?, Measure::Latency.of(fast)?);
    let rtt = super::grid::rtt_ms(&slow.key, results.lines_of(slow.key.preset));
    let name = &slow.key.workload;
    let mode = |cell: &Cell| cell.key.mode.clone().unwrap_or_else(|| "as it is".to_owned());
    let (slow_mode, fast_mode) = (mode(slow), mode(fast));
    let ratio = before.ratio(&after)?;
    if ratio.is_noise() {
        let place = format!(" at a round trip of {}", duration_ms(rtt));
        let noise = headlines::noise(&slow_mode, &fast_mode, &ratio, &place);
        return Some(format!("{}: {noise}.", format::capital(name)));
    }
    let (long, short) = (before.spread.median, after.spread.median);
    let takes = |ms: f64, cell: &Cell, mode: &str| {
        let trips = trips(cell)?;
        let plural = if (trips - 1.0).abs() < 0.005 { "" } else { "s" };
        Some(format!("{} in {} trip{plural} ({mode})", duration_ms(ms), format::coarse(trips)))
    };
    Some(format!(
        "At a round trip of {} each trip that is saved gives back {}: {name} takes {} and {}, which is {} \
         as fast.",
        duration_ms(rtt),
        duration_ms((long - short) / saved),
        takes(long, slow, &slow_mode)?,
        takes(short, fast, &fast_mode)?,
        times(ratio.median),
    ))
}

/// The pair whose contention costs most.
fn contention(results: &Results) -> Option<String> {
    let cells = cells_of(results, Preset::Concurrency);
    let measure = Measure::under_concurrency(&cells);
    let pairs = cells.iter().flat_map(|a| cells.iter().map(move |b| (*a, *b)));
    let costs = pairs
        .filter(|(a, b)| is_pair(a, b))
        .filter_map(|(a, b)| Some((a, b, measure.of(a)?.ratio(&measure.of(b)?)?)));
    let rank = |ratio: &Ratio| (!ratio.is_noise(), ratio.median);
    let (one, many, ratio) = costs
        .max_by(|a, b| rank(&a.2).partial_cmp(&rank(&b.2)).unwrap_or(std::cmp::Ordering::Equal))?;
    let (one, other) = (&one.key, &many.key.workload);
    let level = one.isolation.map_or(String::new(), |it| format!(" at {}", it.name()));
    let rtt = match one.rtt_added_ms {
        0.0 => String::new(),
        added => format!(" and {} ms added", format::tick(added)),
    };
    let place = format!("with {}{rtt}{level}", format::several(one.tasks as usize, "task"));
    Some(match ratio.is_noise() {
        true => {
            let noise = headlines::noise(&one.workload, other, &ratio, &format!(" {place}"));
            format!("Contention is not told from noise: {noise}.")
        }
        false => format!(
            "Contention costs most {place}: {} takes {} as long as {other}.",
            one.workload,
            times(ratio.median)
        ),
    })
}

fn is_pair(a: &Cell, b: &Cell) -> bool {
    let names = (a.key.workload.as_str(), b.key.workload.as_str());
    let expected = crate::results::Key { workload: b.key.workload.clone(), ..a.key.clone() };
    headlines::PAIRS.contains(&names) && expected == b.key
}
