//! The money transfer, in four ways.

use std::time::Instant;

use onetrip::{Client, Error, Session};

use super::progress::Progress;
use super::{Measured, Setting};

const DEBIT: &str = "update onetrip_demo.account set balance = balance - $1 where id = $2";
const CREDIT: &str = "update onetrip_demo.account set balance = balance + $1 where id = $2";
const CALL: &str = "call onetrip_demo.transfer($1, $2, $3)";
const AMOUNT: i64 = 5;
const FROM: i32 = 1;
const TO: i32 = 2;

/// Measures the four ways in turn, so that a slow moment of the machine touches all of them.
pub(super) async fn measure(
    setting: &Setting,
    progress: &Progress,
) -> Result<Vec<Measured>, Error> {
    let client = Client::connect_with(&setting.proxied).await?;
    let mut session = client.session().await?;
    let mut ways: [(Vec<u64>, Vec<f64>); 4] = Default::default();
    for run in 0..=setting.runs {
        progress.say(match run {
            0 => "transfer: warming up".to_owned(),
            run => format!("transfer: run {run} of {}", setting.runs),
        });
        for (way, (trips, times)) in ways.iter_mut().enumerate() {
            setting.proxy.reset_stats();
            let start = Instant::now();
            match way {
                0 => one_by_one(&session).await?,
                1 => one_pipeline(&client).await?,
                2 => client.execute(CALL, &[&AMOUNT, &FROM, &TO]).await.map(drop)?,
                _ => ordinary_code(&mut session).await?,
            }
            let elapsed = start.elapsed();
            if run > 0 {
                trips.push(setting.proxy.stats().trips);
                times.push(elapsed.as_secs_f64() * 1e3);
            }
        }
    }
    let names = [
        ("one_by_one", "BEGIN, 2 UPDATEs, COMMIT, each awaited"),
        ("pipeline", "one pipeline"),
        ("procedure", "a PL/pgSQL procedure"),
        ("transaction", "begin, update, update, commit awaited; BEGIN rides along"),
    ];
    let measured = names.into_iter().zip(ways);
    Ok(measured
        .map(|((name, what), (trips, runs))| Measured::new(name, what, trips, runs))
        .collect())
}

/// What every driver does: a trip for each statement.
async fn one_by_one(session: &Session) -> Result<(), Error> {
    session.execute("begin", &[]).await?;
    session.execute(DEBIT, &[&AMOUNT, &FROM]).await?;
    session.execute(CREDIT, &[&AMOUNT, &TO]).await?;
    session.execute("commit", &[]).await?;
    Ok(())
}

/// The statements between two sync points are one transaction, so BEGIN and COMMIT aren't needed.
async fn one_pipeline(client: &Client) -> Result<(), Error> {
    let mut pipeline = client.pipeline();
    let debit = pipeline.execute(DEBIT, &[&AMOUNT, &FROM]);
    let credit = pipeline.execute(CREDIT, &[&AMOUNT, &TO]);
    pipeline.finish().await?;
    debit.await?;
    credit.await?;
    Ok(())
}

/// The code that people write anyway.
async fn ordinary_code(session: &mut Session) -> Result<(), Error> {
    let tx = session.begin().await?;
    tx.execute(DEBIT, &[&AMOUNT, &FROM]).await?;
    tx.execute(CREDIT, &[&AMOUNT, &TO]).await?;
    tx.commit().await
}
