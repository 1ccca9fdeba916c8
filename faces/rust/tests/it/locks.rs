//! A statement that waits for a lock holds up nobody who could go elsewhere, and those behind it
//! only for a while: whoever holds the lock may be waiting for one of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use onetrip::{Client, Error, Outcome, Session};

use crate::support::*;

/// A table with rows 1 to 9, and texts that the client has learned to be quick.
struct Rows {
    table: String,
    update: String,
    select: String,
}

impl Rows {
    async fn new() -> Rows {
        let table = table("id int primary key, n int not null").await;
        let session = session().await;
        let fill = format!("insert into {table} select i, 0 from generate_series(1, 9) i");
        session.execute(&fill, &[]).await.unwrap();
        let update = format!("update {table} set n = n + 1 where id = $1");
        let select = format!("select n from {table} where id = $1");
        Rows { table, update, select }
    }

    async fn learn(&self, client: &Client) {
        for _ in 0..60 {
            client.execute(&self.update, &[&1]).await.unwrap();
            client.query_one(&self.select, &[&7]).await.unwrap();
        }
    }

    /// How many wait for a lock of it.
    async fn waiting(&self, watcher: &Session) -> i64 {
        let text = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query \
             like $1";
        watcher.query_one(text, &[&format!("%{}%", self.table)]).await.unwrap().get(0)
    }

    /// What row 1 counts, beyond what was learned.
    async fn count(&self) -> i32 {
        let row = session().await.query_one(&self.select, &[&1]).await.unwrap();
        row.get::<i32>(0) - 60
    }
}

/// One who holds a row lock reads beside its transaction while another statement waits for
/// that lock on a shared connection.
async fn read_beside_a_lock(settings: &str) {
    let (rows, client) = (Rows::new().await, client_with(settings).await);
    rows.learn(&client).await;
    for _ in 0..3 {
        let tx = client.begin().await.unwrap();
        tx.execute(&rows.update, &[&1]).await.unwrap();
        let other = client.execute(&rows.update, &[&1]);
        let read = client.query_one(&rows.select, &[&7]).await.unwrap();
        assert_eq!(read.get::<i32>(0), 0);
        // Another that waits for a lock is no better.
        client.execute(&rows.update, &[&2]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(other.await.unwrap(), 1);
    }
    assert_eq!(rows.count().await, 6);
}

/// P52.
#[test]
fn a_holder_of_a_lock_reads_beside_its_transaction() {
    run(async { read_beside_a_lock("").await });
}

#[test]
fn a_holder_of_a_lock_reads_beside_its_transaction_with_three_connections() {
    run(async { read_beside_a_lock("connections_max=3").await });
}

/// P52.
#[test]
fn a_holder_of_a_lock_reads_beside_its_transaction_with_two_connections() {
    run(async { read_beside_a_lock("connections_max=2").await });
}

/// P52. What a cancel must not hit, so what stands in front of it could not be taken away.
#[test]
fn a_holder_of_a_lock_sends_pipelines_and_blocks_beside_its_transaction() {
    run(async {
        for settings in ["connections_max=2", "connections_max=3"] {
            let (rows, client) = (Rows::new().await, client_with(settings).await);
            rows.learn(&client).await;
            for _ in 0..3 {
                let tx = client.begin().await.unwrap();
                tx.execute(&rows.update, &[&1]).await.unwrap();
                let others = [(); 2].map(|()| client.execute(&rows.update, &[&1]));
                let mut beside = client.pipeline();
                let read = beside.query_one(&rows.select, &[&7]);
                beside.finish().await.unwrap();
                assert_eq!(read.await.unwrap().get::<i32>(0), 0);
                client.execute("do $$ begin perform 1; end $$", &[]).await.unwrap();
                tx.commit().await.unwrap();
                for other in others {
                    assert_eq!(other.await.unwrap(), 1);
                }
            }
            assert_eq!(rows.count().await, 9);
        }
    });
}

/// P52. What is never taken away: nothing but a limit frees who waits for it.
#[test]
fn a_read_beside_a_pipeline_or_a_block_that_waits_for_its_reader_fails_in_time() {
    run(async {
        let settings = "connections_max=2&wait_timeout_ms=4000";
        let watcher = session().await;
        for in_pipeline in [true, false] {
            let (rows, client) = (Rows::new().await, client_with(settings).await);
            rows.learn(&client).await;
            let tx = client.begin().await.unwrap();
            tx.execute(&rows.update, &[&1]).await.unwrap();
            let mut other = client.pipeline();
            let (waits, end) = if in_pipeline {
                (other.execute(&rows.update, &[&1]), Some(other.finish()))
            } else {
                let update = format!("update {} set n = n + 1 where id = 1", rows.table);
                (client.execute(&format!("do $$ begin {update}; end $$"), &[]), None)
            };
            until(async || rows.waiting(&watcher).await == 1).await;
            let read = client.query_one(&rows.select, &[&7]).await;
            failed(read.map(drop), Outcome::NotSent, "wait_timeout");
            tx.commit().await.unwrap();
            waits.await.unwrap();
            if let Some(end) = end {
                end.await.unwrap();
            }
            assert_eq!(client.query_one(&rows.select, &[&7]).await.unwrap().get::<i32>(0), 0);
            assert_eq!(rows.count().await, 2);
        }
    });
}

#[test]
fn a_read_does_not_go_behind_a_write_while_a_connection_is_idle() {
    run(async {
        let (rows, client) = (Rows::new().await, client_with("yield_after_ms=0").await);
        rows.learn(&client).await;
        let holder = session().await;
        holder.execute("begin", &[]).await.unwrap();
        holder.execute(&rows.update, &[&1]).await.unwrap();
        let waits = client.execute(&rows.update, &[&1]);
        for _ in 0..20 {
            client.query_one(&rows.select, &[&7]).await.unwrap();
        }
        holder.execute("rollback", &[]).await.unwrap();
        assert_eq!(waits.await.unwrap(), 1);
    });
}

/// P52. A client whose one shared connection has a statement that waits for row 1, and one behind
/// it.
#[test]
fn what_waits_for_a_lock_lets_those_behind_it_go_on_and_runs_once() {
    run(async {
        let (rows, client) = (Rows::new().await, client_with("connections_max=2").await);
        rows.learn(&client).await;
        let own = client.session().await.unwrap();
        let holder = session().await;
        holder.execute("begin", &[]).await.unwrap();
        holder.execute(&rows.update, &[&1]).await.unwrap();
        let insert = format!("insert into {} values ($1, 0) returning id", rows.table);
        let waits: Vec<_> = (0..4).map(|_| client.execute(&rows.update, &[&1])).collect();
        let behind: Vec<_> = (10..20).map(|i| client.query_one(&insert, &[&i])).collect();
        for (i, reply) in (10..20).zip(behind) {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i);
        }
        holder.execute("commit", &[]).await.unwrap();
        for reply in waits {
            assert_eq!(reply.await.unwrap(), 1);
        }
        drop(own);
        assert_eq!(rows.count().await, 5);
        assert_eq!(ids(&rows.table).await.len(), 19);
    });
}

#[test]
fn what_was_taken_away_keeps_its_deadline() {
    run(async {
        let (rows, client) = (Rows::new().await, client_with("connections_max=2").await);
        rows.learn(&client).await;
        let own = client.session().await.unwrap();
        let holder = session().await;
        holder.execute("begin", &[]).await.unwrap();
        holder.execute(&rows.update, &[&1]).await.unwrap();
        let waits = client.timeout(Duration::from_millis(900)).execute(&rows.update, &[&1]);
        client.query_one(&rows.select, &[&7]).await.unwrap();
        let error = error(waits.await);
        assert_eq!(error.code(), "timeout", "{error}");
        holder.execute("rollback", &[]).await.unwrap();
        drop(own);
        client.query_one(&rows.select, &[&7]).await.unwrap();
        // If it had been taken away by then, the server had undone it.
        match error.outcome() {
            Outcome::Rejected => assert_eq!(rows.count().await, 0),
            outcome => assert_eq!(outcome, Outcome::Unknown),
        }
    });
}

/// P52. Three tasks lock a row and read beside it, six update: what a web program does.
#[test]
fn tasks_that_lock_and_read_beside_others_that_update_all_go_on() {
    run(async {
        let (rows, client) = (Arc::new(Rows::new().await), client_with("").await);
        rows.learn(&client).await;
        let left = Arc::new(AtomicUsize::new(1500));
        let locked = Arc::new(AtomicUsize::new(0));
        let goes_on = |left: &AtomicUsize| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_ok()
        };
        let mut tasks = Vec::new();
        for at in 0..9 {
            let (rows, client, left) = (rows.clone(), client.clone(), left.clone());
            let locked = locked.clone();
            tasks.push(tokio::spawn(async move {
                while goes_on(&left) {
                    if at < 3 {
                        let tx = client.begin().await.unwrap();
                        tx.execute(&rows.update, &[&1]).await.unwrap();
                        client.query_one(&rows.select, &[&7]).await.unwrap();
                        tx.commit().await.unwrap();
                    } else {
                        assert_eq!(client.execute(&rows.update, &[&1]).await.unwrap(), 1);
                    }
                    locked.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(rows.count().await, locked.load(Ordering::Relaxed) as i32);
    });
}

/// What tasks got done: requests that were acknowledged, those whose outcome is not known, and
/// those that had no effect.
struct Done {
    acknowledged: AtomicUsize,
    unknown: AtomicUsize,
    undone: AtomicUsize,
    /// When the last was acknowledged, and the longest time between two.
    standstill: Mutex<(Instant, Duration)>,
}

impl Done {
    fn new() -> Done {
        let standstill = Mutex::new((Instant::now(), Duration::ZERO));
        let [acknowledged, unknown, undone] = [(); 3].map(|()| AtomicUsize::new(0));
        Done { acknowledged, unknown, undone, standstill }
    }

    fn note(&self, ended: Result<(), Error>) {
        let count = match ended.map_err(|error| error.outcome()) {
            Ok(()) => &self.acknowledged,
            Err(Outcome::Unknown) => &self.unknown,
            Err(Outcome::NotSent | Outcome::Rejected) => &self.undone,
            Err(Outcome::Applied) => panic!("a count that can't be read"),
        };
        count.fetch_add(1, Ordering::Relaxed);
        if std::ptr::eq(count, &self.acknowledged) {
            let mut standstill = self.standstill.lock().unwrap();
            let (last, longest) = *standstill;
            *standstill = (Instant::now(), longest.max(last.elapsed()));
        }
    }
}

async fn lock_and_read(client: &Client, update: &str, select: &str) -> Result<(), Error> {
    let tx = client.begin().await?;
    tx.execute(update, &[]).await?;
    // Another's loss is none of the transaction's.
    let _ = client.query_one(select, &[]).await;
    tx.commit().await
}

/// For how long a run with kills lasts: `ONETRIP_SECONDS`. Without it, until each of some kills had
/// its effect.
fn lasting() -> Option<Duration> {
    let seconds = std::env::var("ONETRIP_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().unwrap()))
}

/// The same while server processes are ended: what was acknowledged counts once.
#[test]
fn what_tasks_that_lock_and_read_were_told_is_true_while_connections_are_killed() {
    const KILLS: usize = 6;
    let lasting = lasting();
    // How much the row counts between two of them.
    let among = if lasting.is_some() { 3_000 } else { 30 };
    // `ONETRIP_KILLS=0`: a run of so many seconds has none.
    let spares = std::env::var("ONETRIP_KILLS").is_ok_and(|it| it == "0");
    run_long(PATIENCE + lasting.unwrap_or_default() * 2, async move {
        let apart = Apart::new().await;
        let t = apart.table("id int primary key, n int not null").await;
        apart.watcher.script(&format!("insert into {t} values (1, 0), (7, 0)")).await.unwrap();
        let client = apart.client_with("").await;
        let (done, stop) = (Arc::new(Done::new()), Arc::new(AtomicUsize::new(0)));
        let update = format!("update {t} set n = n + 1 where id = 1");
        let select = format!("select n from {t} where id = 7");
        let tasks: Vec<_> = (0..9)
            .map(|at| {
                let (client, update, select) = (client.clone(), update.clone(), select.clone());
                let (done, stop) = (done.clone(), stop.clone());
                tokio::spawn(async move {
                    while stop.load(Ordering::Relaxed) == 0 {
                        done.note(match at < 3 {
                            true => lock_and_read(&client, &update, &select).await,
                            false => client.execute(&update, &[]).await.map(|_| ()),
                        });
                    }
                })
            })
            .collect();
        let n = format!("select n from {t} where id = 1");
        let counted = async || apart.watcher.query_one(&n, &[]).await.unwrap().get::<i32>(0);
        let (begun, mut kills) = (Instant::now(), 0);
        while lasting.map_or(kills < KILLS, |lasting| begun.elapsed() < lasting) {
            let before = counted().await;
            until(async || counted().await > before + among).await;
            if !spares {
                apart.kill().await;
                kills += 1;
            }
        }
        stop.store(1, Ordering::Relaxed);
        for task in tasks {
            task.await.unwrap();
        }
        let counted = usize::try_from(counted().await).unwrap();
        let acknowledged = done.acknowledged.load(Ordering::Relaxed);
        let unknown = done.unknown.load(Ordering::Relaxed);
        let (_, standstill) = *done.standstill.lock().unwrap();
        let report = format!(
            "{kills} kills, {acknowledged} acknowledged, {unknown} unknown, {} undone, the row \
             counts {counted}, longest standstill {standstill:?}",
            done.undone.load(Ordering::Relaxed),
        );
        println!("{report}");
        assert!((acknowledged..=acknowledged + unknown).contains(&counted), "{report}");
        // Otherwise it says how busy the machine is.
        assert!(lasting.is_none() || standstill <= Duration::from_millis(1200), "{report}");
    });
}
