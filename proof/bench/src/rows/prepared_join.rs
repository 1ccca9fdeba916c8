//! A join of five tables by key, prepared and not, pipelined: what preparing gives, beside what it
//! gives pgbench on the same server.

use anyhow::{Context, Result, ensure};
use onetrip::{Client, Config};

use crate::measure::{Sample, Spread, timed};
use crate::pgbench::{self, Pgbench};
use crate::progress::Progress;
use crate::report::{Row, beside};
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

const NAME: &str = "prepared_join";

/// Of our ratio to pgbench's.
const RATIO_MIN: f64 = 0.95;

/// Joins with one sync point.
const SIZE: u32 = 50;

/// Pipelines of one round, prepared and not: some 0.5 s each.
const PREPARED: u32 = 100;
const UNPREPARED: u32 = 15;

/// A round takes 8 s, nearly all of them pgbench's.
const ROUNDS_MAX: usize = 7;

/// Rows in each table.
const KEYS: u32 = 1000;

const CREATE: &str = "
    create table country (id int primary key, name text not null unique);
    create table city (id int primary key, name text not null unique,
        country int not null references country);
    create table maker (id int primary key, name text not null unique,
        city int not null references city);
    create table product (id int primary key, name text not null unique,
        maker int not null references maker);
    create table line (id int primary key, name text not null unique,
        product int not null references product);
    insert into country select i, 'country ' || i from generate_series(1, 1000) as i;
    insert into city select i, 'city ' || i, i from generate_series(1, 1000) as i;
    insert into maker select i, 'maker ' || i, i from generate_series(1, 1000) as i;
    insert into product select i, 'product ' || i, i from generate_series(1, 1000) as i;
    insert into line select i, 'line ' || i, i from generate_series(1, 1000) as i;
    create index on city (country);
    create index on maker (city);
    create index on product (maker);
    create index on line (product);
    analyze country, city, maker, product, line;";

/// `KEY` is where the key goes.
const JOIN: &str = "select line.id, line.name, product.name, maker.name, city.name, country.name \
    from line join product on product.id = line.product join maker on maker.id = product.maker \
    join city on city.id = maker.city join country on country.id = city.country \
    where line.id = KEY";

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    let pgbench = match plan.side {
        Side::Ours => None,
        _ => match Pgbench::find() {
            Ok(pgbench) => Some(pgbench),
            Err(error) => return Ok(vec![Row::skipped(NAME, &format!("{error:#}"))]),
        },
    };
    let (mut ours, mut theirs) = (Rates::default(), Rates::default());
    one_thread()?.block_on(async {
        stage.peer().await?.batch_execute(CREATE).await?;
        let (prepared, unprepared) = (open(stage, 1).await?, open(stage, 0).await?);
        let rounds = plan.rounds.min(ROUNDS_MAX);
        for round in 0..=rounds {
            let with = pipelines(&prepared, PREPARED / plan.shorter).await?;
            let without = pipelines(&unprepared, UNPREPARED / plan.shorter).await?;
            let counts = round > 0;
            if counts {
                ours.add(with.rate(), without.rate());
            }
            if let (true, Some(pgbench)) = (counts, &pgbench) {
                theirs.add(
                    rate_of(pgbench, stage, "prepared")?,
                    rate_of(pgbench, stage, "extended")?,
                );
            }
            progress.tick(round, rounds);
        }
        anyhow::Ok(())
    })?;
    let version = pgbench.map_or(String::new(), |pgbench| pgbench.version);
    Ok(ours.rows(&theirs, &version))
}

/// Joins per second of each round.
#[derive(Default)]
struct Rates {
    prepared: Vec<f64>,
    unprepared: Vec<f64>,
}

impl Rates {
    fn add(&mut self, prepared: f64, unprepared: f64) {
        self.prepared.push(prepared);
        self.unprepared.push(unprepared);
    }

    fn gains(&self) -> Vec<f64> {
        self.prepared.iter().zip(&self.unprepared).map(|(with, without)| with / without).collect()
    }

    fn rows(&self, peer: &Rates, version: &str) -> Vec<Row> {
        let note = "the rate prepared (prepare_threshold=1) in multiples of the rate unprepared (0); \
            pgbench: -M prepared and -M extended between \\startpipeline and \\endpipeline, the first \
            second not counted; 50 joins with one sync point";
        let row = |name: &str, unit, ours: &[f64], theirs: &[f64]| {
            beside(name, unit, version, (ours, theirs))
        };
        vec![
            row(NAME, "× unprepared", &self.gains(), &peer.gains()).at_least(RATIO_MIN).note(note),
            row("prepared_join.prepared", "1/s", &self.prepared, &peer.prepared),
            row("prepared_join.unprepared", "1/s", &self.unprepared, &peer.unprepared),
        ]
    }
}

async fn open(stage: &Stage, prepare_threshold: u32) -> Result<Client> {
    let config: Config = stage.server.url().parse()?;
    let config = config.connections_max(1).prepare_threshold(prepare_threshold);
    Client::connect_with(&config).await.context("onetrip cannot connect")
}

/// Runs pipelines, each after the last was read, and sees that each row is the one of its key.
async fn pipelines(client: &Client, count: u32) -> Result<Sample> {
    let sql = JOIN.replace("KEY", "$1");
    timed(u64::from(count * SIZE), async {
        for number in 0..count {
            let mut pipeline = client.pipeline();
            let keys = (0..SIZE).map(|at| ((number * SIZE + at) * 7919 % KEYS) as i32 + 1);
            let replies: Vec<_> =
                keys.map(|key| (key, pipeline.query_one(sql.as_str(), &[&key]))).collect();
            pipeline.finish().await?;
            for (key, reply) in replies {
                let row = reply.await?;
                let row = row.as_ref();
                let (id, country): (i32, &str) = (row.get(0), row.get(5));
                let right = country.strip_prefix("country ").and_then(|it| it.parse().ok());
                ensure!(id == key && right == Some(key), "a join returned another row");
            }
        }
        Ok(u64::from(count * SIZE))
    })
    .await
}

/// pgbench's joins per second, after a second in which each statement is prepared and its plan is
/// settled.
fn rate_of(pgbench: &Pgbench, stage: &Stage, mode: &str) -> Result<f64> {
    let mut command = pgbench.on(&stage.server);
    command.args(["--time=3", "--progress=1", "--file=-"]).arg(format!("--protocol={mode}"));
    let output = pgbench::finish(command, &script())?;
    let said = String::from_utf8_lossy(&output.stderr);
    // progress: 2.0 s, 163.0 tps, lat 6.105 ms stddev 0.340, 0 failed
    let rates = said.lines().filter_map(|line| line.strip_prefix("progress: "));
    let rates = rates.filter_map(|line| line.split_whitespace().nth(2)?.parse::<f64>().ok());
    let rates: Vec<f64> = rates.skip(1).collect();
    ensure!(!rates.is_empty(), "pgbench tells no rates: {said}");
    Ok(Spread::of(rates).median * f64::from(SIZE))
}

/// A pipeline of joins by random keys.
fn script() -> String {
    let join = JOIN.replace("KEY", ":key");
    let joins = format!("\\set key random(1, {KEYS})\n{join};\n").repeat(SIZE as usize);
    format!("\\startpipeline\n{joins}\\endpipeline\n")
}
