//! `onetrip demo`: in under a minute a money transfer over a slow link, point selects by depth, and two
//! updates of which one is in everybody's way. A small run of what `onetrip bench` measures.

mod plan;
mod story;

use std::path::PathBuf;

use clap::Args;
use onetrip_measure::report;

use crate::measuring::{ended, measured};
use crate::output::{End, print};
use crate::values::milliseconds;

/// See on a real PostgreSQL what round trips cost, and what pipelining gives back.
///
/// The files of the report are written at the end; report.html has the charts.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true)]
pub(crate) struct DemoArgs {
    /// Round trip to put in front of the server for the transfer, in milliseconds, half of it each way
    /// [default: 100; 0 with --url].
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    rtt: Option<f64>,

    /// How often everything is measured, in turns; the median is shown.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,

    /// Your own server, as a URL or key-value string, instead of a private one. The demo works in a
    /// schema of its own, onetrip_bench, and drops it at the end.
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// Drop a schema onetrip_bench that the server has already.
    #[arg(long)]
    force: bool,

    /// The directory for report.html and the figures.
    #[arg(long, value_name = "DIR", default_value = "onetrip-demo", overrides_with = "out")]
    out: PathBuf,
}

/// Runs the demo.
///
/// # Errors
/// One line: what failed, where, and what to do. Or nobody reads what it prints.
pub(crate) fn run(args: &DemoArgs) -> Result<(), End> {
    report::check_writable(&args.out).map_err(|error| format!("--out: {error}"))?;
    let finished = measured(&plan::plan(args), args.url.as_deref())?;
    let written = report::write_all(&finished.results, &args.out).map_err(|it| it.to_string())?;
    print(&story::tell(&finished.results))?;
    if let Some(page) = written.iter().find(|path| path.extension().is_some_and(|it| it == "html"))
    {
        print(&format!("\nThe charts are in {}", page.display()))?;
    }
    ended(&finished)
}
