//! One repetition of one cell: its tables as they should be, a warm-up, the load, and what is read
//! around it.

use std::sync::Arc;

use onetrip::{Client, Config, Session};
use onetrip_lab::proxy::Proxy;

use super::meters::Meters;
use super::plan::{Plan, Planned, Work};
use super::recording::Recording;
use crate::error::{Error, Result};
use crate::fortunes::{self, Page};
use crate::load::{self, Load, Operation, Ran, Snapshot, Until};
use crate::meter::Seen;
use crate::results::Key;
use crate::schema::SCHEMA;
use crate::script::{self, ScriptOperation};
use crate::timeline::Timeline;
use crate::{concurrency, trips};

/// A cell's turn.
pub(super) struct Turn<'a> {
    pub(super) plan: &'a Plan,
    pub(super) planned: &'a Planned,
    /// Makes the tables.
    pub(super) admin: &'a Session,
    pub(super) meters: &'a Meters,
    /// Carries the load, and is configured so.
    pub(super) client: Client,
    pub(super) config: &'a Config,
    /// Of all random choices of this repetition.
    pub(super) seed: u64,
    /// Records what goes over the line, where that is wanted.
    pub(super) proxy: Option<&'a Proxy>,
    pub(super) watch: &'a (dyn Fn(Snapshot) + Sync),
}

/// What a turn came to.
pub(super) struct Taken {
    pub(super) ran: Ran,
    /// What the server's sessions did meanwhile.
    pub(super) seen: Seen,
    /// The last operation as it went over the line, where that was recorded.
    pub(super) timeline: Option<Timeline>,
}

/// Transactions of each connection, and calls of each task, that come before a repetition. A statement is
/// prepared at its fifth use.
const WARM_UP_TRANSACTIONS: u64 = 6;
const WARM_UP_CALLS: u64 = 2;

impl Turn<'_> {
    pub(super) async fn take(self) -> Result<Taken> {
        match &self.planned.work {
            Work::Concurrency(workload) => self.transactions(*workload).await,
            Work::Trips(way) => self.trips(*way).await,
            Work::Script(plan) => self.scripts(plan).await,
            Work::Fortunes(mode) => self.page(*mode).await,
            Work::Redis(_) => Err(Error::new("commands of Redis need a Redis")),
        }
    }

    async fn transactions(&self, workload: concurrency::Workload) -> Result<Taken> {
        let key = &self.planned.key;
        let isolation = key.isolation.map_or(onetrip::Isolation::ReadCommitted, Into::into);
        let Plan { rows, one_trip, .. } = *self.plan;
        let settings = concurrency::Settings { isolation, rows, one_trip, seed: self.seed };
        let tasks = |count| concurrency::Task::all(workload, &self.client, settings, count);
        concurrency::make_tables(self.admin, rows).await?;
        // Each connection prepares the statement, and then all is as it was.
        warm_up(tasks(key.connections), WARM_UP_TRANSACTIONS).await?;
        concurrency::make_tables(self.admin, rows).await?;
        self.run(tasks(key.tasks)).await
    }

    async fn trips(&self, way: trips::Way) -> Result<Taken> {
        warm_up(trips::Task::all(way, &self.client, self.seed).await?, WARM_UP_CALLS).await?;
        let taken = self.run(trips::Task::all(way, &self.client, self.seed).await?).await?;
        if way.fills() {
            trips::empty_tables(self.admin).await?;
        }
        Ok(taken)
    }

    async fn scripts(&self, plan: &Arc<script::Plan>) -> Result<Taken> {
        // What the warm-up draws is not drawn again: it may be a key that is in a table by now.
        warm_up(self.clients(plan, !self.seed).await?, WARM_UP_CALLS).await?;
        self.run(self.clients(plan, self.seed).await?).await
    }

    /// As many as the cell has tasks: on connections of their own where there are enough.
    async fn clients(&self, plan: &Arc<script::Plan>, seed: u64) -> Result<Vec<ScriptOperation>> {
        let Key { tasks, connections, .. } = self.planned.key;
        let clients = match connections < tasks {
            true => ScriptOperation::on_client(&self.client, plan, tasks),
            false => ScriptOperation::on_sessions(&self.client, plan, tasks).await?,
        };
        if let Some(first) = clients.first() {
            first.prepare().await?;
        }
        Ok(clients.into_iter().map(|it| it.reseeded(seed)).collect())
    }

    /// The page has connections of its own, in place of the client's.
    async fn page(self, mode: fortunes::Mode) -> Result<Taken> {
        let Turn { planned, meters, client, config, seed, watch, .. } = self;
        drop(client);
        let Key { tasks, connections, .. } = planned.key;
        let page = Page::start(config, SCHEMA, mode, connections as usize).await?;
        page.load(tasks as usize, each(WARM_UP_CALLS), &|_| ()).await?;
        let before = meters.begin(page.trips());
        let load = Load { seed, ..planned.load };
        let mut ran = page.load(tasks as usize, load, watch).await?;
        let seen = meters.end(before, page.trips(), &mut ran.repetition);
        page.stop().await;
        Ok(Taken { ran, seen, timeline: None })
    }

    async fn run<O: Operation>(&self, tasks: Vec<O>) -> Result<Taken> {
        let trips = || self.client.metrics().counts.trips;
        let recording = self.proxy.map(Recording::begin);
        let before = self.meters.begin(trips());
        let load = Load { seed: self.seed, ..self.planned.load };
        let mut ran = load::run(tasks, load, self.watch).await?;
        let recorded = recording.map(Recording::end);
        let seen = self.meters.end(before, trips(), &mut ran.repetition);
        let timeline = recorded.and_then(|it| it.timeline(&ran.repetition));
        Ok(Taken { ran, seen, timeline })
    }
}

pub(super) async fn warm_up<O: Operation>(tasks: Vec<O>, count: u64) -> Result<()> {
    load::run(tasks, each(count), &|_| ()).await.map(drop)
}

/// So many operations of each task, as fast as they can.
fn each(count: u64) -> Load {
    Load { until: Until::Each(count), rate: None, seed: 0 }
}
