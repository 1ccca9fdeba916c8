//! What is shown on the terminal.

use onetrip_measure::report::terminal;
use onetrip_measure::results::Isolation;

use crate::odd;
use crate::synthetic::{Synthetic, TASKS, results, rich};

fn shown() -> String {
    terminal(rich())
}

#[test]
fn the_terminal_shows_each_level_and_each_operation() {
    let text = shown();
    for title in ["Read committed: ms until", "Repeatable read: ms until", "Serializable: ms until"]
    {
        assert!(text.contains(title), "{title}\n{text}");
    }
    assert!(text.contains("select_for_update_skip_locked_many"));
    assert!(text.contains("point_select by depth: statements per second"));
    assert!(text.contains("40001×11,200"), "{text}");
    assert!(text.contains("(23503×800)"), "{text}");
}

#[test]
fn the_terminal_tells_what_failed_for_good_from_what_was_tried_again() {
    let mut results = rich().clone();
    results.cells.truncate(1);
    results.cells[0].retries = [("40001".to_owned(), 7)].into();
    results.cells[0].errors = [("22012".to_owned(), 3)].into();
    let text = terminal(&results);
    assert!(text.contains("40001×7 !22012×3"), "{text}");
}

#[test]
fn a_rate_that_was_not_kept_up_with_is_told_and_its_lag_shown() {
    let mut results = rich().clone();
    results.cells.retain(|it| it.key.workload == "tpcb-like");
    let text = terminal(&results);
    assert!(!text.contains("did not keep up") && !text.contains("lag p99"), "{text}");
    let cell = &mut results.cells[0];
    cell.key.rate = Some(10.0 * cell.rate().unwrap().median);
    cell.lag = cell.latency.clone();
    let text = terminal(&results);
    assert!(text.contains("tpcb-like, each awaited did not keep up with its rate"), "{text}");
    assert!(text.contains("lag p99"), "{text}");
}

#[test]
fn no_line_on_the_terminal_is_too_wide() {
    let all = odd::all().iter().map(|(name, results)| (*name, results)).chain([("rich", rich())]);
    for (name, results) in all.filter(|(name, _)| *name != "long_names") {
        for line in terminal(results).lines() {
            assert!(line.chars().count() <= 120, "{name}: {line}");
        }
    }
}

#[test]
fn a_stopped_run_says_so_and_why() {
    let shown_stopped = terminal(odd::named("stopped"));
    let said = shown_stopped.find("This is not all that was to be measured: interrupted");
    assert!(said < shown_stopped.find("== "), "before the tables");
    assert!(said.is_some());
    assert!(!shown().contains("This is not all"));
}

#[test]
fn what_a_trip_and_contention_cost_stands_on_top() {
    let text = shown();
    let top = text.split("==").next().unwrap().replace('\n', " ");
    assert!(top.contains("each trip that is saved gives back"), "{top}");
    assert!(top.contains("update_single_row takes"), "{top}");
}

#[test]
fn a_difference_within_the_noise_is_told_as_that() {
    let mut synthetic = Synthetic::new(1);
    synthetic.noise = 0.9;
    let mut cells = synthetic.concurrency(&[Isolation::ReadCommitted], &TASKS[..1]);
    cells.retain(|it| it.key.workload.starts_with("update_"));
    let base: Vec<f64> = cells[0].repetitions.iter().map(|it| it.elapsed_ms).collect();
    for (i, repetition) in cells[1].repetitions.iter_mut().enumerate() {
        repetition.elapsed_ms = base[(i + 1) % base.len()] * 1.01;
    }
    let text = terminal(&results(cells)).replace('\n', " ");
    assert!(
        text.contains("update_single_row and update_random_row differ within the noise ("),
        "{text}"
    );
    assert!(!text.contains("as long as update_random_row"), "{text}");
}
