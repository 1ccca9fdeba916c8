//! `onetrip demo`: a small run of what `onetrip bench` measures, in under a minute. It shows a
//! money transfer over a slow link, point selects by depth, and updates with and without
//! contention. If Redis or Valkey is installed, it also shows updates over the slow link, GETs by
//! depth, and 10,000 PINGs. It ends with a program under `onetrip profile`.

mod plan;
mod profile;
mod redis;
mod story;

use std::path::PathBuf;

use clap::Args;
use onetrip_measure::report;
use onetrip_measure::run::Finished;

use crate::measuring::{Measuring, ended};
use crate::output::{End, print};
use crate::values::milliseconds;

/// Show on a real PostgreSQL server what round trips cost, and what pipelining saves. If Redis or
/// Valkey is installed, the demo shows that too.
///
/// The files of the report are written at the end; report.html has the charts, and transfer.svg the
/// picture of the transfers.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true)]
pub(crate) struct DemoArgs {
    /// Round trip to add for the transfer and the updates, in milliseconds, half of it each way
    /// [default: 100; 0 with --url].
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    rtt: Option<f64>,

    /// How often everything is measured, in turns; the median is shown.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,

    /// Your own PostgreSQL, as a URL or key-value string, instead of private servers. The demo
    /// works in a schema of its own, onetrip_bench, and drops it at the end. Other users can see a
    /// URL in the list of processes, so give the password in PGPASSWORD or in the password file
    /// (PGPASSFILE, ~/.pgpass).
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// Drop the schema onetrip_bench if the server already has one.
    #[arg(long)]
    force: bool,

    /// The directory for report.html and the figures.
    #[arg(long, value_name = "DIR", default_value = "onetrip-demo", overrides_with = "out")]
    out: PathBuf,
}

/// Runs the demo.
///
/// # Errors
/// One line: what failed, where, and what to do. Or standard output was closed.
pub(crate) fn run(args: &DemoArgs) -> Result<(), End> {
    report::check_writable(&args.out).map_err(|error| format!("--out: {error}"))?;
    let is_redis_wanted = redis::is_wanted(args)?;
    let measuring = Measuring::begin()?;
    let mut finished = measuring.postgres(&plan::plan(args), args.url.as_deref())?;
    if is_redis_wanted && finished.results.stopped.is_none() {
        finished = with_redis(finished, measuring.redis(&redis::plan(args), None));
    }
    let written = report::write_all(&finished.results, &args.out).map_err(|it| it.to_string())?;
    print(&story::tell(&finished.results))?;
    if args.url.is_none() && finished.results.stopped.is_none() {
        let rtt_ms = args.rtt.map_or(profile::RTT_MS, |it| it.min(profile::RTT_MS));
        let profiled = measuring.beside("profiling a program", profile::tell(rtt_ms))?;
        print(&format!("\n{}", profile::told(&profiled)))?;
        // Anew, with this part: the other files were written before it, however it would end.
        finished.results.profiled = Some(profiled);
        report::write_all(&finished.results, &args.out).map_err(|it| it.to_string())?;
    }
    if !is_redis_wanted && args.url.is_none() {
        print(&format!("\n{}", redis::MISSING))?;
    }
    if let Some(page) = written.iter().find(|path| path.extension().is_some_and(|it| it == "html"))
    {
        print(&format!("\nThe charts are in {}", page.display()))?;
    }
    ended(&finished)
}

/// Joins both parts into one run. The results of the first part are kept however the second ended.
fn with_redis(finished: Finished, redis: Result<Finished, End>) -> Finished {
    match redis {
        Ok(redis) => Finished {
            results: finished.results.with(redis.results),
            failure: finished.failure.or(redis.failure),
        },
        Err(End::Failed(why)) => {
            let failure = finished.failure.or_else(|| Some(why.into()));
            Finished { failure, ..finished }
        }
        Err(_) => finished,
    }
}
