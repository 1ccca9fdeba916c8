//! What one user of a connection leaves behind, or does too late, does not concern the next.

use std::task::Poll;
use std::time::Duration;

use onetrip::{Client, RunOptions, Session};
use onetrip_lab::proxy::{Direction, Fault, Scope};

use crate::pooled::shared;
use crate::support::*;

async fn backend(session: &Session) -> i32 {
    session.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0)
}

async fn enumeration() -> String {
    let name = shared().new_name();
    let create = format!("create type {name} as enum ('a')");
    session().await.script(&create).await.unwrap();
    name
}

/// Answered, and not awaited: the query for its types is sent only when it is awaited.
async fn answered_with_an_unknown_type(client: &Client) -> onetrip::Reply<onetrip::Rows> {
    let reply = client.query(&format!("select 'a'::{}", enumeration().await), &[]);
    until(async || client.pending().in_flight == 0).await;
    reply
}

#[test]
fn a_pipeline_of_a_transaction_that_was_over_before_it_began_runs_nothing() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        let tx = client.begin().await.unwrap();
        let mut pipeline = tx.pipeline();
        tx.commit().await.unwrap();
        let insert = pipeline.execute(&format!("insert into {t} values (1)"), &[]);
        assert!(pipeline.finish().await.is_err());
        assert!(insert.await.is_err());
        let mut session = client.session().await.unwrap();
        let mut tx = session.begin().await.unwrap();
        let savepoint = tx.savepoint();
        let mut pipeline = savepoint.pipeline();
        savepoint.rollback().await.unwrap();
        drop(pipeline.execute(&format!("insert into {t} values (2)"), &[]));
        assert!(pipeline.finish().await.is_err());
        tx.commit().await.unwrap();
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_transaction_is_not_committed_without_its_late_pipeline() {
    run(async {
        let t = table("id int").await;
        let settings = "connections_max=2&in_flight_max=2&cancel_on_timeout=0";
        let (client, gate) = (client_with(settings).await, Gate::closed().await);
        let tx = client.begin().await.unwrap();
        tx.execute(&format!("insert into {t} values (0)"), &[]).await.unwrap();
        let slow = [tx.query(&gate.statement(), &[]), tx.query(&gate.statement(), &[])];
        let mut pipeline = tx.timeout(Duration::from_millis(100)).pipeline();
        let insert = pipeline.execute(&format!("insert into {t} values (1)"), &[]);
        let finish = pipeline.finish();
        let commit = tx.commit();
        let (_, _) = (finish.await, insert.await);
        gate.open().await;
        drop(slow);
        let committed = commit.await;
        assert!(committed.is_err() || ids(&t).await.contains(&1), "{committed:?}");
    });
}

#[test]
fn a_large_value_that_is_given_up_in_line_leaves_its_transaction_usable() {
    run(async {
        let (client, gate) = (client_with("in_flight_max=4").await, Gate::closed().await);
        let insert = format!("insert into {} values ($1)", table("v bytea").await);
        let statement = client.prepare(&insert).await.unwrap();
        let mut tx = client.begin().await.unwrap();
        let slow: Vec<_> = (0..6).map(|_| tx.query(&gate.statement(), &[])).collect();
        let value = tokio::io::repeat(7);
        let mut large = Box::pin(tx.execute_large(&statement, &[], 100_000, value));
        assert!(!poll_once(&mut large).await);
        drop(large);
        gate.open().await;
        for reply in slow {
            reply.await.unwrap();
        }
        tx.rollback().await.unwrap();
    });
}

#[test]
fn a_reply_that_is_awaited_late_asks_nothing_in_a_strangers_transaction() {
    run(async {
        let client = client_with("connections_max=1").await;
        let reply = answered_with_an_unknown_type(&client).await;
        let session = client.session().await.unwrap();
        session.execute("begin", &[]).await.unwrap();
        reply.await.unwrap();
        // Allowed only as the first statement of its transaction.
        let first = "set transaction isolation level repeatable read";
        session.execute(first, &[]).await.unwrap();
    });
}

#[test]
fn a_reply_that_is_awaited_when_its_connection_came_back_knows_its_types() {
    run(async {
        let client = client_with("connections_max=1").await;
        let reply = answered_with_an_unknown_type(&client).await;
        drop(client.session().await.unwrap());
        assert_usable(&client).await;
        let rows = reply.await.unwrap();
        assert_eq!(rows.columns()[0].type_().kind(), &onetrip::types::Kind::Enum(vec!["a".into()]));
    });
}

#[test]
fn a_transaction_that_a_session_left_open_is_not_its_successors_fault() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "connections_max=1").await;
        let session = client.session().await.unwrap();
        session.execute("begin", &[]).await.unwrap();
        drop(session);
        // So that the answer to the reset comes in pieces.
        proxy.fault(Fault::ByteAtATime { direction: Direction::Down, on: true }, Scope::All);
        client.query_one("select 1", &[]).await.unwrap();
    });
}

#[test]
fn a_session_that_is_granted_and_not_wanted_keeps_its_predecessors_reset() {
    run(async {
        let client = client_with("connections_max=1").await;
        let first = client.session().await.unwrap();
        let key = backend(&first).await;
        first.query("select pg_advisory_lock($1::int)", &[&key]).await.unwrap();
        let mut second = Box::pin(client.session());
        assert!(!poll_once(&mut second).await);
        drop(first);
        drop(second);
        let other = session().await;
        let locks =
            "select count(*) from pg_locks where locktype = 'advisory' and objid = $1::int::oid";
        until(async || other.query_one(locks, &[&key]).await.unwrap().get::<i64>(0) == 0).await;
    });
}

#[test]
fn the_lifetime_of_a_busy_connection_ends() {
    run_long(crate::support::PATIENCE, async {
        let client = client_with("lifetime_ms=1000").await;
        let first = backend(&client.session().await.unwrap()).await;
        until(async || backend(&client.session().await.unwrap()).await != first).await;
    });
}

/// P73.
#[test]
fn the_lifetime_of_a_connection_ends_that_is_busy_with_others_in_line() {
    run_long(crate::support::PATIENCE, async {
        let client = client_with("lifetime_ms=1000&connections_max=1").await;
        let slow = || client.query_one("select pg_backend_pid() from pg_sleep(0.4)", &[]);
        let (first, second, third) = tokio::join!(slow(), slow(), slow());
        let pids = [first, second, third].map(|row| row.unwrap().get::<i32>(0));
        let row = client.query_one("select pg_backend_pid()", &[]).await.unwrap();
        assert!(!pids.contains(&row.get::<i32>(0)));
    });
}

#[test]
fn a_session_whose_cancel_went_astray_gives_its_connection_up() {
    run(async {
        let proxy = proxy();
        let name = shared().new_name();
        let settings = format!("connections_max=1&cancel_timeout_ms=100&application_name={name}");
        let client = client_through(&proxy, &settings).await;
        let session = client.session().await.unwrap();
        let before = backend(&session).await;
        proxy.fault(Fault::Stall { direction: Direction::Up }, Scope::Future);
        let reply = session.query("select pg_sleep(1)", &[]);
        let cancel = session.canceller().cancel();
        let _ = (reply.await, cancel.await);
        until(async || session.is_closed() || client.pending().in_flight == 0).await;
        proxy.clear_faults();
        drop(session);
        let after = backend(&client.session().await.unwrap()).await;
        let other = crate::support::session().await;
        let sql = "select count(*) from pg_stat_activity where application_name = $1";
        if before != after {
            until(async || {
                other.query_one(sql, &[&name.as_str()]).await.unwrap().get::<i64>(0) == 1
            })
            .await;
        }
        drop(client);
        until(async || other.query_one(sql, &[&name.as_str()]).await.unwrap().get::<i64>(0) == 0)
            .await;
    });
}

/// "A COMMIT that was sent stays sent."
#[test]
fn a_commit_that_nobody_waits_for_is_not_cancelled() {
    run(async {
        let (t, gate) = (table("id int").await, Gate::closed().await);
        let deferred = format!(
            "create function {t}_f() returns trigger language plpgsql as \
             $$ begin perform 1 from {}; return null; end $$; \
             create constraint trigger t after insert on {t} deferrable initially deferred \
             for each row execute procedure {t}_f()",
            gate.table
        );
        session().await.script(&deferred).await.unwrap();
        let client = client_with("cancel_on_drop=1").await;
        let tx = client.begin().await.unwrap();
        tx.execute(&format!("insert into {t} values (1)"), &[]).await.unwrap();
        let mut commit = Box::pin(tx.commit());
        assert!(!poll_once(&mut commit).await);
        gate.waiting_pid().await;
        drop(commit);
        gate.open().await;
        until(async || ids(&t).await.len() == 1).await;
    });
}

#[test]
fn a_call_for_the_next_row_may_be_dropped_at_any_byte() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "").await;
        assert_usable(&client).await;
        proxy.fault(Fault::ByteAtATime { direction: Direction::Down, on: true }, Scope::All);
        let sql = "select repeat('x', 10000) from generate_series(1, 20)";
        let mut rows = client.query_stream(sql, &[]).await.unwrap();
        let mut seen = 0;
        loop {
            let mut next = Box::pin(rows.next_in_pieces());
            let next = std::future::poll_fn(|cx| match next.as_mut().poll(cx) {
                Poll::Ready(row) => Poll::Ready(Some(row.unwrap().is_some())),
                Poll::Pending => Poll::Ready(None),
            });
            match next.await {
                Some(true) => seen += 1,
                Some(false) => break,
                None => tokio::task::yield_now().await,
            }
        }
        assert_eq!(seen, 20);
    });
}

#[test]
fn a_timeout_without_end_is_none() {
    run(async {
        let options = RunOptions::new().timeout(Duration::MAX);
        let once = async |tx: &mut onetrip::Transaction<'_>| tx.query_one("select 1", &[]).await;
        client().await.run_with(options, once).await.unwrap();
    });
}
