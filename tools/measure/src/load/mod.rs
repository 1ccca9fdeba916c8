//! The load: tasks that repeat an operation, in a closed loop (the next begins when the previous
//! one has ended) or an open loop (each begins by a schedule, independent of the others).
//!
//! A closed loop finds the capacity. Its latencies hide stalls, because while the server stalls no
//! operation begins that would have to wait (*coordinated omission*). Meaningful latencies need an
//! open loop: each is measured from the moment when the operation should have begun, even if all
//! tasks were busy then.

mod recorder;
mod schedule;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

use crate::error::{Error, Result};
use crate::results::Repetition;
pub use recorder::{Codes, Distribution, Recorder, Tally};
use schedule::Pacer;

/// The operation that a task repeats. Each task has its own.
pub trait Operation: Send + 'static {
    /// Does it once, and records in the tally what happened. One call is one latency.
    ///
    /// # Errors
    /// An error that ends the whole run, such as a lost connection or a missing table. Errors that
    /// are part of the measurement go into the tally.
    fn run(&mut self, tally: &mut Tally) -> impl Future<Output = Result<()>> + Send;
}

/// How long a repetition is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// This many operations per task; with a rate, this number times the number of tasks in all.
    Each(u64),
    /// So many operations of all tasks together.
    Operations(u64),
    /// No operation begins after this time, except the very first: a busy machine may take that
    /// long to start a task, and a repetition without operations says nothing. With a rate,
    /// operations due before this time begin even if they are late; without them the longest
    /// latencies would be missing.
    Elapsed(Duration),
}

/// How the tasks are driven and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How long.
    pub until: Until,
    /// Operations per second of all tasks together, at random intervals like those of independent
    /// callers (a Poisson process). `None` is a closed loop.
    pub rate: Option<f64>,
    /// Seed of the intervals.
    pub seed: u64,
}

/// The progress of a repetition.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Time since it began.
    pub elapsed: Duration,
    /// Operations so far.
    pub operations: u64,
    /// How much of it is done, from 0 to 1.
    pub part: f64,
    /// The 99th percentile so far.
    pub p99_us: u64,
}

/// The outcome of a repetition, without the readings of the meters.
#[derive(Debug)]
pub struct Ran {
    /// Time and counts.
    pub repetition: Repetition,
    /// Latencies and codes.
    pub recorder: Recorder,
}

/// Runs one task for each operation, and returns when the last one has ended.
///
/// Dropping it ends the tasks at their next await.
///
/// # Errors
/// The first error of an operation. By then the other tasks have been ended, and their resources
/// freed.
pub async fn run<O: Operation>(
    operations: Vec<O>,
    load: Load,
    watch: &(dyn Fn(Snapshot) + Sync),
) -> Result<Ran> {
    let shared = Shared::new(operations.len(), load);
    let mut tasks = JoinSet::new();
    let clock = shared.pace.start()?;
    for operation in operations {
        tasks.spawn(work(operation, shared.clone()));
    }
    let ended = watched(&mut tasks, &shared, watch).await;
    let elapsed = shared.start.elapsed();
    drop(clock);
    tasks.shutdown().await;
    ended?;
    watch(shared.snapshot());
    let mut recorder = std::mem::take(&mut *shared.recorder());
    recorder.never_begun(shared.pace.missed());
    Ok(Ran { repetition: recorder.repetition(elapsed), recorder })
}

/// Waits until the last task has ended or one has failed.
async fn watched(
    tasks: &mut JoinSet<Result<()>>,
    shared: &Shared,
    watch: &(dyn Fn(Snapshot) + Sync),
) -> Result<()> {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                Some(ended) => ended.map_err(panicked)??,
                None => return Ok(()),
            },
            _ = ticks.tick() => watch(shared.snapshot()),
        }
    }
}

/// How often the progress is reported.
const TICK: Duration = Duration::from_millis(200);

async fn work<O: Operation>(mut operation: O, shared: Arc<Shared>) -> Result<()> {
    let mut tally = Tally::default();
    let mut done = 0;
    while let Some(turn) = shared.pace.next(done).await {
        let began = Instant::now();
        operation.run(&mut tally).await?;
        // Read before taking the lock, for which it may have to wait.
        let ended = Instant::now();
        shared.recorder().record(turn, began..ended, &mut tally);
        done += 1;
    }
    Ok(())
}

fn panicked(error: JoinError) -> Error {
    Error::new(format!("an operation ended in a panic ({error}): this is a defect of onetrip"))
}

struct Shared {
    start: Instant,
    pace: Pacer,
    recorder: Mutex<Recorder>,
}

impl Shared {
    fn new(tasks: usize, load: Load) -> Arc<Shared> {
        let start = Instant::now();
        let pace = Pacer::new(tasks, load, start);
        Arc::new(Shared { start, pace, recorder: Mutex::default() })
    }

    /// Held for an addition or two only.
    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot(&self) -> Snapshot {
        let recorder = self.recorder();
        let (elapsed, calls) = (self.start.elapsed(), recorder.calls());
        Snapshot {
            elapsed,
            operations: recorder.operations(),
            part: self.pace.part(elapsed, calls),
            p99_us: recorder.latency.quantile_us(0.99),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Waits for ever, but for the one that fails or panics; counts those that are there.
    struct Waiting {
        alive: Arc<AtomicUsize>,
        end: Option<fn() -> Result<()>>,
    }

    impl Drop for Waiting {
        fn drop(&mut self) {
            self.alive.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl Operation for Waiting {
        async fn run(&mut self, _: &mut Tally) -> Result<()> {
            match self.end {
                Some(end) => end(),
                None => std::future::pending().await,
            }
        }
    }

    /// Runs 20 of them, of which the last ends the run, and returns its error.
    async fn ended_by(end: fn() -> Result<()>, rate: Option<f64>) -> String {
        let alive = Arc::new(AtomicUsize::new(20));
        let each = |n| Waiting { alive: alive.clone(), end: (n == 19).then_some(end) };
        let load = Load { until: Until::Elapsed(Duration::MAX), rate, seed: 1 };
        let error = run((0..20).map(each).collect(), load, &|_| ()).await.unwrap_err();
        assert_eq!(alive.load(Ordering::SeqCst), 0, "operations are left");
        error.to_string()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_first_error_ends_all_tasks_before_it_is_returned() {
        for rate in [None, Some(10_000.0)] {
            let error = ended_by(|| Err(Error::new("no table")), rate).await;
            assert_eq!(error, "no table");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_panic_of_one_task_ends_all_and_is_an_error() {
        for rate in [None, Some(10_000.0)] {
            let error = ended_by(|| panic!("a test's own"), rate).await;
            assert!(error.contains("panic"), "{error}");
        }
    }

    #[tokio::test]
    async fn no_task_at_all_is_over_at_once() {
        let load = Load { until: Until::Each(u64::MAX), rate: None, seed: 1 };
        let last = Mutex::new(Snapshot::default());
        let watch = |snapshot| *last.lock().unwrap() = snapshot;
        let ran = run(Vec::<Waiting>::new(), load, &watch).await.unwrap();
        assert_eq!((ran.repetition.operations, last.lock().unwrap().part), (0, 1.0));
    }
}
