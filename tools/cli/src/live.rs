//! Shows the progress of a run: as a bar on a terminal, as plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use onetrip_measure::results::Repetition;
use onetrip_measure::run::{Progress, Watch};

use crate::output::{tell, thousands};

/// The progress display on standard error.
#[derive(Clone)]
pub(crate) struct Live {
    bar: Option<ProgressBar>,
}

/// Parts of a repetition that move the bar.
const PARTS: f64 = 100.0;

impl Live {
    pub(crate) fn new() -> Live {
        if !std::io::stderr().is_terminal() {
            return Live { bar: None };
        }
        Live { bar: Some(ProgressBar::no_length()) }
    }

    /// Another run begins.
    pub(crate) fn begin(&self) {
        let Some(bar) = &self.bar else { return };
        bar.unset_length();
        bar.reset();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
    }

    pub(crate) fn say(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => tell(what),
        }
    }

    /// Clears the bar.
    pub(crate) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Watch for Live {
    fn doing(&self, what: &str) {
        self.say(what);
    }

    fn progress(&self, progress: &Progress<'_>) {
        let Some(bar) = &self.bar else { return };
        if bar.length().is_none() {
            bar.set_length((progress.of as f64 * PARTS) as u64);
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3} % {wide_msg}") {
                bar.set_style(style);
            }
        }
        let snapshot = progress.snapshot;
        bar.set_position(((progress.done as f64 + snapshot.part) * PARTS) as u64);
        bar.set_message(message(progress));
    }

    fn measured(&self, progress: &Progress<'_>, repetition: &Repetition) {
        if self.bar.is_some() {
            return;
        }
        tell(&format!(
            "{}/{} {}: {} in {:.1} ms, {}/s",
            progress.done + 1,
            progress.of,
            progress.label,
            repetition.operations,
            repetition.elapsed_ms,
            thousands(repetition.rate()),
        ));
    }
}

/// The time left, the rate and p99 so far, and what is measured: that comes last, since a line that
/// is too long for the terminal is cut at its end.
fn message(progress: &Progress<'_>) -> String {
    let snapshot = progress.snapshot;
    let mut parts = Vec::new();
    if let Some(left) = progress.left {
        parts.push(format!("{} left", HumanDuration(left)));
    }
    if snapshot.operations > 0 {
        let rate = snapshot.operations as f64 / snapshot.elapsed.as_secs_f64();
        let p99 = snapshot.p99_us as f64 / 1e3;
        parts.push(format!("{}/s, p99 {p99:.1} ms", thousands(rate)));
    }
    parts.push(progress.label.to_owned());
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use onetrip_measure::load::Snapshot;

    use super::*;

    #[test]
    fn the_figures_stand_before_the_name_since_a_long_line_is_cut_at_its_end() {
        let progress = Progress {
            label: "select_for_update_with_fk, read committed, 100 tasks",
            done: 1,
            of: 2,
            snapshot: Snapshot {
                elapsed: Duration::from_secs(2),
                operations: 4000,
                part: 0.5,
                p99_us: 12_345,
            },
            left: Some(Duration::from_secs(9)),
        };
        assert_eq!(
            message(&progress),
            "9 seconds left, 2,000/s, p99 12.3 ms, \
             select_for_update_with_fk, read committed, 100 tasks"
        );
    }

    #[test]
    fn what_is_not_known_yet_is_not_shown() {
        let progress = Progress {
            label: "transfer",
            done: 0,
            of: 2,
            snapshot: Snapshot::default(),
            left: None,
        };
        assert_eq!(message(&progress), "transfer");
    }
}
