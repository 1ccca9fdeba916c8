//! Ours beside the least that is possible: a program that sends the very bytes that ours has sent,
//! and reads the answers without decoding them.
//!
//! A round of ours is recorded on its way through a relay. The floor sends it again, on a
//! connection of its own to the same server, with as many requests on their way. Its answers have
//! as many bytes as those of ours, or the run fails.

mod line;
mod postgres;
mod recorder;
mod recording;
mod redis;
mod tasks;

pub use postgres::{copy_in, copy_out, one_sync, rows_100k, select_100, sequential};
pub use recorder::Recorder;
pub use recording::{Protocol, Recording};
pub use redis::thousand as redis_1000;

use std::cell::RefCell;

use anyhow::Result;

use crate::measure::{Sample, Spread, timed};
use crate::report::Bars;
use line::{Line, Window};

/// What the peer of these rows is called.
const FLOOR: &str = "a blocking socket";

/// The same with a future for each request. Ours has no bar beside it.
const FLOOR_OF_TASKS: &str = "bare tasks on tokio";

/// What ours may take of the CPU that the floor takes.
const BARS: Bars = Bars { cpu: Some(1.5), time: None };

/// Rounds of each way to refill a window before one is chosen.
const TRIALS: usize = 5;

/// The floor under one row.
struct Floor {
    line: RefCell<Line>,
    recording: Recording,
    window: Window,
    /// Of one round, as ours counts them.
    operations: u64,
}

impl Floor {
    /// The cheaper of two: a request follows each answer, or a quarter of those on their way follow
    /// when as many have been answered.
    async fn under(
        (line, recording): (Line, Recording),
        depth: usize,
        operations: u64,
    ) -> Result<Floor> {
        let line = RefCell::new(line);
        let mut floor = Floor { line, recording, window: Window { depth, step: 1 }, operations };
        if depth > 1 {
            let eager = floor.cost().await?;
            floor.window.step = depth / 4;
            if eager <= floor.cost().await? {
                floor.window.step = 1;
            }
        }
        Ok(floor)
    }

    /// Microseconds of CPU.
    async fn cost(&self) -> Result<f64> {
        let mut costs = Vec::new();
        for trial in 0..=TRIALS {
            let sample = self.round().await?;
            if trial > 0 {
                costs.push(sample.cpu_us());
            }
        }
        Ok(Spread::of(costs).median)
    }

    async fn round(&self) -> Result<Sample> {
        timed(self.operations, async { self.line.borrow_mut().round(&self.recording, self.window) })
            .await
    }

    fn note(&self) -> String {
        let how = match self.window {
            Window { depth: 1, .. } => "one request after the other".to_owned(),
            Window { depth, step: 1 } => format!("{depth} on their way, one for each answer"),
            Window { depth, step } => format!("{depth} on their way, {step} for {step} answers"),
        };
        format!("floor: the bytes of ours from a buffer, reads that block, answers counted; {how}")
    }
}
