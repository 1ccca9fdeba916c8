//! A transfer between two accounts over a line with a round trip of 100 ms, in four ways.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use onetrip::{Client, Error, Session, Statement};
use onetrip_lab::proxy::{Proxy, ProxyConfig};

use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::{RTT, Stage, one_thread};
use crate::{Plan, Side};

const RUNS: usize = 5;

const DEBIT: &str = "update account set balance = balance - $1 where id = $2";
const CREDIT: &str = "update account set balance = balance + $1 where id = $2";
const CALL: &str = "call transfer($1, $2, $3)";

/// One way to send it: its name, the trips that it may take, and the time in round trips.
const WAYS: [(&str, Way, u64, f64); 4] = [
    ("transfer_one_by_one", Way::OneByOne, 4, 4.1),
    ("transfer_pipeline", Way::Pipeline, 1, 1.1),
    ("transfer_procedure", Way::Procedure, 1, 1.1),
    ("transfer_transaction", Way::Transaction, 3, 3.1),
];

#[derive(Clone, Copy, Debug)]
enum Way {
    OneByOne,
    Pipeline,
    Procedure,
    Transaction,
}

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    let proxy = Proxy::start(ProxyConfig::new(stage.addr()).with_rtt(RTT))
        .context("cannot start the proxy")?;
    one_thread()?.block_on(async {
        let teller = Teller::connect(stage, &proxy).await?;
        let mut rows = Vec::new();
        for (number, (name, way, trips_max, rtts_max)) in WAYS.into_iter().enumerate() {
            let (times, trips) = measure(stage, &proxy, &teller, way).await?;
            progress.tick(number + 1, WAYS.len());
            let times = Spread::of(times.iter().map(|time| time.as_secs_f64() * 1e3));
            let time = (times, RTT.as_secs_f64() * 1e3);
            rows.push(Row::multiple(&format!("{name}.time"), "ms", time, "round trip", rtts_max));
            let trips = Spread::of([trips as f64]);
            rows.push(Row::alone(&format!("{name}.trips"), "trips", trips, Some(trips_max as f64)));
        }
        Ok(rows)
    })
}

/// Runs a way a few times; the most trips of a run count.
async fn measure(
    stage: &Stage,
    proxy: &Proxy,
    teller: &Teller,
    way: Way,
) -> Result<(Vec<Duration>, u64)> {
    let (mut times, mut trips) = (Vec::new(), 0);
    // It would hold the only connection, on which the other ways share.
    let mut till = match way {
        Way::OneByOne | Way::Transaction => Some(Till::open(&teller.client).await?),
        Way::Pipeline | Way::Procedure => None,
    };
    let before = balances(stage).await?;
    for _ in 0..RUNS {
        proxy.reset_stats();
        let start = Instant::now();
        match (way, &mut till) {
            (Way::OneByOne, Some(till)) => till.one_by_one().await,
            (Way::Transaction, Some(till)) => till.transaction().await,
            (Way::Procedure, _) => teller.procedure().await,
            _ => teller.pipeline().await,
        }
        .with_context(|| format!("the transfer ({way:?}) failed"))?;
        times.push(start.elapsed());
        trips = trips.max(proxy.stats().trips);
    }
    let moved = RUNS as i64;
    let wanted = (before.0 - moved, before.1 + moved);
    ensure!(balances(stage).await? == wanted, "the transfer ({way:?}) moved another amount");
    Ok((times, trips))
}

/// Balances of the two accounts, asked for past the proxy.
async fn balances(stage: &Stage) -> Result<(i64, i64)> {
    let client = stage.ours().await?;
    let one = client.query_one("select balance from account where id = 1", &[]);
    let two = client.query_one("select balance from account where id = 2", &[]);
    Ok((one.await?.get(0), two.await?.get(0)))
}

/// On the shared connection.
struct Teller {
    client: Client,
    debit: Statement,
    credit: Statement,
    call: Statement,
}

impl Teller {
    async fn connect(stage: &Stage, proxy: &Proxy) -> Result<Teller> {
        let client = stage.ours_through(proxy.addr()).await?;
        let debit = client.prepare(DEBIT).await?;
        let credit = client.prepare(CREDIT).await?;
        let call = client.prepare(CALL).await?;
        Ok(Teller { client, debit, credit, call })
    }

    async fn pipeline(&self) -> Result<(), Error> {
        let mut pipeline = self.client.pipeline();
        let debit = pipeline.execute(&self.debit, &[&1_i64, &1]);
        let credit = pipeline.execute(&self.credit, &[&1_i64, &2]);
        pipeline.finish().await?;
        debit.await?;
        credit.await?;
        Ok(())
    }

    async fn procedure(&self) -> Result<(), Error> {
        self.client.execute(&self.call, &[&1, &2, &1_i64]).await.map(drop)
    }
}

/// On a session of its own.
struct Till {
    session: Session,
    debit: Statement,
    credit: Statement,
}

impl Till {
    async fn open(client: &Client) -> Result<Till, Error> {
        let session = client.session().await?;
        let debit = session.prepare(DEBIT).await?;
        let credit = session.prepare(CREDIT).await?;
        Ok(Till { session, debit, credit })
    }

    async fn one_by_one(&mut self) -> Result<(), Error> {
        self.session.execute("begin", &[]).await?;
        self.session.execute(&self.debit, &[&1_i64, &1]).await?;
        self.session.execute(&self.credit, &[&1_i64, &2]).await?;
        self.session.execute("commit", &[]).await.map(drop)
    }

    async fn transaction(&mut self) -> Result<(), Error> {
        let transaction = self.session.begin().await?;
        transaction.execute(&self.debit, &[&1_i64, &1]).await?;
        transaction.execute(&self.credit, &[&1_i64, &2]).await?;
        transaction.commit().await
    }
}
