//! What a script gains from pipelining: its awaited form compared with its pipelined form at the
//! longest round trip.

use super::format::{self, duration_ms, times};
use super::grid::{self, Column, Dimension, Grid, Row, needed, row_label, varying};
use super::headlines;
use super::measure::Measure;
use super::plots::View;
use super::tables::cells_of;
use crate::results::{Cell, Key, Preset, Results};
use crate::script::Form;

/// A script at one setting, in the forms in which it was measured.
struct Answer<'a> {
    /// The script, with the parameters that distinguish it from others.
    name: String,
    /// The round trip, as measured.
    rtt_ms: f64,
    written: &'a Cell,
    pipelined: Option<&'a Cell>,
}

/// The result for each script, in sentences.
pub(super) fn told(results: &Results) -> Vec<String> {
    let answers = answers(results);
    let said = |it: &Answer| Some(format!("{}.{}{}", it.sentence()?, it.failed(), it.waits()));
    answers.iter().filter_map(said).collect()
}

/// The same as charts: for scripts in two forms.
pub(super) fn views(results: &Results) -> Vec<View> {
    answers(results).iter().filter_map(Answer::view).collect()
}

/// One for each script that was measured as it is written: at the longest round trip, which has the
/// least noise, and with the fewest tasks, which wait least for each other.
fn answers(results: &Results) -> Vec<Answer<'_>> {
    let cells = cells_of(results, Preset::Script);
    let written = || cells.iter().copied().filter(|it| !is_pipelined(it));
    let mut workloads: Vec<&str> = Vec::new();
    for cell in written() {
        if !workloads.contains(&cell.key.workload.as_str()) {
            workloads.push(&cell.key.workload);
        }
    }
    let of = |workload: &str| {
        let mut own: Vec<&Cell> = written().filter(|it| it.key.workload == workload).collect();
        own.sort_by(|a, b| {
            let farthest = b.key.rtt_added_ms.total_cmp(&a.key.rtt_added_ms);
            farthest.then(a.key.tasks.cmp(&b.key.tasks))
        });
        let best = *own.first()?;
        Some(Answer {
            name: name(&cells, best),
            rtt_ms: grid::rtt_ms(&best.key, results.lines_of(Preset::Script)),
            written: best,
            pipelined: cells.iter().copied().find(|it| is_form_of(best, it)),
        })
    };
    workloads.into_iter().filter_map(of).collect()
}

fn is_pipelined(cell: &Cell) -> bool {
    cell.key.mode.as_deref().is_some_and(|it| it.ends_with(Form::Pipelined.name()))
}

fn is_form_of(written: &Cell, other: &Cell) -> bool {
    let mode = written.key.mode.as_deref().unwrap_or_default();
    let mode = mode.replace(Form::AsWritten.name(), Form::Pipelined.name());
    let key = Key { mode: Some(mode), ..written.key.clone() };
    is_pipelined(other) && other.key == key
}

/// The script and what was varied beside its form and the round trip.
fn name(cells: &[&Cell], cell: &Cell) -> String {
    let own: Vec<&Cell> =
        cells.iter().copied().filter(|it| it.key.workload == cell.key.workload).collect();
    let rest =
        |it: &Dimension| !matches!(it, Dimension::Workload | Dimension::Mode | Dimension::Rtt);
    let keys: Vec<&Key> = own.iter().map(|it| &it.key).collect();
    let varied = needed(&keys, varying(&own).into_iter().filter(rest).collect(), None);
    row_label(&[&[Dimension::Workload], &varied[..]].concat(), &cell.key)
}

impl Answer<'_> {
    /// `checkout: 5.2 ms × 4 trips = 20.8 ms on the way, 21.4 ms measured; as one pipeline 5.5 ms`
    /// and how much faster that is. `None` if no operation succeeded.
    fn sentence(&self) -> Option<String> {
        let took = ms(self.written)?;
        let mut text = match trips(self.written) {
            Some(trips) if self.rtt_ms * trips > took * RTT_TOLERANCE => format!(
                "{}: {}, {} measured, which is less than {} × {}, the round trip when the run began",
                self.name,
                counted(trips),
                duration_ms(took),
                format::coarse(trips),
                duration_ms(self.rtt_ms),
            ),
            Some(trips) => format!(
                "{}: {} × {} = {} on the way, {} measured",
                self.name,
                duration_ms(self.trip_ms()),
                counted(trips),
                duration_ms(self.trip_ms() * trips),
                duration_ms(took),
            ),
            None => format!("{}: {}", self.name, duration_ms(took)),
        };
        let compared =
            self.pipelined.filter(|it| ![self.written, *it].into_iter().any(failed_often));
        if let Some(gain) = compared.and_then(|it| self.gain(it)) {
            text.push_str(&format!("; {gain}"));
        }
        Some(text)
    }

    /// How long a trip took: no longer than the whole run shows, since the line may have been slower
    /// when its round trip was measured.
    fn trip_ms(&self) -> f64 {
        let shown = ms(self.written).zip(trips(self.written)).map(|(took, trips)| took / trips);
        shown.map_or(self.rtt_ms, |it| it.min(self.rtt_ms))
    }

    fn gain(&self, pipelined: &Cell) -> Option<String> {
        let how = match trips(pipelined) {
            Some(trips) if is_one(trips) => "as one pipeline".to_owned(),
            Some(trips) => format!("pipelined, in {},", counted(trips)),
            None => "pipelined".to_owned(),
        };
        let took = duration_ms(ms(pipelined)?);
        let ratio = Measure::Latency.of(self.written)?.ratio(&Measure::Latency.of(pipelined)?)?;
        Some(match ratio.is_noise() {
            true => format!("{how} {took}; the two {}", headlines::differ(&ratio, "")),
            false => format!("{how} {took}, {} as fast", times(ratio.median)),
        })
    }

    /// Which forms failed so often that their times say nothing: sentences behind the first.
    fn failed(&self) -> String {
        let forms = [Some(self.written), self.pipelined].into_iter().flatten();
        let each = forms.filter(|it| failed_often(it)).map(|it| {
            let mode = format::capital(it.key.mode.as_deref().unwrap_or(Form::AsWritten.name()));
            let errors = it.errors.values().sum::<u64>();
            let all = format::count(errors + it.operations());
            let (errors, codes) = (format::count(errors), format::codes(&it.errors));
            format!(" {mode}, {errors} of {all} runs failed ({codes}), so the times say nothing.")
        });
        each.collect()
    }

    /// The values that the pipelined form has to wait for, as further sentences.
    fn waits(&self) -> String {
        let awaited = self.pipelined.map_or(&[][..], |it| &it.awaited);
        let shown = awaited.iter().take(WAITS_SHOWN);
        let each =
            shown.map(|it| format!(" {} waits for {}.", format::capital(&it.place), it.value));
        let rest = awaited.len().saturating_sub(WAITS_SHOWN);
        let rest = (rest > 0).then(|| match rest {
            1 => " So does 1 more place (results.json has them).".to_owned(),
            _ => format!(" So do {rest} more places (results.json has them)."),
        });
        each.chain(rest).collect()
    }

    fn view(&self) -> Option<View> {
        let pipelined = self.pipelined?;
        let row = |cell: &Cell| {
            let mode = cell.key.mode.clone().unwrap_or_default();
            let trips = trips(cell).map_or(String::new(), |it| format!(": {}", counted(it)));
            let workload = cell.key.workload.clone();
            Some(Row {
                label: mode + &trips,
                workload,
                figures: vec![Some(Measure::Latency.of(cell)?)],
            })
        };
        let grid = Grid {
            sheet: Vec::new(),
            what: Measure::Latency.heading(Some(self.written.unit)),
            is_time: true,
            across: "round trip",
            corner: "form".to_owned(),
            columns: vec![Column { label: Dimension::Rtt.label(&self.written.key), at: 0.0 }],
            rows: vec![row(self.written)?, row(pipelined)?],
        };
        let blocks = [self.written, pipelined].map(|it| trips(it).unwrap_or(0.0));
        let view = View::blocks(self.sentence()?, grid, self.trip_ms(), &blocks);
        let waits = self.waits();
        Some(
            view.with_note((!waits.is_empty()).then_some(waits.trim_start()))
                .with_note(Some(UNREAD)),
        )
    }
}

/// How many of them are named in the sentence.
const WAITS_SHOWN: usize = 4;

const UNREAD: &str = "A result that the script does not read by \\gset is not waited for.";

/// Whether more than one of a hundred runs failed. A time per operation is then too long, since what
/// failed took time too, and a run that fails ends early.
fn failed_often(cell: &Cell) -> bool {
    let errors = cell.errors.values().sum::<u64>();
    errors * 100 > errors + cell.operations()
}

fn ms(cell: &Cell) -> Option<f64> {
    Some(Measure::Latency.of(cell)?.spread.median)
}

fn trips(cell: &Cell) -> Option<f64> {
    Some(cell.trips_per_operation()?.median)
}

/// Up to this many times what a trip can have taken, a round trip is that of the run, but for noise.
const RTT_TOLERANCE: f64 = 1.05;

fn is_one(trips: f64) -> bool {
    (trips - 1.0).abs() < 0.005
}

fn counted(trips: f64) -> String {
    format!("{} trip{}", format::coarse(trips), if is_one(trips) { "" } else { "s" })
}
