//! The options of `onetrip bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use onetrip_measure::results::Isolation;
use onetrip_measure::script::Protocol;

use crate::values::{milliseconds, rate, seconds};

#[derive(Args, Debug)]
pub(super) struct RunArgs {
    /// The server to measure, as a URL or key-value string; redis: redis://…, rediss://… or unix:… [default: a
    /// private one]. A URL shows in the list of processes: leave PostgreSQL's password to PGPASSWORD or the password
    /// file (PGPASSFILE, ~/.pgpass).
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,

    /// What to measure; several with commas.
    #[arg(long, value_enum, value_delimiter = ',', required_unless_present_any = ["script", "builtin"])]
    pub(super) preset: Vec<PresetArg>,

    /// A script of pgbench's language to run, each statement awaited and as far pipelined as its
    /// values allow; several with one option each, chosen at random by their weights (FILE@WEIGHT),
    /// or with --compare each by itself.
    #[arg(long, short = 'f', value_name = "FILE[@W]")]
    pub(super) script: Vec<String>,

    /// A script of pgbench's own: tpcb-like, simple-update or select-only, or the beginning of a name.
    #[arg(long, short = 'b', value_name = "NAME[@W]")]
    pub(super) builtin: Vec<String>,

    /// scripts: measure each by itself, beside the others, instead of a mix of them.
    #[arg(long)]
    pub(super) compare: bool,

    /// scripts: make pgbench's tables at this scale (100,000 accounts each) in the tool's schema
    /// [default: 1 with --builtin or on a private server, otherwise none].
    #[arg(long, short = 's', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) scale: Option<u32>,

    /// scripts: set a variable before the first run.
    #[arg(long, short = 'D', value_name = "NAME=VALUE", value_parser = definition)]
    pub(super) define: Vec<(String, String)>,

    /// scripts: how statements are sent [default: prepared].
    #[arg(long, short = 'M', value_enum)]
    pub(super) protocol: Option<ProtocolArg>,

    /// scripts: how often a run is tried in all when it fails for what others do (40001, 40P01); 0 is
    /// no limit [default: 0].
    #[arg(long, value_name = "N")]
    pub(super) max_tries: Option<u32>,

    /// Only these workloads of the preset; several with commas [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "preset")]
    pub(super) workload: Vec<String>,

    /// The isolation levels [default: concurrency all three, scripts the server's].
    #[arg(long, value_name = "LEVEL", value_enum, value_delimiter = ',')]
    pub(super) isolation: Vec<IsolationArg>,

    /// concurrency and fortunes: tasks (HTTP connections) at once [default: 100,200,400,800,1600 and
    /// 16,64,256]; scripts: clients [default: 1].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) tasks: Vec<u32>,

    /// Connections that the tasks have between them, at most one for each; scripts have one for each task unless told
    /// otherwise; trips and redis need one [default: 10].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(super) connections: Option<u32>,

    /// How often everything is measured, in turns. With fewer than three no difference can be told from
    /// noise.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repetitions: u32,

    /// concurrency: rows of the tables a, c, d and e [default: 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(super) rows: Option<u32>,

    /// Round trips to add by the latency proxy, in milliseconds; several with commas [default: 0;
    /// trips and redis: 0,0.2,1,5,20,50].
    #[arg(long, value_name = "MS", value_delimiter = ',', value_parser = milliseconds)]
    pub(super) rtt: Vec<f64>,

    /// trips and redis: how many selects or commands are on their way at once [default: 1,4,16,64,256,1024
    /// and 1,10,100,1000,10000].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) depth: Vec<u32>,

    /// concurrency: COMMIT leaves with the statement, so that a transaction is one trip and not two.
    #[arg(long)]
    pub(super) one_trip: bool,

    /// Open loop: this many operations per second, at random distances, each measured from the moment
    /// when it should have begun [default: closed loop, each task as fast as it can].
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    pub(super) rate: Option<f64>,

    /// How long a repetition lasts [default: trips and redis 0.5, fortunes and scripts 5; concurrency one
    /// transaction per task].
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "operations")]
    pub(super) seconds: Option<f64>,

    /// How many operations a repetition has, of all tasks together.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(super) operations: Option<u64>,

    /// Threads that carry the load.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) threads: u32,

    /// What all random choices follow from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// Write results.json, results.csv, results.xlsx and report.html into this directory.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,

    /// Drop a schema onetrip_bench that the server has already.
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PresetArg {
    /// Eleven operations by many tasks at once, by isolation level.
    Concurrency,
    /// What round trips cost: a transfer, selects by depth, inserts, a join.
    Trips,
    /// A web page whose requests have a statement each: TechEmpower's fortunes.
    Fortunes,
    /// Commands of Redis or Valkey one by one and many at once, 10,000 PINGs, a script.
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
    /// What a list names twice is measured once: nothing would tell the two apart.
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
