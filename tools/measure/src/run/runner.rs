//! Works through a plan: connections, tables, warm-ups and repetitions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use onetrip::{Client, Config, Session};

use super::found::Found;
use super::meters::{self, Meters};
use super::plan::{Plan, Planned, Work};
use super::progress::{Estimate, Progress, Watch};
use super::recording;
use super::stage::Stage;
use super::turn::{Taken, Turn};
use crate::descriptors::make_room;
use crate::error::{Error, Result};
use crate::load::Snapshot;
use crate::meter;
use crate::results::{Cell, Isolation, Key, Line as LineFound, Server};
use crate::schema::{LEFT, SCHEMA, Schema, search_path, search_path_of_scripts};
use crate::target::{APPLICATION, Line, Target};
use crate::{fortunes, script, trips};

/// A run that has begun.
pub(super) struct Runner<'a> {
    target: &'a Target,
    plan: &'a Plan,
    watch: &'a dyn Watch,
    /// Makes and drops the tables.
    admin: Arc<Session>,
    /// The schema, as soon as it may exist.
    schema: Option<Schema>,
    meters: Meters,
    lines: Vec<(Line, Option<LineFound>)>,
    /// The connections that carry the load.
    client: Option<(Wanted, Client)>,
    found: Vec<Found>,
    estimate: Estimate,
}

/// Beginning and end.
impl<'a> Runner<'a> {
    /// Checks that the server has room for the connections. This creates nothing on the server.
    pub(super) async fn begin(
        target: &'a Target,
        plan: &'a Plan,
        watch: &'a dyn Watch,
    ) -> Result<Runner<'a>> {
        make_room((plan.connections() * FILES_PER_CONNECTION + FILES) as u64)?;
        let (admin, meters) = Meters::connect(target, plan.connections()).await?;
        let lines = lines(target, plan)?;
        let cells = plan.cells.len();
        let admin = Arc::new(admin);
        let (found, estimate) = (vec![Found::default(); cells], Estimate::new(cells));
        let (schema, client) = (None, None);
        Ok(Runner { target, plan, watch, admin, schema, meters, lines, client, found, estimate })
    }

    async fn make_tables(&mut self) -> Result<()> {
        if !self.plan.has_tables() {
            return Ok(());
        }
        self.watch.doing("making the tables");
        let created = self.schema.insert(Schema::new()).create(&self.admin, self.plan.force).await;
        created.inspect_err(|_| self.schema = None)?;
        if self.plan.cells.iter().any(|cell| matches!(cell.work, Work::Trips(_))) {
            trips::make_tables(&self.admin).await?;
        }
        if self.plan.cells.iter().any(|cell| matches!(cell.work, Work::Fortunes(_))) {
            fortunes::create(&self.admin, SCHEMA).await?;
        }
        if let Some(scale) = self.plan.scale {
            script::tables::create(&self.admin, SCHEMA, scale).await?;
        }
        Ok(())
    }
}

impl Stage for Runner<'_> {
    async fn work(&mut self) -> Result<()> {
        let admin = self.admin.clone();
        tokio::select! {
            measured = self.measure_in_turns() => measured,
            lost = lost(&admin) => Err(lost),
        }
    }

    fn take(&mut self) -> (Vec<LineFound>, Vec<Cell>) {
        let lines = self.lines.iter().filter_map(|(_, found)| *found).collect();
        let found = std::mem::take(&mut self.found);
        let cells = self.plan.cells.iter().zip(found);
        (lines, cells.filter_map(|(planned, found)| found.cell(planned)).collect())
    }

    fn server(&self) -> Server {
        self.meters.server().clone()
    }

    async fn end(self) -> Result<()> {
        // Statements still on their way through a proxy may hold locks.
        drop((self.client, self.lines));
        let Some(schema) = self.schema else { return Ok(()) };
        self.watch.doing("dropping the tables");
        if !self.admin.is_closed() {
            return schema.drop(&self.admin).await;
        }
        let left = |error| Error::new(format!("{error}; {LEFT}"));
        schema.drop(&meters::maker(self.target).await.map_err(left)?).await
    }
}

/// With the latency proxy, this process has both ends of the client's connection and the proxy's
/// own one.
const FILES_PER_CONNECTION: usize = 3;

/// Files besides connections: those of the runtime and the proxies, and the written ones.
const FILES: usize = 64;

/// The ways to the server that the plan needs, the shortest first.
fn lines(target: &Target, plan: &Plan) -> Result<Vec<(Line, Option<LineFound>)>> {
    plan.rtts().into_iter().map(|rtt| Ok((target.line(rtt)?, None))).collect()
}

/// Measuring.
impl Runner<'_> {
    async fn measure_in_turns(&mut self) -> Result<()> {
        self.make_tables().await?;
        let order = self.plan.order();
        for (done, cell) in order.iter().copied().enumerate() {
            let start = Instant::now();
            self.measure(cell, &order[done..], done).await?;
            self.estimate.note(cell, start.elapsed());
        }
        Ok(())
    }

    async fn measure(&mut self, cell: usize, left: &[usize], done: usize) -> Result<()> {
        let planned = &self.plan.cells[cell];
        let (client, config) = self.client_of(planned).await?;
        let label = planned.label();
        let progress = |snapshot| Progress {
            label: &label,
            done,
            of: done + left.len(),
            snapshot,
            left: self.estimate.left(left, &snapshot),
        };
        self.watch.progress(&progress(Snapshot::default()));
        let seed = self.plan.seed.wrapping_add((done as u64) << 32);
        let watch = |snapshot| self.watch.progress(&progress(snapshot));
        if matches!(planned.work, Work::Fortunes(_)) {
            // It has connections of its own, for which there must be room.
            self.client = None;
        }
        let turn = Turn {
            plan: self.plan,
            planned,
            admin: &self.admin,
            meters: &self.meters,
            client,
            config: &config,
            seed,
            proxy: recording::proxy(planned, &self.lines[self.line_of(planned)].0),
            watch: &watch,
        };
        let Taken { ran, seen, timeline } = turn.take().await?;
        self.watch.measured(&progress(Snapshot::default()), &ran.repetition);
        self.found[cell].add(ran, &seen);
        self.found[cell].add_timeline(timeline);
        Ok(())
    }
}

/// The requirements on a client.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wanted {
    line: usize,
    connections: u32,
    /// The isolation level of all its transactions; `None` is the server's default.
    level: Option<Isolation>,
    waiting_max: usize,
}

impl Wanted {
    fn by(planned: &Planned, line: usize) -> Wanted {
        let Key { connections, tasks, .. } = planned.key;
        let level = planned.key.isolation.filter(|_| matches!(planned.work, Work::Script(_)));
        Wanted { line, connections, level, waiting_max: (tasks as usize).max(WAITING_MAX) }
    }
}

/// Connections.
impl Runner<'_> {
    /// The number of the way that this cell takes.
    fn line_of(&self, planned: &Planned) -> usize {
        let rtt = planned.rtt();
        self.lines.iter().position(|(line, _)| line.rtt == rtt).unwrap_or(0)
    }

    /// The client that this cell needs, and its configuration: that of the cell before, if it will
    /// do.
    async fn client_of(&mut self, planned: &Planned) -> Result<(Client, Config)> {
        let line = self.line_of(planned);
        let wanted = Wanted::by(planned, line);
        let (way, found) = &mut self.lines[line];
        let explained = |error| way.explained(error, self.target);
        let config = self.plan.load_config(&way.config, wanted)?;
        match &self.client {
            Some((made_for, client)) if *made_for == wanted => return Ok((client.clone(), config)),
            _ => self.client = None,
        }
        let client = Client::connect_with(&config).await.map_err(|it| explained(it.into()))?;
        if found.is_none() {
            let rtt_ms = meter::rtt(&client).await.map_err(explained)?;
            *found = Some(LineFound { rtt_added_ms: way.rtt_ms(), rtt_ms });
        }
        self.client = Some((wanted, client.clone()));
        Ok((client, config))
    }
}

impl Plan {
    /// The configuration for the load: the connections of the cell, a long wait for them, and the
    /// tool's schema.
    fn load_config(&self, config: &Config, wanted: Wanted) -> Result<Config> {
        let resolved = config.resolve().map_err(|error| Error::new(error.to_string()))?;
        let mut options: Vec<String> = resolved.options().map(str::to_owned).into_iter().collect();
        if self.has_tables() {
            let is_script = self.cells.iter().any(|cell| matches!(cell.work, Work::Script(_)));
            options.push(if is_script { search_path_of_scripts() } else { search_path() });
        }
        if let Some(level) = wanted.level {
            let level = level.name().replace(' ', "\\ ");
            options.push(format!("-c default_transaction_isolation={level}"));
        }
        let config = match options.is_empty() {
            true => config.clone(),
            false => config.clone().options(options.join(" ")),
        };
        Ok(config
            .application_name(APPLICATION)
            .connections_max(wanted.connections as usize)
            .waiting_max(wanted.waiting_max)
            .wait_timeout(WAIT))
    }
}

/// The client's own default.
const WAITING_MAX: usize = 16_384;

/// How long a task waits for a connection. The wait is part of the measurement, but it must end if
/// no connection can be opened.
const WAIT: Duration = Duration::from_secs(600);

/// Resolves when the session is over. Only the server ends it.
async fn lost(admin: &Session) -> Error {
    while !admin.is_closed() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Error::new("the server ended the connections: was it stopped? Its log says why")
}
