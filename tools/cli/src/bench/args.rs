//! The options of `onetrip bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use onetrip_measure::results::Isolation;
use onetrip_measure::script::Protocol;

use crate::values::{milliseconds, rate, seconds};

#[derive(Args, Debug)]
pub(super) struct RunArgs {
    /// The server to measure, as a URL or key-value string; redis: redis://…, rediss://… or unix:…
    /// [default: a private server]. Other users can see a URL in the list of processes, so give
    /// PostgreSQL's password in PGPASSWORD or in the password file (PGPASSFILE, ~/.pgpass).
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,

    /// What to measure; separate several by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) preset: Vec<PresetArg>,

    /// A script in pgbench's language. It is measured in two forms: with each statement awaited,
    /// and pipelined as far as its values allow. Repeat the option for several scripts: each run
    /// chooses one at random by weight (FILE@WEIGHT); with --compare each script is measured by
    /// itself.
    #[arg(long, short = 'f', value_name = "FILE[@W]")]
    pub(super) script: Vec<String>,

    /// One of pgbench's built-in scripts: tpcb-like, simple-update or select-only, or the beginning
    /// of a name.
    #[arg(long, short = 'b', value_name = "NAME[@W]")]
    pub(super) builtin: Vec<String>,

    /// scripts: measure each script by itself instead of a mix of them.
    #[arg(long)]
    pub(super) compare: bool,

    /// scripts: create pgbench's tables at this scale (100,000 accounts per unit) in the tool's
    /// schema [default: 1 with --builtin or on a private server, otherwise no tables].
    #[arg(long, short = 's', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) scale: Option<u32>,

    /// scripts: set a variable before the first run.
    #[arg(long, short = 'D', value_name = "NAME=VALUE", value_parser = definition)]
    pub(super) define: Vec<(String, String)>,

    /// scripts: how statements are sent [default: prepared].
    #[arg(long, short = 'M', value_enum)]
    pub(super) protocol: Option<ProtocolArg>,

    /// scripts: the most attempts of a run that fails by a serialization failure or a deadlock
    /// (40001, 40P01); 0 is no limit [default: 0].
    #[arg(long, value_name = "N")]
    pub(super) max_tries: Option<u32>,

    /// Measure only these workloads of the preset; separate several by commas [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "preset")]
    pub(super) workload: Vec<String>,

    /// The isolation levels [default: concurrency: all three; scripts: the server's].
    #[arg(long, value_name = "LEVEL", value_enum, value_delimiter = ',')]
    pub(super) isolation: Vec<IsolationArg>,

    /// concurrency and fortunes: tasks (HTTP connections) at once [default: 100,200,400,800,1600
    /// and 16,64,256]; scripts: clients [default: 1].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) tasks: Vec<u32>,

    /// Connections that the tasks share, at most one per task [default: concurrency and fortunes:
    /// 10; scripts: one per task; trips and redis: one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(super) connections: Option<u32>,

    /// How often everything is measured, in turns. With fewer than three repetitions no difference
    /// can be told from noise.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repetitions: u32,

    /// concurrency: rows of the tables a, c, d and e [default: 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(super) rows: Option<u32>,

    /// Round trips that the latency proxy adds, in milliseconds; separate several by commas
    /// [default: 0; trips and redis: 0,0.2,1,5,20,50].
    #[arg(long, value_name = "MS", value_delimiter = ',', value_parser = milliseconds)]
    pub(super) rtt: Vec<f64>,

    /// trips and redis: how many selects or commands are in flight [default: 1,4,16,64,256,1024
    /// and 1,10,100,1000,10000].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) depth: Vec<u32>,

    /// concurrency: send COMMIT with the statement, so that a transaction takes one trip instead of
    /// two.
    #[arg(long)]
    pub(super) one_trip: bool,

    /// Open loop: this many operations per second, at random intervals, each measured from the
    /// moment when it should have begun [default: closed loop, each task as fast as it can].
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    pub(super) rate: Option<f64>,

    /// How long a repetition lasts, in seconds [default: trips and redis: 0.5; fortunes and
    /// scripts: 5; concurrency: until each task has run one transaction].
    // Under the names, too, that other tools have for it: `--duration` is nearer to `--operations`.
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "operations",
          aliases = ["duration", "time"])]
    pub(super) seconds: Option<f64>,

    /// How many operations a repetition has, over all tasks.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(super) operations: Option<u64>,

    /// Threads that run the load.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) threads: u32,

    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// Write results.json, results.csv, results.xlsx and report.html into this directory.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,

    /// Drop the schema onetrip_bench if the server already has one.
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PresetArg {
    /// Eleven operations by many concurrent tasks, at each isolation level.
    Concurrency,
    /// The cost of round trips: a transfer, selects by depth, inserts, a join.
    Trips,
    /// A web page that runs one statement per request: TechEmpower's fortunes.
    Fortunes,
    /// Commands of Redis or Valkey one by one and pipelined, 10,000 PINGs, a script.
    Redis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum IsolationArg {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ProtocolArg {
    /// As one message with the values in the text.
    Simple,
    /// Parsed at each use, with the values as parameters.
    Extended,
    /// Prepared before the first use.
    Prepared,
}

impl From<ProtocolArg> for Protocol {
    fn from(protocol: ProtocolArg) -> Protocol {
        match protocol {
            ProtocolArg::Simple => Protocol::Simple,
            ProtocolArg::Extended => Protocol::Extended,
            ProtocolArg::Prepared => Protocol::Prepared,
        }
    }
}

impl From<IsolationArg> for Isolation {
    fn from(level: IsolationArg) -> Isolation {
        match level {
            IsolationArg::ReadCommitted => Isolation::ReadCommitted,
            IsolationArg::RepeatableRead => Isolation::RepeatableRead,
            IsolationArg::Serializable => Isolation::Serializable,
        }
    }
}

impl RunArgs {
    /// Removes repeated values, so that a value named twice is measured once.
    pub(super) fn without_repeats(mut self) -> RunArgs {
        keep_first(&mut self.isolation);
        keep_first(&mut self.tasks);
        keep_first(&mut self.rtt);
        keep_first(&mut self.depth);
        self
    }
}

fn keep_first<T: Copy + PartialEq>(values: &mut Vec<T>) {
    let mut seen = Vec::new();
    values.retain(|value| {
        let is_new = !seen.contains(value);
        seen.push(*value);
        is_new
    });
}

fn definition(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "give NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_values_that_are_given_twice_the_first_stays_in_its_place() {
        let mut values = vec![3, 1, 3, 2, 1];
        keep_first(&mut values);
        assert_eq!(values, [3, 1, 2]);
    }
}
