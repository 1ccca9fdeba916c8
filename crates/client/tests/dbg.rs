#![allow(unused)]
use std::time::Duration;
use onetrip::*;
use onetrip_lab::postgres::shared;
#[tokio::test]
async fn unread() {
    let client = Client::connect(&shared().url()).await.unwrap();
    let mut pipeline = client.pipeline();
    let mut replies = Vec::new();
    loop {
        match tokio::time::timeout(Duration::from_secs(3), pipeline.ready()).await {
            Ok(Ok(())) => replies.push(pipeline.query("select repeat('x', 10000)", &[])),
            Ok(Err(e)) => { println!("err {e} after {}", replies.len()); break }
            Err(_) => { println!("READY HANGS after {} {:?}", replies.len(), client.pending()); 
               println!("again: {:?}", tokio::time::timeout(Duration::from_secs(3), pipeline.ready()).await);
               break }
        }
    }
    for (i, r) in replies.into_iter().enumerate() {
        if tokio::time::timeout(Duration::from_secs(3), r).await.is_err() { println!("REPLY {i} HANGS {:?}", client.pending()); break }
    }
    println!("ready {:?}", tokio::time::timeout(Duration::from_secs(3), pipeline.ready()).await);
    println!("finish {:?}", tokio::time::timeout(Duration::from_secs(3), pipeline.finish()).await);
}
#[tokio::test]
async fn after_finish() {
    for (n, size) in [(100, 100_000), (1_000, 3_000), (1024, 3000), (1025, 3000), (3_000, 3_000), (3000, 10)] {
    let client = Client::connect(&shared().url()).await.unwrap();
    let mut pipeline = client.pipeline();
    let replies: Vec<_> = (0..n).map(|i| pipeline.query_one("select $1, repeat('x', $2)", &[&i, &size])).collect();
    println!("{n} {size} finish {:?} {:?}", tokio::time::timeout(Duration::from_secs(3), pipeline.finish()).await, client.pending());
    }
}
async fn many(limit: &str, tasks: i32, kinds: &[i32], threads: bool) {
    let client = Client::connect(&format!("{}?{limit}", shared().url())).await.unwrap();
    let handles: Vec<_> = (0..tasks).map(|task| { let client = client.clone(); let kinds = kinds.to_vec(); tokio::spawn(async move {
        for round in 0..9usize {
            let mut pipeline = client.pipeline();
            for id in 0..5 { drop(pipeline.execute("select $1", &[&id])); }
            let count = pipeline.query_one("select 1", &[]);
            match kinds[round % kinds.len()] {
                0 => drop(pipeline),
                1 => { let f = pipeline.query("select 1/0", &[]); let e = pipeline.finish().await; let _ = f.await; let _ = count.await; }
                _ => { pipeline.finish().await.unwrap(); count.await.unwrap(); }
            }
        }
    })}).collect();
    let all = async { for h in handles { h.await.unwrap(); } };
    let r = tokio::time::timeout(Duration::from_secs(4), all).await;
    println!("{limit} tasks {tasks} kinds {kinds:?} threads {threads}: {} {:?}", if r.is_ok() {"ok"} else {"HANGS"}, client.pending());
}
#[tokio::test]
async fn m1() { for limit in ["", "in_flight_max=20"] { for kinds in [&[0][..], &[1], &[2], &[0,2],&[1,2], &[0,1]] { for tasks in [1,2,12] { many(limit, tasks, kinds, false).await; } } } }
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn m4() { for limit in ["", "in_flight_max=20"] { for kinds in [&[0][..], &[1], &[2], &[0,2],&[1,2], &[0,1]] { for tasks in [1,2,12] { many(limit, tasks, kinds, true).await; } } } }
