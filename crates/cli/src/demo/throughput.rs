//! Point selects without latency, in three ways.

use std::time::{Duration, Instant};

use onetrip::{Client, Error, Reply, Row, Statement};
use onetrip_lab::proxy::Link;

use super::progress::Progress;
use super::{Measured, Setting};

const SELECTS: i32 = 10_000;
const PER_SYNC: i32 = 100;
const SELECT: &str = "select name, price from onetrip_demo.item where id = $1";

#[derive(Clone, Copy)]
enum Way {
    OneByOne,
    SyncEach,
    SyncPerHundred,
}

const WAYS: [(Way, &str, &str); 3] = [
    (Way::OneByOne, "selects_one_by_one", "each awaited"),
    (Way::SyncEach, "selects_sync_each", "pipelined, a Sync each"),
    (Way::SyncPerHundred, "selects_sync_per_100", "pipelined, a Sync per 100"),
];

/// Measures times on a direct connection, and trips in one more run through the proxy.
pub(super) async fn measure(
    setting: &Setting,
    progress: &Progress,
) -> Result<Vec<Measured>, Error> {
    // What is measured is one connection.
    let direct = Client::connect_with(&setting.direct.clone().connections_max(1)).await?;
    let statement = direct.prepare(SELECT).await?;
    let mut times: [Vec<f64>; 3] = Default::default();
    for run in 0..=setting.runs {
        progress.say(match run {
            0 => format!("{SELECTS} point selects: warming up"),
            run => format!("{SELECTS} point selects: run {run} of {}", setting.runs),
        });
        for ((way, ..), times) in WAYS.iter().zip(&mut times) {
            let start = Instant::now();
            select_all(*way, &direct, &statement).await?;
            if run > 0 {
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    progress.say("counting the trips of the point selects");
    let (up, down) = Link::pair(Duration::ZERO);
    // Without delay the proxy takes any link.
    let _ = setting.proxy.set_links(up, down);
    let proxied = Client::connect_with(&setting.proxied.clone().connections_max(1)).await?;
    let statement = proxied.prepare(SELECT).await?;
    let mut measured = Vec::new();
    for ((way, name, what), times) in WAYS.into_iter().zip(times) {
        setting.proxy.reset_stats();
        select_all(way, &proxied, &statement).await?;
        measured.push(Measured::new(name, what, vec![setting.proxy.stats().trips], times));
    }
    Ok(measured)
}

async fn select_all(way: Way, client: &Client, statement: &Statement) -> Result<(), Error> {
    match way {
        Way::OneByOne => {
            for id in 1..=SELECTS {
                read(&client.query_one(statement, &[&id]).await?);
            }
        }
        Way::SyncEach => {
            let select = |id| client.query_one(statement, &[&id]);
            let replies: Vec<Reply<Row>> = (1..=SELECTS).map(select).collect();
            for reply in replies {
                read(&reply.await?);
            }
        }
        Way::SyncPerHundred => {
            for first in (1..=SELECTS).step_by(PER_SYNC as usize) {
                let mut pipeline = client.pipeline();
                let select = |id| pipeline.query_one(statement, &[&id]);
                let replies: Vec<Reply<Row>> = (first..first + PER_SYNC).map(select).collect();
                pipeline.finish().await?;
                for reply in replies {
                    read(&reply.await?);
                }
            }
        }
    }
    Ok(())
}

/// Decodes what was selected, as a program would.
fn read(row: &Row) {
    let row = row.as_ref();
    std::hint::black_box((row.get::<&str>(0), row.get::<f64>(1)));
}
