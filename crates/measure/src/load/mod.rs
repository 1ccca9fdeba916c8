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
    /// No operation begins after this.
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
/// The first of an operation; the other tasks are ended then.
pub async fn run<O: Operation>(
    operations: Vec<O>,
    load: Load,
    watch: &(dyn Fn(Snapshot) + Sync),
) -> Result<Ran> {
    let shared = Shared::new(operations.len(), load);
    let mut tasks = JoinSet::new();
    let pacer = shared.pace.start()?;
    for operation in operations {
        tasks.spawn(work(operation, shared.clone()));
    }
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                Some(ended) => ended.map_err(panicked)??,
                None => break,
            },
            _ = ticks.tick() => watch(shared.snapshot()),
        }
    }
    drop(pacer);
    let elapsed = shared.start.elapsed();
    watch(shared.snapshot());
    let recorder = std::mem::take(&mut *shared.recorder());
    Ok(Ran { repetition: recorder.repetition(elapsed), recorder })
}

/// How often somebody who watches is told.
const TICK: Duration = Duration::from_millis(200);

async fn work<O: Operation>(mut operation: O, shared: Arc<Shared>) -> Result<()> {
    let mut tally = Tally::default();
    let mut done = 0;
    while let Some(turn) = shared.pace.next(done).await {
        let began = Instant::now();
        operation.run(&mut tally).await?;
        shared.recorder().record(turn, began, &mut tally);
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
