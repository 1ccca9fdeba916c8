//! The results of a run, as `results.json` has them.
//! [docs/operations/bench.md](../../../docs/operations/bench.md) explains the fields to readers of
//! the file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::spread::Spread;
use crate::timeline::Timeline;

/// The value of `schema` in every file.
pub const SCHEMA: &str = "onetrip-bench";

/// Goes up when a field changes its meaning or goes away. New fields don't change it.
pub const SCHEMA_VERSION: u32 = 1;

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`SCHEMA_VERSION`] of the program that wrote it.
    pub schema_version: u32,
    /// The program's version.
    pub onetrip_version: String,
    /// When it began: RFC 3339, in UTC.
    pub started_at: String,
    /// How long it took.
    pub elapsed_s: f64,
    /// Why it ended before all was measured, in one line. `None` if it was completed.
    pub stopped: Option<String>,
    /// The arguments that it was called with, without user information.
    pub command: Vec<String>,
    /// The seed of all random choices.
    pub seed: u64,
    /// The measured server.
    pub server: Server,
    /// The machine that ran the load.
    pub client: ClientSide,
    /// The lines to the server: one for each round trip that was added.
    pub lines: Vec<Line>,
    /// In a run on two servers, the server of the cells of the preset `redis`; the other cells
    /// belong to `server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// What was found of a program under `onetrip profile`, which `onetrip demo` ends with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiled: Option<Profiled>,
    /// The cells, in the order in which they were planned.
    pub cells: Vec<Cell>,
}

/// The server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Where it is, without user information.
    pub url: String,
    /// `PostgreSQL`, `Redis` or `Valkey`.
    pub product: String,
    /// The version as the server reports it.
    pub version: String,
    /// Whether it was started for this run.
    pub private: bool,
    /// The settings that affect measurements, as the server shows them.
    pub settings: BTreeMap<String, String>,
}

/// A second server of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The server.
    pub server: Server,
    /// The lines to it.
    pub lines: Vec<Line>,
}

/// A program that waits for each trip, as it was profiled, as the profiler predicts it, and as it was
/// measured once it was mended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profiled {
    /// What the program does, and how far away its server is, as a title.
    pub title: String,
    /// A line for each form of it.
    pub forms: Vec<Form>,
    /// What the profiler says of it, in a sentence.
    pub says: String,
}

/// A form of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Form {
    /// What is particular about it.
    pub name: String,
    /// The round trips of a unit of work. `None` if they were not counted.
    pub trips: Option<f64>,
    /// How long a unit of work takes.
    pub ms: f64,
}

/// The machine and program that measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientSide {
    /// Processors that the program may use.
    pub cpus: usize,
    /// Threads that ran the load.
    pub threads: usize,
    /// Operating system and architecture.
    pub system: String,
}

/// The way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The round trip that the latency proxy added; 0 is the way without it.
    pub rtt_added_ms: f64,
    /// Measured round trips of an empty request, in milliseconds.
    pub rtt_ms: Spread,
}

/// The preset of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Operations under concurrency.
    Concurrency,
    /// What round trips cost.
    Trips,
    /// A web page.
    Fortunes,
    /// Scripts of pgbench's language.
    Script,
    /// Commands of Redis or Valkey.
    Redis,
}

/// The isolation level of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    ReadCommitted,
    /// The whole transaction sees what was committed before its first statement.
    RepeatableRead,
    /// As if transactions ran one after another.
    Serializable,
}

/// What an operation of a workload is, in the singular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// From BEGIN to COMMIT, including repeated attempts.
    Transaction,
    /// One statement.
    Statement,
    /// One row, inserted.
    Row,
    /// One HTTP request.
    Request,
    /// One command of Redis.
    Command,
    /// A value, read, changed and written.
    Update,
}

/// One workload with one set of parameters. Its [`Key`] identifies it within the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Which it is.
    #[serde(flatten)]
    pub key: Key,
    /// What one operation is.
    pub unit: Unit,
    /// Each repetition, in the order in which they were run. Warm-ups are not in it.
    pub repetitions: Vec<Repetition>,
    /// How long operations took, over all repetitions, measured from when they should have begun
    /// (open loop) or began (closed loop), including repeated attempts. `None` if no operation
    /// succeeded.
    pub latency: Option<Latency>,
    /// Open loop only: how late operations began.
    pub lag: Option<Latency>,
    /// Attempts that were tried again, by SQLSTATE.
    pub retries: BTreeMap<String, u64>,
    /// Operations that failed, by SQLSTATE. `lost` stands for a lost connection, `never begun` for
    /// operations of an open loop that did not begin because of the backlog.
    pub errors: BTreeMap<String, u64>,
    /// Operations that were meant to fail and did, by SQLSTATE. They count as operations.
    pub expected_errors: BTreeMap<String, u64>,
    /// For a script in its pipelined form: where a run had to wait for values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaited: Vec<Awaited>,
    /// What the server's sessions did, from samples: their mean number by
    /// `wait_event_type:wait_event` of pg_stat_activity, or `running`. Empty if there are no
    /// samples.
    pub waits: BTreeMap<String, f64>,
    /// One operation as recorded on the line: among the last operations of the repetitions, the one
    /// whose time is nearest to the median. Only transfers through the latency proxy are recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
}

/// What distinguishes a cell from all others of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Key {
    /// Its preset.
    pub preset: Preset,
    /// Its workload.
    pub workload: String,
    /// How it was done, if there is more than one way: `shared`, `pipeline`, `prepared` …
    pub mode: Option<String>,
    /// The isolation level, if it was set.
    pub isolation: Option<Isolation>,
    /// Concurrent tasks; for a web page, HTTP connections.
    pub tasks: u32,
    /// Connections to the server that the tasks shared.
    pub connections: u32,
    /// Statements or commands of one task in flight, if that was varied.
    pub depth: Option<u32>,
    /// Open loop: the intended operations per second. `None` is a closed loop.
    pub rate: Option<f64>,
    /// The round trip that the latency proxy added.
    pub rtt_added_ms: f64,
}

/// A place of a script that waits for a value before it can go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaited {
    /// The place that waits: `statement 3`, or a command with its line.
    pub place: String,
    /// The value that it waits for: `:balance of statement 1`.
    pub value: String,
}

/// One measurement of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repetition {
    /// From the first operation's beginning to the last one's end.
    pub elapsed_ms: f64,
    /// Operations that ended well, or failed as they were meant to.
    pub operations: u64,
    /// Attempts that were tried again.
    pub retries: u64,
    /// Operations that failed.
    pub errors: u64,
    /// The median latency, in microseconds. `None` if no operation succeeded.
    #[serde(default)]
    pub p50_us: Option<u64>,
    /// Trips that the client made: writes after bytes of the server. `None` if they were not
    /// counted.
    pub trips: Option<u64>,
    /// CPU of this program, without that of its latency proxy.
    pub client_cpu_ms: Option<f64>,
    /// CPU of the server's processes, if they run on this machine and can be read.
    pub server_cpu_ms: Option<f64>,
}

/// A distribution of times in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many there are.
    pub count: u64,
    /// The arithmetic mean.
    pub mean_us: f64,
    /// Half took at most this.
    pub p50_us: u64,
    /// Nine of ten.
    pub p90_us: u64,
    /// 99 of 100.
    pub p99_us: u64,
    /// 999 of 1,000.
    pub p999_us: u64,
    /// The longest.
    pub max_us: u64,
    /// The whole distribution: an HdrHistogram in its V2 format, deflated, in base64, with three
    /// significant digits.
    pub histogram: String,
}

impl Results {
    /// The lines to the server of a preset's cells.
    pub fn lines_of(&self, preset: Preset) -> &[Line] {
        match &self.beside {
            Some(beside) if preset == Preset::Redis => &beside.lines,
            _ => &self.lines,
        }
    }

    /// Adds the results of a run on Redis or Valkey.
    #[must_use]
    pub fn with(mut self, redis: Results) -> Results {
        self.elapsed_s += redis.elapsed_s;
        self.stopped = self.stopped.or(redis.stopped);
        self.cells.extend(redis.cells);
        self.beside = Some(Beside { server: redis.server, lines: redis.lines });
        self
    }
}

impl Cell {
    /// Elapsed time of its repetitions, in milliseconds.
    pub fn elapsed_ms(&self) -> Option<Spread> {
        Spread::of(self.repetitions.iter().map(|it| it.elapsed_ms))
    }

    /// Operations per second of its repetitions.
    pub fn rate(&self) -> Option<Spread> {
        Spread::of(self.repetitions.iter().map(Repetition::rate))
    }

    /// Time per operation of its repetitions, in microseconds: of all tasks together.
    pub fn us_per_operation(&self) -> Option<Spread> {
        Spread::of(self.repetitions.iter().map(|it| 1e6 / it.rate()))
    }

    /// Trips per operation, failed ones included: they cost trips and CPU, too.
    pub fn trips_per_operation(&self) -> Option<Spread> {
        self.per_operation(|it| it.trips.map(|trips| trips as f64))
    }

    /// CPU of the client per operation, failed ones included, in microseconds.
    pub fn client_cpu_us(&self) -> Option<Spread> {
        self.per_operation(|it| it.client_cpu_ms.map(|ms| ms * 1e3))
    }

    /// CPU of the server per operation, failed ones included, in microseconds.
    pub fn server_cpu_us(&self) -> Option<Spread> {
        self.per_operation(|it| it.server_cpu_ms.map(|ms| ms * 1e3))
    }

    /// Operations of all repetitions.
    pub fn operations(&self) -> u64 {
        self.repetitions.iter().map(|it| it.operations).sum()
    }

    fn per_operation(&self, total: impl Fn(&Repetition) -> Option<f64>) -> Option<Spread> {
        let each = |it: &Repetition| Some(total(it)? / (it.operations + it.errors) as f64);
        Spread::of(self.repetitions.iter().filter_map(each))
    }
}

impl Repetition {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed_ms * 1e3
    }
}

impl Isolation {
    /// All levels that PostgreSQL distinguishes, the weakest first.
    pub const ALL: [Isolation; 3] =
        [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

    /// As people write it, and as the option takes it with hyphens.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

impl From<Isolation> for onetrip::Isolation {
    fn from(level: Isolation) -> onetrip::Isolation {
        match level {
            Isolation::ReadCommitted => onetrip::Isolation::ReadCommitted,
            Isolation::RepeatableRead => onetrip::Isolation::RepeatableRead,
            Isolation::Serializable => onetrip::Isolation::Serializable,
        }
    }
}

impl Unit {
    /// One of them, or several.
    pub fn name(self, several: bool) -> &'static str {
        match (self, several) {
            (Unit::Transaction, false) => "transaction",
            (Unit::Transaction, true) => "transactions",
            (Unit::Statement, false) => "statement",
            (Unit::Statement, true) => "statements",
            (Unit::Row, false) => "row",
            (Unit::Row, true) => "rows",
            (Unit::Request, false) => "request",
            (Unit::Request, true) => "requests",
            (Unit::Command, false) => "command",
            (Unit::Command, true) => "commands",
            (Unit::Update, false) => "update",
            (Unit::Update, true) => "updates",
        }
    }
}
