//! The schedule of operations.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::thread::set_current_timer_slack;
use tokio::sync::Semaphore;

use super::{Load, Until};
use crate::error::{Error, Result};
use crate::meter::set_aside;

/// A task's turn to do its operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// When it should have begun; `None` in a closed loop.
    pub(super) intended: Option<Instant>,
}

/// Hands out turns.
pub(super) struct Pacer {
    start: Instant,
    tasks: usize,
    load: Load,
    begun: AtomicU64,
    open: Option<Open>,
}

/// An open loop: a thread opens a gate at each moment of the schedule, and a task that passes takes
/// the next moment. Moments are not stored, so a server that falls behind costs no memory.
struct Open {
    gate: Arc<Semaphore>,
    arrivals: Mutex<Arrivals>,
    /// Moments that came too late to be taken.
    missed: AtomicU64,
}

/// How long an open loop works off its backlog, as a multiple of its duration. Operations due and
/// not begun by then are counted, and the run ends: at ten times the capacity it would last ten
/// times as long.
const BACKLOG_MAX: u32 = 2;

impl Pacer {
    pub(super) fn new(tasks: usize, load: Load, start: Instant) -> Pacer {
        let open = load.rate.map(|rate| Open {
            gate: Arc::new(Semaphore::new(0)),
            arrivals: Mutex::new(Arrivals::new(rate, load, tasks)),
            missed: AtomicU64::new(0),
        });
        Pacer { start, tasks, load, begun: AtomicU64::new(0), open }
    }

    /// Starts the schedule of an open loop. It runs until the returned clock is dropped.
    pub(super) fn start(&self) -> Result<Option<Clock>> {
        let (Some(open), Some(rate)) = (&self.open, self.load.rate) else { return Ok(None) };
        let arrivals = Arrivals::new(rate, self.load, self.tasks);
        Clock::start(open.gate.clone(), arrivals, self.start, self.tasks).map(Some)
    }

    /// The next turn of a task that had `done` of them; `None` when it has nothing more to do.
    pub(super) async fn next(&self, done: u64) -> Option<Turn> {
        let Some(open) = &self.open else { return self.may_begin(done).then_some(CLOSED) };
        open.gate.acquire().await.ok()?.forget();
        let mut arrivals = open.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_over() {
            open.missed.fetch_add(arrivals.by_ref().count() as u64, Ordering::Relaxed);
        }
        let arrival = arrivals.next()?;
        Some(Turn { intended: Some(self.start + arrival) })
    }

    /// Whether the time of an open loop, and that for its backlog, has passed.
    fn is_over(&self) -> bool {
        match self.load.until {
            Until::Elapsed(time) => self.start.elapsed() > time.saturating_mul(BACKLOG_MAX),
            Until::Each(_) | Until::Operations(_) => false,
        }
    }

    /// Operations that were due and never begun.
    pub(super) fn missed(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.missed.load(Ordering::Relaxed))
    }

    fn may_begin(&self, done: u64) -> bool {
        let begun = || self.begun.fetch_add(1, Ordering::Relaxed);
        match self.load.until {
            Until::Each(count) => done < count,
            Until::Operations(count) => begun() < count,
            Until::Elapsed(time) => begun() == 0 || self.start.elapsed() < time,
        }
    }

    /// How much is done, from 0 to 1, after this time and so many calls.
    pub(super) fn part(&self, elapsed: Duration, calls: u64) -> f64 {
        let part = match self.load.until {
            Until::Each(_) if self.tasks == 0 => 1.0,
            Until::Each(count) => calls as f64 / (count as f64 * self.tasks as f64),
            Until::Operations(count) => calls as f64 / count as f64,
            Until::Elapsed(time) => {
                let due = self.load.rate.map(|rate| calls as f64 / (rate * time.as_secs_f64()));
                let patience = if due.is_some() { BACKLOG_MAX.into() } else { 1.0 };
                let passed = elapsed.as_secs_f64() / (time.as_secs_f64() * patience);
                due.map_or(passed, |due| due.max(passed))
            }
        };
        part.clamp(0.0, 1.0)
    }
}

const CLOSED: Turn = Turn { intended: None };

/// The moments of an open loop, from its start: the same for the same seed.
struct Arrivals {
    random: Xoshiro256PlusPlus,
    rate: f64,
    last: Duration,
    left: u64,
    before: Duration,
}

impl Arrivals {
    fn new(rate: f64, load: Load, tasks: usize) -> Arrivals {
        let (left, before) = match load.until {
            Until::Each(count) => (count.saturating_mul(tasks as u64), Duration::MAX),
            Until::Operations(count) => (count, Duration::MAX),
            Until::Elapsed(time) => (u64::MAX, time),
        };
        let random = Xoshiro256PlusPlus::seed_from_u64(load.seed);
        Arrivals { random, rate, last: Duration::ZERO, left, before }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    /// Intervals are distributed exponentially, like those of independent callers.
    fn next(&mut self) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        let uniform: f64 = self.random.random();
        let distance = -(1.0 - uniform).ln() / self.rate;
        self.last = self.last.checked_add(Duration::try_from_secs_f64(distance).ok()?)?;
        (self.last < self.before).then_some(self.last)
    }
}

/// The thread that opens the gate. It is a thread because tokio's timers count in milliseconds.
pub(super) struct Clock {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Clock {
    fn start(
        gate: Arc<Semaphore>,
        arrivals: Arrivals,
        start: Instant,
        tasks: usize,
    ) -> Result<Clock> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let tick = move || {
            set_aside();
            if arrivals.rate < RATE_EXACT_MAX {
                // If this fails, it sleeps with the usual slack.
                let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
            }
            for arrival in arrivals {
                if !sleep_until(start + arrival, &stopped) {
                    return;
                }
                gate.add_permits(1);
            }
            // One permit for each task, so that all see that the schedule has ended.
            gate.add_permits(tasks);
        };
        let thread = thread::Builder::new().name("onetrip-schedule".into()).spawn(tick);
        let failed = |error| Error::new(format!("can't start a thread ({error}): try again"));
        Ok(Clock { stop, thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// Up to this rate the thread wakes for each moment. The system adds up to 50 µs of slack to a
/// sleep, to combine wake-ups. Without the slack the median lag at 10,000 operations per second
/// fell from 112 to 70 µs. At 200,000 it rose from 90 to 400 µs, so at high rates one wake-up
/// serves several moments.
const RATE_EXACT_MAX: f64 = 20_000.0;

/// Sleeps until the moment. Returns false if the stop came first.
fn sleep_until(moment: Instant, stopped: &AtomicBool) -> bool {
    loop {
        if stopped.load(Ordering::Relaxed) {
            return false;
        }
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(until: Until) -> Load {
        Load { until, rate: Some(1000.0), seed: 7 }
    }

    #[test]
    fn the_same_seed_is_the_same_schedule() {
        let take = || Arrivals::new(1000.0, load(Until::Operations(100)), 1).collect::<Vec<_>>();
        assert_eq!(take(), take());
        assert_eq!(take().len(), 100);
    }

    #[test]
    fn arrivals_come_at_the_rate_that_was_asked_for() {
        let until = Until::Elapsed(Duration::from_secs(100));
        let count = Arrivals::new(1000.0, load(until), 1).count();
        // 100,000 of a Poisson process: its standard deviation is 316.
        assert!((98_000..102_000).contains(&count), "{count}");
    }

    #[test]
    fn short_schedules_of_many_seeds_have_the_rate_too() {
        let until = Until::Elapsed(Duration::from_secs(2));
        let count = |seed| Arrivals::new(100.0, Load { seed, ..load(until) }, 1).count();
        let mean = (0..100).map(count).sum::<usize>() as f64 / 100.0;
        // 200 in the mean, of which the standard deviation is 1.4.
        assert!((194.0..206.0).contains(&mean), "{mean}");
    }

    #[test]
    fn a_stop_wakes_a_clock_that_sleeps() {
        let never = Load { rate: Some(1e-9), ..load(Until::Operations(1)) };
        let pacer = Pacer::new(1, never, Instant::now());
        drop(pacer.start());
    }

    #[tokio::test]
    async fn a_closed_loop_does_one_operation_however_late_it_begins() {
        let closed = Load { rate: None, ..load(Until::Elapsed(Duration::ZERO)) };
        let pacer = Pacer::new(2, closed, Instant::now());
        assert!(pacer.next(0).await.is_some() && pacer.next(0).await.is_none());
    }

    #[tokio::test]
    async fn a_backlog_that_is_too_long_is_counted_and_left() {
        let time = Duration::from_secs(10);
        let long_ago = Instant::now() - 3 * time;
        let pacer = Pacer::new(1, load(Until::Elapsed(time)), long_ago);
        let clock = pacer.start();
        assert!(pacer.next(0).await.is_none() && clock.is_ok());
        // 10,000 of a Poisson process: its standard deviation is 100.
        assert!((9_500..10_500).contains(&pacer.missed()), "{}", pacer.missed());
    }

    #[tokio::test]
    async fn tasks_that_are_all_busy_take_what_was_due_meanwhile() {
        let pacer = Pacer::new(3, load(Until::Each(10)), Instant::now());
        let clock = pacer.start();
        let mut intended = Vec::new();
        while let Some(turn) = pacer.next(0).await {
            intended.extend(turn.intended);
        }
        assert_eq!(intended.len(), 30);
        assert!(intended.is_sorted() && clock.is_ok());
    }
}
