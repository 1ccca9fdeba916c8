//! Measuring in turns: CPU and wall time per operation, ratios of pairs, their median and spread.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::progress::Progress;
use crate::{Plan, Side};

/// What a round cost.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub wall: Duration,
    /// User and system time of the client's process.
    pub cpu: Duration,
    pub operations: u64,
    /// Of everything that was read: both sides must have read the same.
    pub checksum: u64,
}

impl Sample {
    /// Microseconds of wall time per operation.
    pub fn wall_us(&self) -> f64 {
        self.wall.as_secs_f64() * 1e6 / self.operations as f64
    }

    /// Operations per second of wall time.
    pub fn rate(&self) -> f64 {
        1e6 / self.wall_us()
    }

    /// Microseconds of CPU per operation.
    pub fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.operations as f64
    }
}

/// Times work of this process that returns its checksum.
pub async fn timed(operations: u64, work: impl Future<Output = Result<u64>>) -> Result<Sample> {
    let (wall, cpu) = (Instant::now(), cpu_time()?);
    let checksum = work.await?;
    Ok(Sample { wall: wall.elapsed(), cpu: cpu_time()? - cpu, operations, checksum })
}

/// User and system time of this process so far.
fn cpu_time() -> Result<Duration> {
    cpu_time_of(UsageWho::RUSAGE_SELF)
}

/// User and system time of the processes that this one has started and seen end.
pub fn cpu_time_of_children() -> Result<Duration> {
    cpu_time_of(UsageWho::RUSAGE_CHILDREN)
}

fn cpu_time_of(who: UsageWho) -> Result<Duration> {
    let usage = getrusage(who)?;
    let (user, system) = (usage.user_time(), usage.system_time());
    let micros = user.num_microseconds() + system.num_microseconds();
    Ok(Duration::from_micros(micros.unsigned_abs()))
}

/// Rounds of both sides, taken in turns.
#[derive(Debug, Default)]
pub struct Pairs {
    pub ours: Vec<Sample>,
    pub peer: Vec<Sample>,
}

impl Pairs {
    /// Median of ours, median of the peer's, and the ratio of each pair.
    pub fn compare(&self, measure: fn(&Sample) -> f64) -> (f64, f64, Spread) {
        let median = |samples: &[Sample]| Spread::of(samples.iter().map(measure)).median;
        let ratios = self.ours.iter().zip(&self.peer).map(|(a, b)| measure(a) / measure(b));
        (median(&self.ours), median(&self.peer), Spread::of(ratios))
    }
}

/// Runs both sides in turns (ours, peer, peer, ours, …), so that a change in the machine's mood
/// meets both, after one round each that does not count.
pub async fn paired(
    plan: Plan,
    progress: &Progress,
    mut ours: impl AsyncFnMut(usize) -> Result<Sample>,
    mut peer: impl AsyncFnMut(usize) -> Result<Sample>,
) -> Result<Pairs> {
    let mut pairs = Pairs::default();
    for round in 0..=plan.rounds {
        let (a, b) = match plan.side {
            Side::Ours => (ours(round).await?, None),
            Side::Peer => (peer(round).await?, None),
            Side::Both if round % 2 == 1 => (ours(round).await?, Some(peer(round).await?)),
            Side::Both => {
                let b = peer(round).await?;
                (ours(round).await?, Some(b))
            }
        };
        progress.tick(round, plan.rounds);
        let b = b.unwrap_or(a);
        if a.checksum != b.checksum {
            bail!("the two sides did not read the same values");
        }
        if round > 0 {
            pairs.ours.push(a);
            pairs.peer.push(b);
        }
    }
    Ok(pairs)
}

/// A median and its quartiles.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        Spread {
            low: quantile(&values, 0.25),
            median: quantile(&values, 0.5),
            high: quantile(&values, 0.75),
        }
    }

    pub fn map(self, f: impl Fn(f64) -> f64) -> Spread {
        Spread { low: f(self.low), median: f(self.median), high: f(self.high) }
    }
}

/// Of sorted values, interpolated between the neighbours; NaN of nothing.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = q * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * place.fract()
}
