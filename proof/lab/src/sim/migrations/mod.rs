//! Migrations between any two messages, under the client's own memory of statements.
//!
//! A client has up to three connections to [model servers](crate::model) that share tables. It runs
//! statements on them, and another session changes the tables: their columns have other types, come
//! and go, and enums are made anew. In each run:
//!
//! * what is stored is what a client would store that was started behind the migration;
//! * every row is read by the names and the types of the columns with which it was sent;
//! * of the statements that such a client could run one fails for each migration at most (with those
//!   that were sent before that was told, on whatever connection), and none without a migration: a
//!   session that sets its own path costs none;
//! * the outcome is true, segments and transactions take effect whole or not at all, every request
//!   ends once, and no connection is lost for a migration.
//!
//! What decides is the product's: the connections are the engine's with the protocol of PostgreSQL;
//! [`Texts`] counts texts; [`Statements`] and [`Named`] give them their names and share a generation;
//! `Parameters` says what may be bound by a name, and `loosened` what leaves without a learned type;
//! `permit` says what the engine sends again, [`migrated`](onetrip_postgres::client::migrated) what
//! the host does; `Seen`, `fault_of` and `fit` look at replies.
//!
//! The host between them is the simulation's, and has one of two faces in each run. One sends texts
//! and reads texts, as the drop-in for pg does. The other asks what a text takes, sends and reads
//! binary forms, and forgets that behind an error, as the package for Python does; but where the core
//! takes an error for one that only a migration explains, it forgets all, and not one text. It sets no
//! path. (What it forgets when is the face's own, and tested with it.) That one also makes binary
//! COPYs, by the types of a text that returns the table's columns, with the core's guard behind them.
//!
//! In a part of the runs there is a pooler in between that keeps prepared statements, statements are
//! lost, or a connection is cut.
//!
//! Not covered: what [the model](crate::model) lacks, which are composites, arrays, domains,
//! conditions, COPY but for a binary one of one row and DDL of one's own; deadlines and cancels; statements that a caller prepares
//! and keeps; streams and cursors; values that have a type of their own, as those of the crate for
//! Rust; and that what was prepared is prepared anew once it is old, which only time shows.

mod check;
mod copying;
mod host;
mod line;
mod plan;
mod read;
mod remembered;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use onetrip_engine::Time;
use onetrip_postgres::client::texts::Texts;
use onetrip_postgres::client::types::kinds::Types;

use super::settings::Network;
use super::{FailedSeed, Report, Run, Trace, sweep_of};
use crate::model::{Change, NAMES, PATHS, Schema, Table, Type};
use crate::seeded::{Log, Rng};
use line::Line;
use plan::Call;
use remembered::Described;

#[cfg(doc)]
use onetrip_postgres::client::{named::Named, statements::Statements};

/// A mistake of the client, or of the code that drives it. The checks must notice each. Those of the
/// core itself are in `proof/mutants`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfMigrations {
    /// The values of a statement are said to be exact.
    AllExact,
    /// Nothing is said to the connection when a session sets its path.
    NoPath,
    /// The connections share no generation.
    NoGeneration,
    /// What an error says of its statement is not told.
    NoFault,
    /// Rows are read by the columns that were described first.
    FirstColumns,
    /// Learned types are named for any value.
    NotLoosened,
    /// Whether a reply fits what was asked for is not looked at.
    NoFit,
    /// No guard is behind a binary COPY.
    NoGuard,
}

impl OfMigrations {
    /// All of them.
    pub const ALL: [OfMigrations; 8] = [
        OfMigrations::AllExact,
        OfMigrations::NoPath,
        OfMigrations::NoGeneration,
        OfMigrations::NoFault,
        OfMigrations::FirstColumns,
        OfMigrations::NotLoosened,
        OfMigrations::NoFit,
        OfMigrations::NoGuard,
    ];
}

/// What a seed makes of a run.
#[derive(Debug)]
struct Settings {
    network: Network,
    steps: usize,
    /// One in how many steps is a request, and one in how many a migration.
    idleness: u64,
    migrations: u64,
    /// How many calls of a connection are under way at most before another begins.
    open_max: usize,
    /// How many texts there are of each kind.
    texts: usize,
    threshold: u32,
    statements_max: usize,
    /// One in this many messages of the server has an unsolicited one in front of it.
    noise: u64,
    /// Whether the server loses prepared statements.
    losses: bool,
    is_pooled: bool,
    /// Which connection is cut, and behind which byte of the server's.
    cut: Option<(usize, u64)>,
    /// Whether there are sessions, named statements, and the face that learns types.
    sessions: bool,
    names: bool,
    learns: bool,
}

struct World {
    rng: Rng,
    settings: Settings,
    now: Time,
    schema: Schema,
    log: Log,
    lines: Vec<Line>,
    texts: Texts,
    /// What the face that learns types knows of each text, and the types that it knows.
    described: HashMap<String, Rc<Described>>,
    descriptions: u32,
    types: Types,
    calls: BTreeMap<u64, Call>,
    next_id: u64,
    units: u64,
    /// The versions at which errors came that only a migration explains.
    told: Vec<u32>,
    mutation: Option<OfMigrations>,
    findings: Vec<String>,
    report: Report,
    trace: Trace,
}

/// Runs one seed.
#[must_use]
pub fn run_migrations(seed: u64, mutation: Option<OfMigrations>, trace: Trace) -> Run {
    World::new(seed, mutation, trace).live()
}

/// Runs `count` seeds from `from` on; as [`sweep`](super::sweep).
///
/// # Errors
/// The smallest of the seeds that failed before the others stopped.
pub fn sweep_migrations(
    from: u64,
    count: u64,
    progress: impl Fn(u64) + Sync,
) -> Result<Report, FailedSeed> {
    sweep_of(from, count, MIGRATIONS_OPTION, |seed| run_migrations(seed, None, None), progress)
}

/// What goes to `make sim` to watch a seed.
pub const MIGRATIONS_OPTION: &str = " MIGRATIONS=1";

impl Settings {
    fn new(rng: &mut Rng, lines: usize) -> Settings {
        let mut network = Network::new(rng);
        network.limits = onetrip_engine::Limits::default();
        network.chunk_max = rng.pick(&[16, 40, 120, 1000, 1000]);
        network.caps = [1 << 20; 2];
        let is_pooled = rng.one_in(4);
        Settings {
            network,
            steps: 200 + rng.index(1500),
            idleness: rng.pick(&[2, 5, 12]),
            migrations: rng.pick(&[0, 25, 60, 150, 400]),
            open_max: rng.pick(&[1, 2, 6, 30]),
            texts: rng.pick(&[1, 1, 3]),
            threshold: rng.pick(&[1, 2, 4]),
            statements_max: rng.pick(&[1, 3, 64, 64]),
            noise: rng.pick(&[0, 0, 12]),
            losses: !is_pooled && rng.one_in(6),
            is_pooled,
            cut: rng.one_in(8).then(|| (rng.index(lines), rng.below(20_000))),
            sessions: !is_pooled && rng.one_in(2),
            names: rng.one_in(2),
            learns: rng.one_in(2),
        }
    }
}

impl World {
    fn new(seed: u64, mutation: Option<OfMigrations>, trace: Trace) -> World {
        let mut rng = Rng::new(seed);
        let count = rng.up_to(3);
        let settings = Settings::new(&mut rng, count);
        let types: Vec<Type> =
            (0..PATHS.len() * NAMES.len()).map(|_| rng.pick(&Type::ALL)).collect();
        let schema = Schema::new(rng.pick(&[0, 0, 3]), &types);
        if settings.is_pooled {
            schema.pool(rng.split());
        }
        let log = Log::default();
        let texts = Texts::new(settings.threshold, settings.statements_max);
        let mut world = World {
            rng,
            now: Time::ZERO,
            schema,
            log,
            lines: Vec::new(),
            texts,
            described: HashMap::new(),
            descriptions: 0,
            types: Types::default(),
            calls: BTreeMap::new(),
            next_id: 1,
            units: 0,
            told: Vec::new(),
            mutation,
            findings: Vec::new(),
            report: Report::default(),
            trace,
            settings,
        };
        for number in 0..count {
            let line = Line::new(&mut world, number);
            world.lines.push(line);
        }
        let settings = format!("{:?}", world.settings);
        world.say(&settings);
        world
    }

    fn live(mut self) -> Run {
        self.report.count("runs");
        for _ in 0..self.settings.steps {
            if !self.findings.is_empty() {
                break;
            }
            if self.rng.one_in(self.settings.idleness) {
                self.act();
            }
            if self.rng.one_in(self.settings.migrations) {
                self.migrate();
            }
            if self.settings.losses && self.rng.one_in(60) {
                self.lose_statements();
            }
            self.shuffle();
        }
        self.finish();
        self.check();
        self.report.add("requests", self.calls.len() as u64);
        self.report.add("migrations", self.schema.version().into());
        let mutated = self.mutation.is_some();
        Run { findings: self.findings, report: self.report, mutated }
    }

    /// Another session migrates a table, unless a transaction holds that.
    fn migrate(&mut self) {
        let table: Table = (self.rng.index(PATHS.len()), self.rng.index(NAMES.len()));
        if self.lines.iter().any(|line| line.link.server.holds(table)) {
            return self.report.count("a migration waited");
        }
        let change = match self.rng.below(5) {
            0 => Change::Add(self.rng.pick(&Type::ALL)),
            1 => Change::Drop,
            _ => Change::Type(self.rng.pick(&Type::ALL)),
        };
        self.schema.migrate(table, change);
        let columns = self.schema.columns(table);
        self.say(&format!("migration of {table:?}: {change:?}: {columns:?}"));
    }

    fn lose_statements(&mut self) {
        let at = self.rng.index(self.lines.len());
        let server = &mut self.lines[at].link.server;
        if server.is_idle() {
            server.lose_statements();
            self.report.count("statements lost");
            self.say(&format!("{at} loses its statements"));
        }
    }

    /// All that was begun ends.
    fn finish(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if !self.findings.is_empty() || self.is_at_rest() {
                return;
            }
            self.end_blocks();
            self.shuffle();
        }
        let open = self.open_calls();
        self.find(format!("nothing moves any more, and these are open: {open:?}"));
    }

    fn is_at_rest(&self) -> bool {
        self.open_calls().is_empty() && self.lines.iter().all(|line| line.block.is_none())
    }

    fn find(&mut self, finding: String) {
        self.say(&finding);
        self.findings.push(finding);
    }

    fn say(&mut self, line: &str) {
        if let Some(trace) = &mut self.trace {
            trace(&format!("{:>8} {line}", self.now.as_nanos() / 1000));
        }
    }

    fn is(&self, mutation: OfMigrations) -> bool {
        self.mutation == Some(mutation)
    }
}

/// More than the rounds that all requests of a run need, a few bytes at a time.
const ROUNDS_MAX: usize = 200_000;
