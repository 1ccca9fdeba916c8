//! The load: tasks that do an operation again and again, in a closed loop (the next begins when the
//! one before has ended) or an open one (they begin when a schedule says so, whatever the others do).
//!
//! A closed loop finds the capacity. Its latencies hide every stall, since while the server stalls
//! nothing begins that would have to wait (*coordinated omission*). So latencies that are worth
//! something come of an open loop, where each is measured from the moment when the operation should
//! have begun, also if all tasks were busy then.

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

/// What a task does again and again. Each task has one of its own.
pub trait Operation: Send + 'static {
    /// Does it once, and tells the tally what happened. One call is one latency.
    ///
    /// # Errors
    /// What makes the whole run pointless: a lost connection, a table that isn't there. What is part
    /// of the measurement goes into the tally.
    fn run(&mut self, tally: &mut Tally) -> impl Future<Output = Result<()>> + Send;
}

/// How long a repetition is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// So many operations of each task; with a rate, so many times as many as there are tasks.
    Each(u64),
    /// So many operations of all tasks together.
    Operations(u64),
    /// No operation begins after this but the very first, since a repetition without any says nothing
    /// (a busy machine may take that long to start a task). With a rate: none should have begun after this; those that were
    /// late still begin, since without them the longest latencies would be missing.
    Elapsed(Duration),
}

/// How the tasks are driven.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How long.
    pub until: Until,
    /// Operations per second of all tasks together, at random distances as of independent callers
    /// (a Poisson process); None is a closed loop.
    pub rate: Option<f64>,
    /// Of the distances.
    pub seed: u64,
}

/// How far a repetition is, for those who watch.
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

/// What a repetition came to. What is read of client and server meanwhile is not in it.
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
/// The first of an operation; the other tasks have been ended then, and what they held is free.
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

/// Until the last task has ended, or the first has failed.
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

/// How often somebody who watches is told.
const TICK: Duration = Duration::from_millis(200);

async fn work<O: Operation>(mut operation: O, shared: Arc<Shared>) -> Result<()> {
    let mut tally = Tally::default();
    let mut done = 0;
    while let Some(turn) = shared.pace.next(done).await {
        let began = Instant::now();
        operation.run(&mut tally).await?;
        // Before the lock, for which it may have to wait.
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
