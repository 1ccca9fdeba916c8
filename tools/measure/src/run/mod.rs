//! A run: every cell of a plan, in turns, on one server.

mod found;
mod meters;
mod plan;
mod progress;
mod recording;
mod redis;
mod runner;
mod stage;
mod turn;

use std::pin::pin;
use std::time::Instant;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::redis as on_redis;
use crate::results::{ClientSide, Results, SCHEMA, SCHEMA_VERSION, Server};
use crate::target::Target;
pub use plan::{Plan, Planned, Work};
pub use progress::{Progress, Watch};
use redis::RedisStage;
use runner::Runner;
use stage::Stage;

/// The outcome of a run.
#[derive(Debug)]
pub struct Finished {
    /// The results, possibly of a run that ended early.
    pub results: Results,
    /// The failure that ended it early, if any, and what could not be removed from the server.
    pub failure: Option<Error>,
}

/// Measures a whole plan, and leaves nothing on the server. When `stop` resolves with a reason, it
/// ends with the results so far.
///
/// # Errors
/// What ended it before anything was measured, and what could not be removed from the server.
pub async fn run(
    target: &Target,
    plan: &Plan,
    watch: &dyn Watch,
    stop: impl Future<Output = String>,
) -> Result<Finished> {
    whole(Runner::begin(target, plan, watch), plan, stop).await
}

/// The same on a Redis or Valkey: all cells of the plan are of its preset.
///
/// # Errors
/// As [`run`].
pub async fn run_on_redis(
    target: &on_redis::Target,
    plan: &Plan,
    watch: &dyn Watch,
    stop: impl Future<Output = String>,
) -> Result<Finished> {
    whole(RedisStage::begin(target, plan, watch), plan, stop).await
}

/// Runs the plan, and then removes everything from the server.
async fn whole<S: Stage>(
    begin: impl Future<Output = Result<S>>,
    plan: &Plan,
    stop: impl Future<Output = String>,
) -> Result<Finished> {
    let (started, clock) = (Timestamp::now(), Instant::now());
    let mut stop = pin!(stop);
    let mut stage = tokio::select! {
        begun = begin => begun?,
        reason = &mut stop => return Err(Error::new(reason)),
    };
    let ended = tokio::select! {
        ended = stage.work() => ended.map(|()| None),
        reason = stop => Ok(Some(reason)),
    };
    let (lines, cells) = stage.take();
    let server = stage.server();
    let left = stage.end().await.err();
    let (stopped, failure) = match ended {
        Ok(None) => (None, left),
        Ok(Some(stopped)) => {
            let failure = left.map(|left| joined(Error::new(&stopped), Some(left)));
            (Some(stopped), failure)
        }
        Err(error) => (Some(error.to_string()), Some(joined(error, left))),
    };
    if let (true, Some(stopped)) = (cells.is_empty(), &stopped) {
        return Err(failure.unwrap_or_else(|| Error::new(stopped)));
    }
    let elapsed_s = clock.elapsed().as_secs_f64();
    let results = Results { elapsed_s, stopped, lines, cells, ..results(plan, server, started) };
    Ok(Finished { results, failure })
}

/// Without what was found.
fn results(plan: &Plan, server: Server, started: Timestamp) -> Results {
    Results {
        schema: SCHEMA.to_owned(),
        schema_version: SCHEMA_VERSION,
        onetrip_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: started.round(jiff::Unit::Second).unwrap_or(started).to_string(),
        elapsed_s: 0.0,
        stopped: None,
        command: plan.command.clone(),
        seed: plan.seed,
        server,
        client: client_side(plan.threads),
        lines: Vec::new(),
        beside: None,
        profiled: None,
        cells: Vec::new(),
    }
}

fn joined(first: Error, second: Option<Error>) -> Error {
    match second {
        Some(second) => Error::new(format!("{first}; {second}")),
        None => first,
    }
}

fn client_side(threads: usize) -> ClientSide {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    ClientSide { cpus, threads, system }
}
