//! How a run goes, for those who wait: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use onetrip_measure::results::Repetition;
use onetrip_measure::run::{Progress, Watch};

use crate::output::{tell, thousands};

/// Shows it on standard error.
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
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Live { bar: Some(bar) }
    }

    pub(crate) fn say(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => tell(what),
        }
    }

    /// Clears what is half drawn.
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

/// What is measured, its rate and p99 so far, and the time left.
fn message(progress: &Progress<'_>) -> String {
    let snapshot = progress.snapshot;
    let mut message = progress.label.to_owned();
    if snapshot.operations > 0 {
        let rate = snapshot.operations as f64 / snapshot.elapsed.as_secs_f64();
        let p99 = snapshot.p99_us as f64 / 1e3;
        message += &format!(": {}/s, p99 {p99:.1} ms", thousands(rate));
    }
    match progress.left {
        Some(left) => format!("{}, {message}", HumanDuration(left)).replacen(", ", " left, ", 1),
        None => message,
    }
}
