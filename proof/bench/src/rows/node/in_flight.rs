//! Many selects at a time: on one connection, and over a pool of 10.

use anyhow::Result;

use super::super::process::{Language, Task};
use super::super::turns::{Runner, beside, cheaper};
use super::{setup, with_items, with_node};
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::stage::Stage;
use crate::{Plan, Side};

pub const HUNDRED: &str = "node_in_flight_100";
pub const THOUSAND: &str = "node_in_flight_1000";
pub const POOL: &str = "node_pool_100";

/// Selects of one round: some 0.2 s.
const ROUND: u32 = 10_000;

/// How many at a time, on how many connections, and the bars.
struct Load {
    name: &'static str,
    in_flight: u32,
    connections: u32,
    pg: Bars,
    postgres_js: Bars,
}

const ONE_PG: Bars = Bars { cpu: Some(0.65), time: Some(0.7) };
const ONE_POSTGRES_JS: Bars = Bars { cpu: Some(0.75), time: Some(0.8) };

pub fn hundred(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let load = Load {
        name: HUNDRED,
        in_flight: 100,
        connections: 1,
        pg: ONE_PG,
        postgres_js: ONE_POSTGRES_JS,
    };
    let mut rows = load.run(stage, plan, progress)?;
    rows.extend(load.shown("moment", stage, plan, progress)?);
    Ok(rows)
}

pub fn thousand(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let load = Load {
        name: THOUSAND,
        in_flight: 1_000,
        connections: 1,
        pg: ONE_PG,
        postgres_js: ONE_POSTGRES_JS,
    };
    load.run(stage, plan, progress)
}

pub fn pool(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let load = Load {
        name: POOL,
        in_flight: 100,
        connections: 10,
        pg: Bars { cpu: Some(0.45), time: Some(0.6) },
        postgres_js: Bars { cpu: Some(0.35), time: Some(0.6) },
    };
    load.run(stage, plan, progress)
}

impl Load {
    fn run(&self, stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
        with_node(self.name, || {
            with_items(stage)?;
            let mut rows = self.of("value", stage, plan, progress)?;
            rows.extend(self.of("item", stage, plan, progress)?);
            Ok(rows)
        })
    }

    /// The same without a bar.
    fn shown(
        self,
        work: &'static str,
        stage: &Stage,
        plan: Plan,
        progress: &Progress,
    ) -> Result<Vec<Row>> {
        let none = Bars { cpu: None, time: None };
        let load = Load { pg: none, postgres_js: none, ..self };
        with_node(self.name, || load.of(work, stage, plan, progress))
    }

    /// `value` is `select $1::int`, `item` a row of six columns by its key, `moment` an update that
    /// stores a Date in a column without a zone.
    fn of(
        &self,
        work: &'static str,
        stage: &Stage,
        plan: Plan,
        progress: &Progress,
    ) -> Result<Vec<Row>> {
        let url = stage.server.url();
        let operations = ROUND / plan.shorter;
        let task = |driver| self.task(driver, work, operations);
        let pg = [task("pg"), Task { named: true, ..task("pg") }];
        let pg = match plan.side {
            Side::Ours => task("pg"),
            _ => cheaper(pg, operations / 2, &url)?,
        };
        let how = if pg.named { "with" } else { "without" };
        let note = format!(
            "{} at a time on {} connection(s), each asks again when it was answered; pg: {how} \
             names for statements; {}",
            self.in_flight,
            self.connections,
            setup::note(),
        );
        let mut runners = vec![Runner::ours("onetrip_pg", task("onetrip_pg"))];
        if setup::has("modern") {
            runners.push(Runner::aside("modern", task("onetrip")));
        }
        runners.push(Runner::peer("pg", pg, self.pg));
        runners.push(Runner::peer("postgres_js", task("postgres_js"), self.postgres_js));
        let name = format!("{}.{work}", self.name);
        beside(plan, progress, (&name, operations), &runners, &url, &note)
    }

    fn task(&self, driver: &'static str, work: &'static str, operations: u32) -> Task {
        Task {
            language: Language::Node,
            driver,
            work,
            in_flight: self.in_flight,
            connections: self.connections,
            // A pool of pg's lends a connection for each query, whatever it is told.
            pipeline: true,
            named: false,
            warmth: operations / 2,
        }
    }
}
