//! GET and SET of 64 bytes by many tasks on one connection.

use anyhow::Result;

use super::clients::{Buffers, Commands, Fred, Ours, RedisRs};
use super::load::{Operation, closed_loop};
use super::server::{named, with_server};
use crate::environment::{FRED, REDIS_RS};
use crate::measure::{Sample, Spread, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

/// Commands of one round: some 0.2 s.
const ROUND: usize = 100_000;

/// Rounds of each setting of redis-rs before one is chosen.
const TRIALS: usize = 5;

/// So many tasks, and the bars.
struct Depth {
    name: &'static str,
    tasks: usize,
    redis_rs: Bars,
    fred: Bars,
}

pub fn thousand(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let bars = Bars { cpu: Some(0.6), time: Some(0.6) };
    Depth { name: "redis_1000", tasks: 1000, redis_rs: bars, fred: bars }.run(plan, progress)
}

pub fn hundred(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let redis_rs = Bars { cpu: Some(0.7), time: Some(1.1) };
    Depth { name: "redis_100", tasks: 100, redis_rs, fred: Bars::default() }.run(plan, progress)
}

impl Depth {
    fn run(&self, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
        with_server(self.name, |server| {
            let (url, on) = (server.url(), named(server));
            one_thread()?.block_on(async {
                let ours = Ours::connect(&url).await?;
                let (redis_rs, buffers) = self.best(&url, plan).await?;
                let fred = Fred::connect(&url).await?;
                let redis_rs = (&redis_rs, "redis_rs", REDIS_RS, self.redis_rs);
                let fred = (&fred, "fred", FRED, self.fred);
                let note = format!("{} tasks; {on}; redis-rs: {}", self.tasks, buffers.name());
                let mut rows = Vec::new();
                for operation in Operation::ALL {
                    rows.extend(
                        self.beside(plan, progress, operation, &ours, redis_rs, &note).await?,
                    );
                    rows.extend(self.beside(plan, progress, operation, &ours, fred, &note).await?);
                }
                Ok(rows)
            })
        })
    }

    async fn beside(
        &self,
        plan: Plan,
        progress: &Progress,
        operation: Operation,
        ours: &Ours,
        (peer, short, version, bars): (&impl Commands, &str, &str, Bars),
        note: &str,
    ) -> Result<Vec<Row>> {
        let pairs = paired(
            plan,
            progress,
            async |round| self.round(ours, operation, plan, round).await,
            async |round| self.round(peer, operation, plan, round).await,
        )
        .await?;
        let name = format!("{}.{}.{short}", self.name, operation.name());
        Ok(compared(&name, version, &pairs, bars, note))
    }

    async fn round(
        &self,
        on: &impl Commands,
        operation: Operation,
        plan: Plan,
        round: usize,
    ) -> Result<Sample> {
        let each = ROUND / plan.shorter as usize / self.tasks;
        let count = each * self.tasks;
        let work = closed_loop(on, operation, (self.tasks, each), round * count);
        timed(count as u64, work).await
    }

    /// redis-rs with the settings with which it takes less CPU.
    async fn best(&self, url: &str, plan: Plan) -> Result<(RedisRs, Buffers)> {
        let mut costs = Vec::new();
        for buffers in Buffers::ALL {
            let client = RedisRs::connect(url, buffers).await?;
            if plan.side == Side::Ours {
                return Ok((client, buffers));
            }
            let mut samples = Vec::new();
            for round in 0..=TRIALS {
                samples.push(self.round(&client, Operation::Get, plan, round).await?.cpu_us());
            }
            costs.push((Spread::of(samples).median, client, buffers));
        }
        costs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (_, client, buffers) = costs.swap_remove(0);
        Ok((client, buffers))
    }
}
