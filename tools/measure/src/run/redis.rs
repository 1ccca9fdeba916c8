//! Works through a plan on Redis or Valkey: keys, connections, warm-ups and repetitions.

use std::sync::Arc;
use std::time::Instant;

use onetrip::redis::Client;
use onetrip::redis::commands::*;

use super::found::Found;
use super::plan::{Plan, Planned, Work};
use super::progress::{Estimate, Progress, Watch};
use super::stage::Stage;
use super::turn::warm_up;
use crate::error::{Error, Result};
use crate::load::{self, Load, Ran, Snapshot};
use crate::meter::Seen;
use crate::redis::{self, Keys, Meters, PATIENCE, Target, Task, Way};
use crate::results::{Cell, Line as LineFound, Server};

/// Calls that come before a repetition: with the first a connection learns the script.
const WARM_UP_CALLS: u64 = 1;

/// A run that has begun.
pub(super) struct RedisStage<'a> {
    plan: &'a Plan,
    watch: &'a dyn Watch,
    keys: Arc<Keys>,
    /// Makes and removes the keys.
    admin: Client,
    /// Whether keys may be there.
    has_keys: bool,
    meters: Meters,
    lines: Vec<(redis::Line, Option<LineFound>)>,
    /// The client that carries the load, and its line.
    client: Option<(usize, Client)>,
    found: Vec<Found>,
    estimate: Estimate,
}

impl<'a> RedisStage<'a> {
    /// Connects, and asks what the server is. Nothing is written there yet.
    pub(super) async fn begin(
        target: &'a Target,
        plan: &'a Plan,
        watch: &'a dyn Watch,
    ) -> Result<RedisStage<'a>> {
        let (admin, meters) = Meters::connect(target).await?;
        let lines = plan.rtts().into_iter().map(|rtt| Ok((target.line(rtt)?, None)));
        let cells = plan.cells.len();
        Ok(RedisStage {
            plan,
            watch,
            keys: target.keys.clone(),
            admin,
            has_keys: false,
            meters,
            lines: lines.collect::<Result<_>>()?,
            client: None,
            found: vec![Found::default(); cells],
            estimate: Estimate::new(cells),
        })
    }

    async fn measure(&mut self, cell: usize, left: &[usize], done: usize) -> Result<()> {
        let planned = &self.plan.cells[cell];
        let client = self.client_of(planned).await?;
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
        let ran = self.run(planned, &client, seed, &watch).await?;
        self.watch.measured(&progress(Snapshot::default()), &ran.repetition);
        self.found[cell].add(ran, &Seen::default());
        Ok(())
    }

    /// A warm-up, the load, and what is read around it.
    async fn run(
        &self,
        planned: &Planned,
        client: &Client,
        seed: u64,
        watch: &(dyn Fn(Snapshot) + Sync),
    ) -> Result<Ran> {
        let way = way_of(planned)?;
        let task = Task::new(way, client, &self.keys, seed).await?;
        warm_up(vec![task.clone()], WARM_UP_CALLS).await?;
        let trips = || client.metrics().counts.trips;
        let before = self.meters.begin(trips()).await;
        let load = Load { seed, ..planned.load };
        let mut ran = load::run(vec![task.clone()], load, watch).await?;
        self.meters.end(before, trips(), &mut ran.repetition).await;
        Ok(ran)
    }

    /// The client of this cell's line: that of the cell before, if it will do.
    async fn client_of(&mut self, planned: &Planned) -> Result<Client> {
        let line = self.lines.iter().position(|(line, _)| line.rtt == planned.rtt()).unwrap_or(0);
        if let Some((its, client)) = &self.client
            && *its == line
        {
            return Ok(client.clone());
        }
        self.client = None;
        let (way, found) = &mut self.lines[line];
        // The session of WATCH, which the next one waits for.
        let config = way.config.clone().limits(|limits| limits.connections_max = 1);
        let client = Client::connect_with(&config).await?;
        if found.is_none() {
            let rtt_ms = redis::rtt(&client).await?;
            *found = Some(LineFound { rtt_added_ms: planned.key.rtt_added_ms, rtt_ms });
        }
        self.client = Some((line, client.clone()));
        Ok(client)
    }

    /// Waits until no command is in flight that could write a key again: a connection runs earlier
    /// commands before the one sent now.
    async fn settle(&self) {
        let Some((_, client)) = &self.client else { return };
        // If the connection is lost, so are its commands.
        let _ = client.timeout(PATIENCE).ping().await;
        let watches = |cell: &Planned| way_of(cell).is_ok_and(Way::has_session);
        if self.plan.cells.iter().any(watches)
            && let Ok(session) = client.session().await
        {
            let _ = session.ping().await;
        }
    }
}

fn way_of(planned: &Planned) -> Result<Way> {
    match planned.work {
        Work::Redis(way) => Ok(way),
        _ => Err(Error::new("a workload with tables can't be measured on Redis")),
    }
}

impl Stage for RedisStage<'_> {
    async fn work(&mut self) -> Result<()> {
        self.watch.doing("writing the keys");
        self.has_keys = true;
        self.keys.fill(&self.admin).await?;
        let order = self.plan.order();
        for (done, cell) in order.iter().copied().enumerate() {
            let start = Instant::now();
            self.measure(cell, &order[done..], done).await?;
            self.estimate.note(cell, start.elapsed());
        }
        Ok(())
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
        if !self.has_keys {
            return Ok(());
        }
        self.watch.doing("removing the keys");
        // A server that hangs is not waited for twice.
        let _ = tokio::time::timeout(PATIENCE, self.settle()).await;
        self.keys.remove(&self.admin).await
    }
}
