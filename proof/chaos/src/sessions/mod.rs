//! PostgreSQL with sessions: 500 tasks over one pool. Some of them own sessions and leave in them
//! every state that a session can keep, by plain statements and inside functions. Each statement
//! checks whether it sees state of another owner. `SESSIONS.md` describes the tasks and the checks.

mod end;
mod holding;
mod keeping;
mod lent;
mod owned;
mod shared;
mod states;
mod streams;
mod together;
mod transactions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onetrip::{Client, Config};
use onetrip_lab::postgres::pgbouncer::{self, PoolMode, Program};

use crate::drive::{FaultWindow, Target, Writers, inject_for, on_threads};
use crate::ledger::Ledger;
use crate::plan::PlannedFault;
use crate::postgres::faults::carry_out;
use crate::postgres::stage::Stage;
use crate::writer::Writer;
use crate::{Kind, Options, Report};

/// The setting of a run: what is between the client and its server, and whether faults come.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Connections of the pool.
    pub connections: usize,
    /// The pooler between them, and its pool mode.
    pub pooler: Option<(Program, PoolMode)>,
    /// Whether faults come.
    pub faults: bool,
}

/// Runs chaos on a private server of its own, and returns its report: see [`Report::findings`].
///
/// # Panics
/// If the lab fails, for example to start a server.
pub fn run(options: &Options, setting: &Setting) -> Report {
    on_threads(run_here(options, setting))
}

async fn run_here(options: &Options, setting: &Setting) -> Report {
    let pooler = setting.pooler.as_ref().map(|(program, mode)| pooler(program, *mode));
    let tune = |config| setting.tune(config);
    let stage = Stage::set(&world(), pooler.as_ref(), tune).await;
    let (ledger, stray) = (Arc::new(Ledger::new()), Arc::new(Ledger::new()));
    let clean = end::clean(&stage).await;
    let mut writers = Writers::new();
    for task in 0..TASKS {
        let own = Own::new(setting, &clean, &stray);
        let writer = Writer::new(task, options.seed, stage.client.clone(), ledger.clone(), own);
        writers.spawn(|stop| writer.write_until(stop));
    }
    let mut befallen = Befallen(stage);
    let faults = match setting.faults {
        true => inject_for(options, &mut befallen, &ledger).await,
        false => {
            tokio::time::sleep(options.duration).await;
            Vec::new()
        }
    };
    let in_time = writers.stop().await;
    let all = end::All { setting, ledger: &ledger, stray: &stray, clean: &clean };
    all.judge(options, befallen.0, &faults, in_time).await
}

/// If the pooler shares its connections to the server, it has fewer of them than clients.
fn pooler(program: &Program, mode: PoolMode) -> pgbouncer::Options {
    let pool_size = if mode == PoolMode::Session { 60 } else { 4 };
    let options = pgbouncer::Options {
        program: Some(program.clone()),
        pool_mode: mode,
        pool_size,
        prepared_max: Some(200),
        ..pgbouncer::Options::default()
    };
    options.setting("server_login_retry", "0")
}

impl Setting {
    fn is_shared(&self) -> bool {
        self.pooler.as_ref().is_some_and(|(_, mode)| *mode != PoolMode::Session)
    }

    /// Whether named prepared statements are safe.
    fn knows_names(&self) -> bool {
        let knows = |(program, _): &(Program, _)| program.knows_prepared_statements();
        !self.is_shared() || self.pooler.as_ref().is_none_or(knows)
    }

    /// Applies the settings of docs/operations/poolers.md.
    fn tune(&self, config: Config) -> Config {
        let config = config.connections_max(self.connections).wait_timeout(WAIT);
        let is_old = |(program, _): &(Program, _)| !program.knows_prepared_statements();
        let config = match self.pooler.as_ref().is_some_and(is_old) {
            true => config.one_segment(true).cancels_max(0),
            false => config,
        };
        if self.knows_names() { config } else { config.prepare_threshold(0) }
    }
}

/// What a task has besides the client.
pub(crate) struct Own {
    /// What a statement sees in a session without state.
    clean: Arc<str>,
    /// Rows that are meant for the other schema.
    stray: Arc<Ledger>,
    setting: Setting,
    /// How many reads there were; each has a number.
    looked: i64,
}

impl Own {
    fn new(setting: &Setting, clean: &Arc<str>, stray: &Arc<Ledger>) -> Own {
        let (clean, stray) = (clean.clone(), stray.clone());
        Own { clean, stray, setting: setting.clone(), looked: 0 }
    }
}

pub(crate) type SessionsWriter = Writer<Client, Own>;

impl SessionsWriter {
    pub(crate) async fn write_until(mut self, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) {
            let way = self.random.below(WAYS);
            if tokio::time::timeout(PATIENCE, self.write(way)).await.is_err() {
                self.ledger.wrong(format!("way {way} of task {} does not end", self.task));
            }
            tokio::task::yield_now().await;
        }
    }

    async fn write(&mut self, way: u64) {
        match way {
            0..4 => self.looks().await,
            4..7 => self.inserts().await,
            7 => self.refused().await,
            8 => self.hurried().await,
            9 => self.dropped().await,
            10 => self.cancelled().await,
            11 => self.unreadable().await,
            12 => self.prepared().await,
            13 => self.pipeline().await,
            14 => self.segments().await,
            15 => self.pipeline_in_part().await,
            16 => self.transaction().await,
            17 => self.savepoints().await,
            18 => self.counted().await,
            19 => self.atomic_batch().await,
            20 => self.isolated_batch().await,
            21 => self.copied_in().await,
            22 => self.streamed().await,
            23 => self.large().await,
            24 => self.heard().await,
            _ if self.own.setting.is_shared() => self.transaction().await,
            25..29 => self.lent().await,
            _ => self.owned().await,
        }
    }
}

/// The sum of the ways' weights.
const WAYS: u64 = 40;

/// The stage with the faults of this run.
struct Befallen(Stage);

impl Target for Befallen {
    const KINDS: &'static [Kind] = &Kind::SESSIONS;

    fn said(&self) -> String {
        self.0.said()
    }

    fn carry_out<'a>(
        &'a mut self,
        ledger: &'a Ledger,
        fault: &'a PlannedFault,
    ) -> std::pin::Pin<Box<dyn Future<Output = FaultWindow> + 'a>> {
        Box::pin(carry_out(&mut self.0, ledger, fault))
    }
}

/// The schema, with the expression that shows what a statement sees.
fn world() -> String {
    include_str!("world.sql").replace(":seen", include_str!("seen.sql"))
}

/// A statement around what it sees: `insert … select $1, {} returning n, seen`.
macro_rules! seeing {
    ($before:literal, $after:literal) => {
        concat!($before, include_str!("seen.sql"), $after)
    };
}

/// Returns its number and what it sees.
pub(crate) const LOOK: &str = seeing!("select $1::bigint as n, ", " as seen");

/// Writes a row: its number, whether its session has an owner, whether it is fine.
pub(crate) const INSERT: &str = seeing!(
    "insert into entry (n, own, fine, seen) select $1::bigint, $2::bool, $3::bool, ",
    " returning n, seen"
);

/// A row whose transaction increments two counters.
pub(crate) const COUNTED: &str =
    seeing!("insert into entry (n, counted, seen) select $1::bigint, true, ", " returning n, seen");

/// Returns two rows, so a call that wants one row can't read the answer.
pub(crate) const TWO: &str = seeing!(
    "insert into entry (n, seen) select n, ",
    " from generate_series($1::bigint, $2::bigint) as n returning n, seen"
);

/// For batches and COPY: a default of the table records what the statement sees.
pub(crate) const PLAIN: &str = "insert into entry (n, fine) values ($1, $2)";

/// Tasks that write at the same time.
const TASKS: u32 = 500;

/// How long a caller waits for a connection.
const WAIT: Duration = Duration::from_secs(20);

/// How long one way may take: several waits for a connection, one after the other.
const PATIENCE: Duration = Duration::from_secs(150);
