//! The outcomes of operations: how long they took, and the SQLSTATEs of those that failed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

use super::schedule::Turn;
use crate::results::{Latency, Repetition};

/// How often, by SQLSTATE.
pub type Codes = BTreeMap<String, u64>;

/// What one call of an operation reports.
#[derive(Debug)]
pub struct Tally {
    operations: u64,
    failed: bool,
    events: Vec<(Event, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Retry,
    Error,
    Expected,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { operations: 1, failed: false, events: Vec::new() }
    }
}

impl Tally {
    /// The call does this many operations at once: statements of a pipeline, rows of a batch.
    /// Default: 1.
    pub fn operations(&mut self, operations: u64) {
        self.operations = operations;
    }

    /// An attempt ended with this SQLSTATE and is tried again.
    pub fn retried(&mut self, code: &str) {
        self.events.push((Event::Retry, code.to_owned()));
    }

    /// The call failed, and was not meant to: none of its operations counts, nor does its time.
    pub fn failed(&mut self, code: &str) {
        self.failed = true;
        self.events.push((Event::Error, code.to_owned()));
    }

    /// The call failed as it was meant to.
    pub fn failed_as_expected(&mut self, code: &str) {
        self.events.push((Event::Expected, code.to_owned()));
    }
}

/// Stands in for a SQLSTATE if an operation never began.
const NEVER_BEGUN: &str = "never begun";

/// The outcomes of many operations.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// How long calls took, of those that did not fail.
    pub latency: Distribution,
    /// How late they began: of an open loop only.
    pub lag: Distribution,
    /// Attempts that were tried again.
    pub retries: Codes,
    /// Calls that failed.
    pub errors: Codes,
    /// Calls that failed as they were meant to.
    pub expected_errors: Codes,
    operations: u64,
    calls: u64,
}

impl Recorder {
    /// One call has ended. The tally is empty again then, but for the operations of a call.
    pub(super) fn record(&mut self, turn: Turn, ran: Range<Instant>, tally: &mut Tally) {
        self.calls += 1;
        for (event, code) in tally.events.drain(..) {
            let codes = match event {
                Event::Retry => &mut self.retries,
                Event::Error => &mut self.errors,
                Event::Expected => &mut self.expected_errors,
            };
            *codes.entry(code).or_default() += 1;
        }
        if let Some(intended) = turn.intended {
            self.lag.record(ran.start.saturating_duration_since(intended));
        }
        if !std::mem::take(&mut tally.failed) {
            self.operations += tally.operations;
            let since = turn.intended.unwrap_or(ran.start);
            self.latency.record(ran.end.saturating_duration_since(since));
        }
    }

    /// This many operations were due and never begun.
    pub(super) fn never_begun(&mut self, count: u64) {
        if count > 0 {
            *self.errors.entry(NEVER_BEGUN.to_owned()).or_default() += count;
        }
    }

    /// Adds what another one has.
    pub fn add(&mut self, other: &Recorder) {
        self.latency.add(&other.latency);
        self.lag.add(&other.lag);
        add_codes(&mut self.retries, &other.retries);
        add_codes(&mut self.errors, &other.errors);
        add_codes(&mut self.expected_errors, &other.expected_errors);
        self.operations += other.operations;
        self.calls += other.calls;
    }

    /// Operations that ended well, or as they were meant to.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    pub(super) fn repetition(&self, elapsed: Duration) -> Repetition {
        Repetition {
            elapsed_ms: elapsed.as_secs_f64() * 1e3,
            operations: self.operations,
            retries: self.retries.values().sum(),
            errors: self.errors.values().sum(),
            p50_us: self.latency.median_us(),
            ..Repetition::default()
        }
    }
}

fn add_codes(to: &mut Codes, from: &Codes) {
    for (code, count) in from {
        *to.entry(code.clone()).or_default() += count;
    }
}

/// A distribution of times, in microseconds and with three significant digits.
#[derive(Clone, Debug)]
pub struct Distribution(Histogram<u64>);

/// Three digits: a tenth of a percent, in some 100 KiB up to a minute.
const DIGITS: u8 = 3;

const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for Distribution {
    fn default() -> Distribution {
        // It grows with the longest time; the arguments of a new one are right by definition.
        Distribution(Histogram::new(DIGITS).expect("three digits are allowed"))
    }
}

impl Distribution {
    /// Adds a time: at least a microsecond, at most a day.
    pub fn record(&mut self, time: Duration) {
        let micros = time.min(LONGEST).as_micros().max(1) as u64;
        self.0.record(micros).expect("a histogram grows to a day");
    }

    fn add(&mut self, other: &Distribution) {
        self.0 += &other.0;
    }

    fn median_us(&self) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.quantile_us(0.5))
    }

    /// The time within which this fraction of all ended; 0 if there are none.
    pub fn quantile_us(&self, part: f64) -> u64 {
        self.0.value_at_quantile(part)
    }

    /// The distribution as the results have it; `None` if it is empty.
    pub fn latency(&self) -> Option<Latency> {
        if self.0.is_empty() {
            return None;
        }
        Some(Latency {
            count: self.0.len(),
            mean_us: self.0.mean(),
            p50_us: self.quantile_us(0.5),
            p90_us: self.quantile_us(0.9),
            p99_us: self.quantile_us(0.99),
            p999_us: self.quantile_us(0.999),
            max_us: self.0.max(),
            histogram: self.encoded(),
        })
    }

    fn encoded(&self) -> String {
        let mut bytes = Vec::new();
        // Writing to memory can't fail.
        let written = V2DeflateSerializer::new().serialize(&self.0, &mut bytes);
        written.expect("writing to memory can't fail");
        STANDARD.encode(bytes)
    }
}

impl Latency {
    /// The whole distribution; `None` if the text is not one.
    pub fn decoded(&self) -> Option<Histogram<u64>> {
        let bytes = STANDARD.decode(&self.histogram).ok()?;
        hdrhistogram::serialization::Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn turn() -> Turn {
        Turn { intended: None }
    }

    fn just_now() -> Range<Instant> {
        let now = Instant::now();
        now..now
    }

    #[test]
    fn what_comes_after_the_end_of_a_call_is_none_of_its_latency() {
        let mut recorder = Recorder::default();
        let ended = Instant::now() - Duration::from_secs(5);
        let ran = ended - Duration::from_millis(1)..ended;
        recorder.record(turn(), ran, &mut Tally::default());
        assert_eq!(recorder.latency.latency().unwrap().max_us, 1_000);
    }

    #[test]
    fn a_failed_call_has_no_latency_and_no_operation() {
        let mut recorder = Recorder::default();
        let mut tally = Tally::default();
        tally.failed("42P01");
        recorder.record(turn(), just_now(), &mut tally);
        recorder.record(turn(), just_now(), &mut tally);
        assert_eq!((recorder.operations(), recorder.calls()), (1, 2));
        assert_eq!(recorder.errors, Codes::from([("42P01".to_owned(), 1)]));
        assert_eq!(recorder.latency.latency().unwrap().count, 1);
    }

    #[test]
    fn an_open_loop_measures_from_when_the_call_should_have_begun() {
        let mut recorder = Recorder::default();
        let began = Instant::now();
        let turn = Turn { intended: Some(began - Duration::from_secs(2)) };
        recorder.record(turn, began..began, &mut Tally::default());
        let latency = recorder.latency.latency().unwrap();
        assert!((1_998_000..2_002_000).contains(&latency.p50_us), "{latency:?}");
        assert!(recorder.lag.latency().unwrap().p50_us >= 1_998_000);
    }

    #[test]
    fn a_histogram_is_the_same_after_it_was_written() {
        let mut distribution = Distribution::default();
        for micros in 1..1000 {
            distribution.record(Duration::from_micros(micros * micros));
        }
        let latency = distribution.latency().unwrap();
        assert_eq!(latency.decoded().unwrap(), distribution.0);
        assert_eq!(latency.count, 999);
        let exact = 899.0 * 899.0;
        assert!((latency.p90_us as f64 / exact - 1.0).abs() < 0.005, "{latency:?}");
    }

    #[test]
    fn what_two_recorders_have_adds_up() {
        let mut tally = Tally::default();
        tally.operations(10);
        tally.retried("40001");
        let mut one = Recorder::default();
        one.record(turn(), just_now(), &mut tally);
        let mut both = one.clone();
        both.add(&one);
        assert_eq!((both.operations(), both.retries["40001"]), (20, 2));
    }
}
