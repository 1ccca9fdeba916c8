//! Replies are dropped at any moment: their neighbours still get their own replies.

use onetrip::{Client, Reply, Row, Rows, Statement};

use crate::support::*;

/// A submitted request, and how to recognize its reply.
enum Sent {
    Row(i32, Reply<Row>),
    Rows(i32, Reply<Rows>),
    Error(Reply<Row>),
}

fn send(client: &Client, prepared: &Statement, random: &mut Random, own: i32) -> Sent {
    match random.below(6) {
        0 => Sent::Row(own, client.query_one("select $1", &[&own])),
        1 => Sent::Row(own, client.query_one(prepared, &[&own])),
        2 => Sent::Row(own, client.query_one("select $1, repeat('x', 5000)", &[&own])),
        3 => Sent::Rows(own, client.query("select $1, generate_series(1, 40)", &[&own])),
        4 => Sent::Row(
            own,
            client.query_one("select length($2) * 0 + $1", &[&own, &"long".repeat(300)]),
        ),
        _ => Sent::Error(client.query_one("select $1 / 0", &[&own])),
    }
}

async fn receive(sent: Sent) {
    match sent {
        Sent::Row(own, reply) => assert_eq!(reply.await.unwrap().get::<i32>(0), own),
        Sent::Rows(own, reply) => {
            let rows = reply.await.unwrap();
            assert_eq!(rows.len(), 40);
            assert!(rows.iter().all(|row| row.get::<i32>(0) == own));
        }
        Sent::Error(reply) => {
            rejected(reply.await, "22012");
        }
    }
}

async fn poll(sent: &mut Sent) -> bool {
    match sent {
        Sent::Row(_, reply) | Sent::Error(reply) => poll_once(reply).await,
        Sent::Rows(_, reply) => poll_once(reply).await,
    }
}

/// Makes `count` calls, and drops, polls, keeps or awaits their replies as the seed decides.
async fn play(client: &Client, seed: u64, count: i32) {
    let mut random = Random(seed);
    let prepared = client.prepare("select $1::int").await.unwrap();
    let mut kept: Vec<Sent> = Vec::new();
    for own in 0..count {
        let mut sent = send(client, &prepared, &mut random, own);
        match random.below(8) {
            0 | 1 => drop(sent),
            2 => {
                // Awaited once, then given up.
                poll(&mut sent).await;
            }
            3 => {
                receive(sent).await;
            }
            4 => {
                tokio::task::yield_now().await;
                drop(sent);
            }
            _ => kept.push(sent),
        }
        if kept.len() > 100 {
            for _ in 0..60 {
                let sent = kept.swap_remove(random.below(kept.len() as u64) as usize);
                match random.below(3) {
                    0 => drop(sent),
                    _ => receive(sent).await,
                }
            }
        }
    }
    for sent in kept {
        receive(sent).await;
    }
    assert_usable(client).await;
    // A dropped request on another connection may still be unanswered.
    until(async || {
        let pending = client.pending();
        (pending.in_flight, pending.queued, pending.waiting) == (0, 0, 0)
    })
    .await;
}

/// P29. A future that is dropped stops no statement, and its reply still comes.
#[test]
fn dropped_replies_leave_their_neighbours_alone() {
    run(async {
        for seed in 1..=2 {
            play(&client().await, seed, 2000).await;
        }
    });
}

#[test]
fn dropped_replies_leave_their_neighbours_alone_in_a_narrow_window() {
    run(async {
        for (seed, settings) in [
            (11, "in_flight_max=1"),
            (12, "in_flight_max=3&queue_max=2"),
            (13, "in_flight_bytes_max=600&queue_bytes_max=900"),
        ] {
            play(&client_with(settings).await, seed, 1000).await;
        }
    });
}

#[test]
fn dropped_replies_leave_their_neighbours_alone_across_threads() {
    run_threads(async {
        let client = client_with("in_flight_max=50&queue_max=60").await;
        let tasks = (21..27).map(|seed| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut random = Random(seed);
                let prepared = client.prepare("select $1::int").await.unwrap();
                for own in 0..400 {
                    let mut sent = send(&client, &prepared, &mut random, own);
                    match random.below(3) {
                        0 => drop(sent),
                        1 => drop(poll(&mut sent).await),
                        _ => receive(sent).await,
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert_usable(&client).await;
    });
}

/// A reply whose text needs a second trip, dropped before and within each of its stages.
#[test]
fn a_first_use_may_be_dropped_at_any_stage() {
    run(async {
        let client = client().await;
        for polls in 0..12 {
            let sql = format!("select '{{}}'::varchar[] = $1, {polls}");
            let mut reply = client.query_one(&sql, &[&vec!["a"]]);
            let mut ready = false;
            for _ in 0..polls {
                if !ready {
                    ready = poll_once(&mut reply).await;
                    tokio::task::yield_now().await;
                }
            }
            drop(reply);
            assert_usable(&client).await;
        }
    });
}

#[test]
fn dropped_futures_of_prepare_leave_nothing_behind() {
    run(async {
        let session = session().await;
        for i in 0..5 {
            let sql = format!("select {i}");
            let mut prepare = Box::pin(session.prepare(&sql));
            assert!(!poll_once(&mut prepare).await);
            drop(prepare);
        }
        assert_eq!(count(&session, "pg_prepared_statements").await, 0);
    });
}

#[test]
fn dropped_replies_of_a_pipeline_leave_their_neighbours_alone() {
    run(async {
        let client = client().await;
        let mut random = Random(31);
        for round in 0..20 {
            let mut pipeline = client.pipeline();
            let mut kept = Vec::new();
            for own in 0..60 {
                let own = round * 100 + own;
                let mut reply = pipeline.query_one("select $1", &[&own]);
                match random.below(6) {
                    0 | 1 => drop(reply),
                    2 => drop(poll_once(&mut reply).await),
                    3 => assert_eq!(reply.await.unwrap().get::<i32>(0), own),
                    _ => kept.push((own, reply)),
                }
                if random.below(15) == 0 {
                    drop(pipeline.sync());
                }
            }
            pipeline.finish().await.unwrap();
            for (own, reply) in kept {
                assert_eq!(reply.await.unwrap().get::<i32>(0), own, "round {round}");
            }
        }
        assert_usable(&client).await;
    });
}

/// Unwanted replies must not fill the window of their pipeline.
#[test]
fn dropped_replies_of_a_long_pipeline_make_room() {
    run(async {
        let client = client().await;
        let mut pipeline = client.pipeline();
        for i in 0..5000 {
            pipeline.ready().await.unwrap();
            drop(pipeline.query("select $1, repeat('x', 2000)", &[&i]));
        }
        pipeline.finish().await.unwrap();
        assert_usable(&client).await;
    });
}
