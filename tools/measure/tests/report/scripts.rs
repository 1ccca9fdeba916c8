//! What the report says of scripts, and which charts it has of few values.

use onetrip_measure::load::Distribution;
use onetrip_measure::report::terminal;
use onetrip_measure::results::{Awaited, Results};

use crate::page::page;
use crate::synthetic::{Synthetic, results};

fn run(rtts: &[f64]) -> Results {
    results(Synthetic::new(5).scripts(rtts))
}

/// Only these of a run's cells.
fn only(mut run: Results, workload: &str, mode: &str) -> Results {
    run.cells
        .retain(|it| it.key.workload == workload && it.key.mode.as_deref().unwrap().contains(mode));
    run
}

fn plain(text: &str) -> String {
    text.replace(['\n', '\u{a0}'], " ")
}

/// The charts of a page, each with its title.
fn figures(page: &str) -> Vec<(String, String)> {
    let figures = page.split("<figure>").skip(1).map(|it| it.split("</figure>").next().unwrap());
    let titled = figures.map(|it| {
        let title = it.split("<figcaption>").nth(1).unwrap().split("</figcaption>").next().unwrap();
        (plain(title), it.to_owned())
    });
    titled.collect()
}

#[test]
fn what_a_script_would_gain_is_told_at_the_longest_round_trip() {
    let text = plain(&terminal(&run(&[0.0, 5.0])));
    let told = text.split("tpcb-like: ").nth(1).unwrap().split("fast.").next().unwrap();
    assert!(told.starts_with("5.06 ms × 7 trips = 35.4 ms on the way, "), "{told}");
    assert!(
        told.contains(" ms measured; as one pipeline 5.") && told.ends_with(" × as "),
        "{told}"
    );
    // One that has no second form: nothing is compared.
    let told = text.split("select-only: ").nth(1).unwrap().split(" == ").next().unwrap();
    // Its round trip is no longer than all of it, though 5.06 ms were measured of the line.
    let all = "4.98 ms × 1 trip = 4.98 ms on the way, 4.98 ms measured.";
    assert_eq!(told.trim_end(), all);
}

#[test]
fn what_is_on_the_way_is_never_told_to_be_more_than_all_that_was_measured() {
    let mut run = only(run(&[5.0]), "tpcb-like", "");
    let rtt = &mut run.lines[0].rtt_ms;
    rtt.median = 60.0;
    let text = plain(&terminal(&run));
    let told = text.split("tpcb-like: ").nth(1).unwrap();
    assert!(!told.contains("on the way"), "{told}");
    assert!(told.starts_with("7 trips, "), "{told}");
    let why = " ms measured, which is less than 7 × 60.0 ms, the round trip when the run began";
    assert!(told.contains(why), "{told}");
    assert!(told.contains("; as one pipeline "), "{told}");
}

#[test]
fn forms_that_failed_often_are_not_compared() {
    let mut run = only(run(&[5.0]), "tpcb-like", "");
    let operations = run.cells[1].operations();
    run.cells[1].errors.insert("23505".to_owned(), operations / 200);
    assert!(plain(&terminal(&run)).contains("as one pipeline"), "a few failures are none");
    run.cells[1].errors.insert("23505".to_owned(), operations);
    let text = plain(&terminal(&run));
    assert!(text.contains(" ms measured. Pipelined, "), "{text}");
    assert!(text.contains("runs failed (23505: ") && text.contains("say nothing."), "{text}");
    assert!(!text.contains("as one pipeline"), "{text}");
}

#[test]
fn the_values_that_keep_a_statement_waiting_are_named() {
    let mut run = only(run(&[5.0]), "tpcb-like", "");
    let places = ["statement 3", "\\set on line 7", "statement 5", "statement 6", "statement 7"];
    let awaited =
        places.map(|it| Awaited { place: it.to_owned(), value: ":a of statement 1".to_owned() });
    run.cells[1].awaited = awaited.into();
    for repetition in &mut run.cells[1].repetitions {
        repetition.trips = repetition.trips.map(|it| 6 * it);
    }
    let text = plain(&terminal(&run));
    assert!(text.contains("; pipelined, in 6 trips, "), "{text}");
    assert!(
        text.contains("fast. Statement 3 waits for :a of statement 1. \\set on line 7 waits"),
        "{text}"
    );
    assert!(text.contains("So does 1 more place (results.json has them)."), "{text}");
    assert!(!text.contains("Statement 7"), "{text}");
    let (_, first) = &figures(&page(&run))[0];
    assert!(first.contains("Statement 3 waits for :a of statement 1."), "{first}");
}

#[test]
fn a_gain_that_may_be_noise_is_told_as_that() {
    let mut run = only(run(&[5.0]), "tpcb-like", "");
    for cell in &mut run.cells {
        cell.repetitions.truncate(1);
    }
    let text = plain(&terminal(&run));
    assert!(
        text.contains("; the two differ by ") && text.contains("1 repetition can't tell"),
        "{text}"
    );
    assert!(!text.contains("as fast"), "{text}");
}

#[test]
fn the_first_chart_is_the_answer_in_bars_with_their_values() {
    let figures = figures(&page(&run(&[0.0, 5.0])));
    let (title, first) = &figures[0];
    assert!(title.starts_with("tpcb-like: 5.06 ms × 7 trips = 35.4 ms on the way, "), "{title}");
    for part in ["each awaited: 7 trips", "pipelined: 1 trip", "ms per transaction (+5 ms)"] {
        assert!(first.contains(part), "{part}: {first}");
    }
    assert!(!first.contains("stroke-width=\"8\""), "a line is drawn: {first}");
}

#[test]
fn a_single_row_of_two_values_is_bars_under_a_title_with_both() {
    let run = only(run(&[0.0, 5.0]), "tpcb-like", "each awaited");
    let figures = figures(&page(&run));
    let (title, chart) =
        figures.iter().find(|it| it.0.contains("each awaited takes 1.0")).expect("it is there");
    assert!(
        title.contains(" ms per transaction with 0 ms added, ")
            && title.ends_with(" with 5 ms added.")
    );
    assert!(chart.contains("each awaited, +5 ms") && !chart.contains("(log scale)"), "{chart}");
    assert!(figures.iter().all(|it| !it.0.contains("as much with")));
}

#[test]
fn several_round_trips_are_lines_whose_axes_say_their_scale() {
    let figures = figures(&page(&run(&[0.0, 1.0, 5.0])));
    let (_, chart) = figures.iter().find(|it| it.0.contains("takes")).unwrap();
    for part in ["ms per transaction (log scale)", "round trip, ms (as measured, log scale)"] {
        assert!(chart.contains(part), "{part}: {chart}");
    }
}

#[test]
fn a_chart_that_can_say_nothing_is_not_drawn() {
    let mut run = only(run(&[5.0]), "tpcb-like", "");
    let is_tail = |it: &(String, String)| it.0.contains("slowest");
    assert!(figures(&page(&run)).iter().any(is_tail));
    let of = |latencies: &[u64]| {
        let mut distribution = Distribution::default();
        latencies.iter().for_each(|us| distribution.record(std::time::Duration::from_micros(*us)));
        distribution.latency()
    };
    for latencies in [&[5_000; 200][..], &[5_000, 50_000]] {
        for cell in &mut run.cells {
            cell.latency = of(latencies);
        }
        assert!(!figures(&page(&run)).iter().any(is_tail), "{} operations", latencies.len());
    }
    let one = only(run, "tpcb-like", "each awaited");
    assert!(figures(&page(&one)).is_empty());
}
