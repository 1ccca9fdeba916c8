//! Masters of a cluster that die.

use std::time::{Duration, Instant};

use onetrip::Outcome;
use onetrip::redis::{Client, Command, Config};
use onetrip_lab::redis::Cluster;

use super::cluster::start;

/// How long calls may wait: longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(600);

/// The longest wait until all go on once a replica has taken over. It takes about a second.
const GOES_ON: Duration = Duration::from_secs(600);

/// Keys in hash slots all over the cluster.
const KEYS: usize = 60;

fn key(number: usize) -> String {
    format!("key:{number}")
}

async fn connect(cluster: &Cluster, wait_timeout: Duration) -> Client {
    let config: Config = cluster.urls()[0].parse().unwrap();
    let nodes = cluster.nodes()[1..].iter();
    let config = nodes.fold(config, |config, node| config.server("127.0.0.1", node.port()));
    let config = config.limits(|limits| limits.wait_timeout = wait_timeout);
    Client::connect_with(&config.cluster(true)).await.unwrap()
}

/// The node that has the first key. All its keys have that node for as long as no slot moves.
fn first_master(cluster: &Cluster) -> usize {
    let ask = Command::new("CLUSTER KEYSLOT").arg(key(0));
    let slot = cluster.nodes()[0].plain().unwrap().tell(&ask).unwrap();
    let onetrip_lab::redis::Answer::Number(slot) = slot else { panic!("{slot:?} is no slot") };
    cluster.master_of(u16::try_from(slot).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_were_not_sent_outlast_the_crash_of_their_master() {
    let Some(mut cluster) = start(3, 3) else { return };
    let client = connect(&cluster, PATIENCE).await;
    for number in 0..KEYS {
        client.cmd("SET").arg(key(number)).arg(0).send::<()>().await.unwrap();
    }
    let (taken_over, is_over) = tokio::sync::watch::channel(false);
    let writers: Vec<_> = (0..KEYS)
        .map(|number| {
            let (client, is_over) = (client.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut unknown = 0;
                loop {
                    let was_over = *is_over.borrow();
                    let write = client.cmd("INCR").arg(key(number)).send::<i64>().await;
                    match write {
                        Ok(_) if was_over => return unknown,
                        Ok(_) => {}
                        Err(error) if error.outcome() == Outcome::Unknown => unknown += 1,
                        Err(error) => panic!("{}: {error}", key(number)),
                    }
                }
            })
        })
        .collect();
    let master = first_master(&cluster);
    cluster.kill_node(master).unwrap();
    cluster.wait_ok().unwrap();
    let since = Instant::now();
    taken_over.send(true).unwrap();
    let mut unknown = 0;
    for writer in writers {
        unknown += tokio::time::timeout(GOES_ON, writer).await.expect("it goes on").unwrap();
    }
    println!("all go on {:?} after the cluster was well, {unknown} unknown", since.elapsed());
    assert!(unknown <= KEYS, "each had one call in flight");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_no_node_serves_waits_once() {
    const WAIT: Duration = Duration::from_secs(2);
    let Some(mut cluster) = start(3, 0) else { return };
    let client = connect(&cluster, WAIT).await;
    client.cmd("SET").arg(key(0)).arg(0).send::<()>().await.unwrap();
    let master = first_master(&cluster);
    cluster.kill_node(master).unwrap();
    // The first may be in flight when the connection is lost.
    let _ = client.cmd("GET").arg(key(0)).send::<i64>().await;
    for _ in 0..2 {
        let since = Instant::now();
        let calls: Vec<_> = (0..20).map(|_| client.cmd("INCR").arg(key(0)).send::<i64>()).collect();
        for call in calls {
            let error = call.await.unwrap_err();
            assert_eq!(error.outcome(), Outcome::NotSent, "{error}");
        }
        let waited = since.elapsed();
        println!("{waited:?}");
        assert!(waited < 2 * WAIT, "{waited:?} are more than one wait");
    }
}
