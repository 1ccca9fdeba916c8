//! The options of `onetrip bench`, and the plan that they make.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use onetrip_measure::load::{Load, Until};
use onetrip_measure::results::{Isolation, Key, Preset, Unit};
use onetrip_measure::run::{Plan, Planned, Work};
use onetrip_measure::trips::{self, Way};
use onetrip_measure::{concurrency, target};

use super::choose::chosen;

#[derive(Args, Debug)]
pub(super) struct RunArgs {
    /// The server to measure, as a URL or key-value string [default: a private one].
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,

    /// What to measure; several with commas.
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    preset: Vec<PresetArg>,

    /// Only these workloads of the preset; several with commas [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "preset")]
    workload: Vec<String>,

    /// concurrency: the isolation levels [default: all three].
    #[arg(long, value_name = "LEVEL", value_enum, value_delimiter = ',')]
    isolation: Vec<IsolationArg>,

    /// concurrency and fortunes: tasks (HTTP connections) at once [default: 100,200,400,800,1600 and
    /// 16,64,256]; scripts: clients [default: 1].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tasks: Vec<u32>,

    /// Connections that the tasks have between them; scripts have one for each task unless told
    /// otherwise; trips needs one [default: 10].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50_000))]
    connections: Option<u32>,

    /// How often everything is measured, in turns. With fewer than three no difference can be told from
    /// noise.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,

    /// concurrency: rows of the tables a, c, d and e.
    #[arg(long, value_name = "N", default_value_t = ROWS, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rows: u32,

    /// Round trips to add by the latency proxy, in milliseconds; several with commas [default: 0;
    /// trips: 0,0.2,1,5,20,50].
    #[arg(long, value_name = "MS", value_delimiter = ',', value_parser = milliseconds)]
    rtt: Vec<f64>,

    /// trips: how many selects are on their way at once [default: 1,4,16,64,256,1024].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    depth: Vec<u32>,

    /// concurrency: COMMIT leaves with the statement, so that a transaction is one trip and not two.
    #[arg(long)]
    one_trip: bool,

    /// Open loop: this many operations per second, at random distances, each measured from the moment
    /// when it should have begun [default: closed loop, each task as fast as it can].
    #[arg(long, value_name = "PER_SECOND", value_parser = positive)]
    rate: Option<f64>,

    /// How long a repetition lasts [default: trips 0.5, fortunes and scripts 5; concurrency one
    /// transaction per task].
    #[arg(long, value_name = "S", value_parser = positive, conflicts_with = "operations")]
    seconds: Option<f64>,

    /// How many operations a repetition has, of all tasks together.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    operations: Option<u64>,

    /// Threads that carry the load.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,

    /// What all random choices follow from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Write results.json, results.csv, results.xlsx and report.html into this directory.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,

    /// Drop a schema onetrip_bench that the server has already.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PresetArg {
    /// Eleven operations by many tasks at once, by isolation level.
    Concurrency,
    /// What round trips cost: a transfer, selects by depth, inserts, a join.
    Trips,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IsolationArg {
    ReadCommitted,
    RepeatableRead,
    Serializable,
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
    /// What these options ask for.
    ///
    /// # Errors
    /// A workload that isn't known, or options that don't go together.
    pub(super) fn plan(&self) -> Result<Plan, String> {
        self.check_presets()?;
        let workloads = chosen("workload", &self.workload, &self.known())?;
        let mut cells = Vec::new();
        for rtt in self.rtts(PresetArg::Concurrency) {
            self.add_concurrency(&workloads, rtt, &mut cells);
        }
        for rtt in self.rtts(PresetArg::Trips) {
            self.add_trips(&workloads, rtt, &mut cells);
        }
        Ok(Plan {
            cells,
            repetitions: self.repetitions,
            seed: self.seed,
            rows: self.rows,
            one_trip: self.one_trip,
            force: self.force,
            command: command_line(std::env::args()),
            threads: self.threads as usize,
        })
    }

    fn has(&self, preset: PresetArg) -> bool {
        self.preset.contains(&preset)
    }

    /// An option that no chosen preset looks at would be a surprise.
    fn check_presets(&self) -> Result<(), String> {
        use PresetArg::{Concurrency, Trips};
        let given: [(&str, bool, &[PresetArg]); 7] = [
            ("--isolation", !self.isolation.is_empty(), &[Concurrency]),
            ("--one-trip", self.one_trip, &[Concurrency]),
            ("--rows", self.rows != ROWS, &[Concurrency]),
            ("--depth", !self.depth.is_empty(), &[Trips]),
            ("--tasks", !self.tasks.is_empty(), &[Concurrency]),
            ("--connections", self.connections.is_some(), &[Concurrency]),
            ("--rate", self.rate.is_some(), &[Concurrency]),
        ];
        for (option, is_given, presets) in given {
            if is_given && !presets.iter().any(|preset| self.has(*preset)) {
                let names: Vec<String> = presets.iter().map(name).collect();
                return Err(format!("{option} is for --preset {}", names.join(" or ")));
            }
        }
        Ok(())
    }

    /// The workloads of the presets.
    fn known(&self) -> Vec<&'static str> {
        let mut known = Vec::new();
        if self.has(PresetArg::Concurrency) {
            known.extend(concurrency::WORKLOADS.iter().map(|it| it.name));
        }
        if self.has(PresetArg::Trips) {
            known.extend(trips::WORKLOADS);
        }
        known
    }

    /// The round trips that are added for a preset; none if it was not chosen.
    fn rtts(&self, preset: PresetArg) -> Vec<f64> {
        match (self.has(preset), preset) {
            (false, _) => Vec::new(),
            (true, _) if !self.rtt.is_empty() => self.rtt.clone(),
            (true, PresetArg::Trips) => RTTS.to_vec(),
            (true, _) => vec![0.0],
        }
    }

    fn load(&self, otherwise: Until) -> Load {
        let until = match (self.seconds, self.operations) {
            (Some(seconds), _) => Until::Elapsed(Duration::from_secs_f64(seconds)),
            (_, Some(operations)) => Until::Operations(operations),
            _ => otherwise,
        };
        Load { until, rate: self.rate, seed: self.seed }
    }

    fn add_concurrency(&self, workloads: &[&str], rtt_added_ms: f64, cells: &mut Vec<Planned>) {
        let levels: Vec<Isolation> = match self.isolation.is_empty() {
            true => Isolation::ALL.to_vec(),
            false => self.isolation.iter().map(|level| (*level).into()).collect(),
        };
        let tasks = if self.tasks.is_empty() { &TASKS[..] } else { &self.tasks };
        for workload in concurrency::WORKLOADS.iter().filter(|it| workloads.contains(&it.name)) {
            for (isolation, tasks) in
                levels.iter().flat_map(|level| tasks.iter().map(move |tasks| (level, tasks)))
            {
                let key = Key {
                    preset: Preset::Concurrency,
                    workload: workload.name.to_owned(),
                    mode: self.one_trip.then(|| "one trip".to_owned()),
                    isolation: Some(*isolation),
                    tasks: *tasks,
                    connections: self.connections.unwrap_or(CONNECTIONS),
                    depth: None,
                    rate: self.rate,
                    rtt_added_ms,
                };
                let load = self.load(Until::Each(1));
                let work = Work::Concurrency(*workload);
                cells.push(Planned { key, unit: Unit::Transaction, work, load });
            }
        }
    }

    fn add_trips(&self, workloads: &[&str], rtt_added_ms: f64, cells: &mut Vec<Planned>) {
        let depths = if self.depth.is_empty() { &trips::DEPTHS[..] } else { &self.depth };
        for way in workloads.iter().flat_map(|workload| Way::of(workload, depths)) {
            let (workload, mode) = way.names();
            let key = Key {
                preset: Preset::Trips,
                workload: workload.to_owned(),
                mode: Some(mode.to_owned()),
                isolation: None,
                tasks: way.tasks(),
                connections: 1,
                depth: way.depth(),
                rate: None,
                rtt_added_ms,
            };
            let load = Load { rate: None, ..self.load(Until::Elapsed(TRIPS_TIME)) };
            cells.push(Planned { key, unit: way.unit(), work: Work::Trips(way), load });
        }
    }
}

/// Of the benchmark that the preset follows.
const TASKS: [u32; 5] = [100, 200, 400, 800, 1600];
const CONNECTIONS: u32 = 10;
const ROWS: u32 = 100;

/// From the same machine to the other side of an ocean.
const RTTS: [f64; 6] = [0.0, 0.2, 1.0, 5.0, 20.0, 50.0];

const TRIPS_TIME: Duration = Duration::from_millis(500);

fn name(preset: &PresetArg) -> String {
    preset.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The arguments without user information: a URL keeps its host, a key-value string nothing.
fn command_line(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut shown = vec!["onetrip".to_owned()];
    let mut is_url = false;
    for argument in arguments.skip(1) {
        shown.push(match argument.split_once('=') {
            _ if is_url => without_secrets(&argument),
            Some(("--url", url)) => format!("--url={}", without_secrets(url)),
            _ => argument.clone(),
        });
        is_url = argument == "--url";
    }
    shown
}

fn without_secrets(url: &str) -> String {
    match url.contains("://") {
        // Parameters may hold a password too.
        true => target::without_user(url.split('?').next().unwrap_or_default()),
        false => "…".to_owned(),
    }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "give milliseconds, as in 20 or 0.5".to_owned())?;
    match (0.0..=10_000.0).contains(&value) {
        true => Ok(value),
        false => Err("give 0 to 10000 milliseconds".to_owned()),
    }
}

pub(super) fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "give a number above 0".to_owned())?;
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err("give a number above 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_kept_without_user_information() {
        let given = [
            "/bin/onetrip",
            "bench",
            "--url",
            "postgres://u:p@h/d?password=x",
            "--url=host=h password=p",
        ];
        let kept = command_line(given.into_iter().map(str::to_owned));
        assert_eq!(kept, ["onetrip", "bench", "--url", "postgres://h/d", "--url=…"]);
    }
}
