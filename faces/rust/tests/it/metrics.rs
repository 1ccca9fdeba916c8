//! The counters of a client match what happened.

use std::time::Duration;

use crate::pooled::shared;
use onetrip::{Client, Metrics};
use onetrip_lab::proxy::{Direction, Fault, Scope};

use crate::support::*;

/// How much some work has added to the counters.
macro_rules! added {
    ($before:expr, $after:expr, $($field:ident),+) => {
        ($($after.counts.$field - $before.counts.$field),+)
    };
}

async fn idle(client: &Client) -> Metrics {
    until(async || client.metrics().idle == client.metrics().open).await;
    client.metrics()
}

#[test]
fn requests_are_counted_by_their_end() {
    run(async {
        let client = client().await;
        let before = client.metrics();
        client.query("select 1", &[]).await.unwrap();
        error(client.query("select 1 / 0", &[]).await);
        error(client.query_one("select 1 where false", &[]).await);
        let mut pipeline = client.pipeline();
        drop(pipeline.execute("select 1", &[]));
        pipeline.finish().await.unwrap();
        let after = idle(&client).await;
        let counts = added!(before, after, failed_rejected, failed_applied, failed_not_sent);
        assert_eq!(counts, (1, 1, 0));
        assert_eq!(after.counts.failed_in_all(), 2);
        // One statement, one without a row, and the pipeline's statement with its sync point.
        let completed = added!(before, after, completed);
        assert!((3..=5).contains(&completed), "{completed}");
    });
}

#[test]
fn trips_and_bytes_are_those_of_the_wire() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "sslmode=disable&connections_max=1").await;
        assert_usable(&client).await;
        proxy.reset_stats();
        let before = client.metrics();
        for _ in 0..5 {
            client.query("select 1", &[]).await.unwrap();
        }
        let mut pipeline = client.pipeline();
        for _ in 0..10 {
            drop(pipeline.execute("select 3", &[]));
        }
        pipeline.finish().await.unwrap();
        let (after, wire) = (client.metrics(), proxy.stats());
        let counted = added!(before, after, trips, bytes_sent, bytes_received);
        assert_eq!(counted, (wire.trips, wire.bytes_up, wire.bytes_down));
        // Each of the first ones was awaited, and the pipeline left in one write.
        assert_eq!(counted.0, 6);
    });
}

#[test]
fn uses_of_prepared_statements_are_hits_but_for_the_first() {
    run(async {
        let client = client_with("prepare_threshold=3&connections_max=1").await;
        for number in 0..10 {
            client.query("select $1::int + 1", &[&number]).await.unwrap();
        }
        let counts = client.metrics().counts;
        assert_eq!((counts.prepared_misses, counts.prepared_hits), (1, 7));
        assert_eq!(counts.healed, 0);
    });
}

#[test]
fn what_is_healed_is_counted() {
    run(async {
        let (client, t) = (client_with("prepare_threshold=1").await, table("id int").await);
        let sql = format!("select * from {t}");
        client.query(&sql, &[]).await.unwrap();
        session().await.execute(&format!("alter table {t} add b int"), &[]).await.unwrap();
        client.query(&sql, &[]).await.unwrap();
        assert_eq!(client.metrics().counts.healed, 1);
    });
}

#[test]
fn what_is_under_way_is_shown_as_it_is() {
    run(async {
        let (gate, client) =
            (Gate::closed().await, client_with("in_flight_max=2&connections_max=1").await);
        let replies: Vec<_> = (0..5).map(|_| client.query_one(&gate.statement(), &[])).collect();
        gate.waiting_pid().await;
        let metrics = client.metrics();
        let on_way: usize = metrics.connections.iter().map(|it| it.in_flight + it.queued).sum();
        assert_eq!((metrics.in_flight + metrics.queued, on_way), (5, 5));
        assert!(metrics.idle < metrics.open && metrics.open == metrics.connections.len());
        let server = &metrics.connections[0].server;
        assert!(server.ends_with(&shared().port().to_string()), "{server}");
        gate.open().await;
        for reply in replies {
            reply.await.unwrap();
        }
        let metrics = idle(&client).await;
        assert_eq!((metrics.in_flight, metrics.queued, metrics.waiting), (0, 0, 0));
    });
}

#[test]
fn who_waits_for_a_connection_is_in_the_histogram() {
    run(async {
        let client = client_with("connections_max=1").await;
        assert_usable(&client).await;
        assert_eq!(client.metrics().waits.count(), 0);
        let held = client.session().await.unwrap();
        let mut waits = Box::pin(client.session());
        assert!(!poll_once(&mut waits).await);
        let waits_too = client.query("select 1", &[]);
        assert_eq!(client.metrics().waiting, 2);
        // Long enough to be distinguished from nothing.
        held.query("select pg_sleep(0.02)", &[]).await.unwrap();
        drop(held);
        drop(waits.await.unwrap());
        waits_too.await.unwrap();
        let waits = client.metrics().waits;
        assert_eq!(waits.count(), 2);
        assert!(waits.p50().unwrap() >= Duration::from_millis(20), "{waits:?}");
        assert!(waits.p99().unwrap() < PATIENCE, "{waits:?}");
    });
}

#[test]
fn connections_are_counted_as_they_come_and_go_and_no_count_is_lost_with_them() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "").await;
        assert_usable(&client).await;
        let before = client.metrics();
        assert_eq!((before.opened, before.open, before.lost, before.closed), (1, 1, 0, 0));
        proxy.fault(Fault::CutAfter { direction: Direction::Down, bytes: 0 }, Scope::Present);
        until(async || client.metrics().open == 0).await;
        let after = client.metrics();
        assert_eq!((after.opened, after.lost, after.closed), (1, 1, 0));
        assert_eq!(after.counts, before.counts);
        assert_usable(&client).await;
        assert_eq!(client.metrics().opened, 2);
    });
}

#[test]
fn an_idle_connection_that_is_closed_is_not_lost() {
    run(async {
        let client = client_with("idle_timeout_ms=100").await;
        until(async || client.metrics().closed == 1).await;
        assert_eq!((client.metrics().lost, client.metrics().open), (0, 0));
    });
}

#[test]
fn attempts_that_fail_are_counted() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "wait_timeout_ms=300").await;
        drop(proxy);
        until(async || client.metrics().open == 0).await;
        error(client.query("select 1", &[]).await);
        assert!(client.metrics().open_failed >= 1);
    });
}
