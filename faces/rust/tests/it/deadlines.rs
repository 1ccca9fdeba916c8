//! A deadline covers everything that a call asks and waits for.

use std::time::Duration;

use onetrip::Outcome;
use onetrip_lab::proxy::{Direction, Fault, Link, Proxy, Scope};

use crate::pooled::shared;
use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

/// A statement is answered within it, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(4);

/// A query whose result has an unknown type.
async fn unknown_type() -> String {
    let name = shared().new_name();
    session().await.script(&format!("create type {name} as enum ('a')")).await.unwrap();
    format!("select 'a'::{name}")
}

fn stall(proxy: &Proxy, stalls: bool) {
    let direction = Direction::Down;
    let fault = if stalls { Fault::Stall { direction } } else { Fault::Resume { direction } };
    proxy.fault(fault, Scope::All);
}

/// Checks that it ends before a timer of the same runtime. On a busy machine that is late by as much
/// as the deadlines are.
async fn before<T>(limit: Duration, future: impl Future<Output = T>) -> T {
    let passed = async {
        tokio::time::sleep(limit).await;
        // What was due before may not have reached us yet.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        result = future => result,
        () = passed => panic!("it takes longer than {limit:?}"),
    }
}

/// Checks that it ends within one deadline, and not after several.
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    before(LIMIT * 3 / 2, future).await
}

/// The result has arrived; unknown type names are no reason to lose it.
#[test]
fn the_types_of_a_result_are_looked_up_within_the_deadline_of_its_statement() {
    run(async {
        let proxy = proxy();
        let all = client_through(&proxy, "request_timeout_ms=4000&cancel_on_timeout=0").await;
        let each = client_through(&proxy, "cancel_on_timeout=0").await;
        for way in 0..4 {
            let sql = unknown_type().await;
            let mut pipeline = each.timeout(LIMIT).pipeline();
            let reply = match way {
                0 => all.query(&sql, &[]),
                1 => all.repeatable().query(&sql, &[]),
                2 => each.timeout(LIMIT).query(&sql, &[]),
                _ => pipeline.query(&sql, &[]),
            };
            pipeline.finish().await.unwrap();
            let open =
                |client: &onetrip::Client| client.pending().in_flight + client.pending().waiting;
            until(async || open(&all) + open(&each) == 0).await;
            stall(&proxy, true);
            let rows = in_time(reply).await.unwrap();
            assert_eq!((rows.len(), rows.is_provisional()), (1, false));
            stall(&proxy, false);
        }
    });
}

#[test]
fn who_shares_a_look_up_with_a_patient_caller_keeps_its_own_deadline() {
    run(async {
        let (proxy, sql) = (proxy(), unknown_type().await);
        let client = client_through(&proxy, "cancel_on_timeout=0&connections_max=1").await;
        let mut patient = client.query(&sql, &[]);
        let hurried = client.timeout(LIMIT).query(&sql, &[]);
        until(async || client.pending().in_flight == 0).await;
        stall(&proxy, true);
        assert!(!poll_once(&mut patient).await);
        assert_eq!(in_time(hurried).await.unwrap().len(), 1);
        stall(&proxy, false);
        let rows = patient.await.unwrap();
        assert!(sql.ends_with(rows.columns()[0].type_().name()), "the answer was taken");
    });
}

#[test]
fn types_are_learned_by_name_within_one_deadline() {
    run(async {
        let name = shared().new_name();
        session().await.script(&format!("create type {name} as enum ('a')")).await.unwrap();
        let proxy = proxy();
        let client = client_through(&proxy, "request_timeout_ms=1000&cancel_on_timeout=0").await;
        let (up, down) = Link::pair(Duration::from_millis(400));
        proxy.set_links(up, down).unwrap();
        let error = error(before(SECOND * 3 / 2, client.learn_types(&[&name])).await);
        assert_eq!((error.outcome(), error.code()), (Outcome::Unknown, "timeout"));
    });
}

/// Each connection that the read gets is slow to open, and is lost again.
#[test]
fn a_repeatable_read_waits_for_connections_for_one_wait_timeout_in_all() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "wait_timeout_ms=1000&sslmode=disable").await;
        let (up, down) = Link::pair(SECOND / 6);
        proxy.set_links(up, down).unwrap();
        let ends = "select pg_terminate_backend(pg_backend_pid())";
        let reply = client.repeatable().query(ends, &[]);
        let lost = error(before(SECOND * 5 / 2, reply).await);
        assert_eq!(lost.outcome(), Outcome::Unknown, "{lost}");
    });
}

/// Each statement of a transaction that waits for room in the queue has its own deadline.
#[test]
fn a_hurried_statement_is_late_in_line_behind_a_patient_one() {
    run(async {
        let gate = Gate::closed().await;
        let client = client_with("in_flight_max=1&queue_max=1&cancel_on_timeout=0").await;
        let mut session = client.session().await.unwrap();
        let ahead = [session.query(&gate.statement(), &[]), session.query("select 1", &[])];
        let tx = session.begin().await.unwrap();
        let patient = tx.timeout(Duration::MAX).query("select 1", &[]);
        let hurried = tx.timeout(LIMIT).query("select 1", &[]);
        failed(in_time(hurried).await, Outcome::Unknown, "timeout");
        gate.open().await;
        patient.await.unwrap();
        for reply in ahead {
            reply.await.unwrap();
        }
        tx.commit().await.unwrap();
    });
}

#[test]
fn the_rows_of_an_isolated_batch_have_the_deadline_that_it_was_given() {
    run(async {
        let (gate, client) = (Gate::closed().await, client_with("connections_max=1").await);
        let sql = format!("select $1::int from {}", gate.table);
        let report = in_time(client.timeout(LIMIT).batch(&sql, [(1,)]).isolated()).await;
        assert_eq!(report.stopped().map(onetrip::Error::code), Some("timeout"));
        gate.open().await;
        // Nor does it wait longer for a connection.
        let _session = client.session().await.unwrap();
        let report =
            in_time(client.timeout(LIMIT).batch("select $1::int", [(1,)]).isolated()).await;
        let stopped = report.stopped().unwrap();
        assert_eq!((stopped.outcome(), stopped.kind()), (Outcome::NotSent, onetrip::Kind::Timeout));
    });
}

#[test]
fn a_listener_that_is_not_answered_says_so_in_time() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "request_timeout_ms=4000").await;
        let listener = client.listener().await.unwrap();
        stall(&proxy, true);
        let name = shared().new_name();
        failed(in_time(listener.listen(&name)).await, Outcome::Unknown, "timeout");
        stall(&proxy, false);
    });
}
