//! Statements that share connections: a quick one does not wait for a slow one if another
//! connection can take it, and statements that are known to be quick share a trip.

use std::time::Duration;

use onetrip::{Client, Session, alone};
use onetrip_lab::proxy::{Direction, Fault, Scope};

use crate::support::*;

const QUICK: &str = "select $1::int";

/// Runs the text until the client knows that it is quick.
async fn learn(client: &Client) {
    for i in 0..60 {
        assert_eq!(client.query_one(QUICK, &[&i]).await.unwrap().get::<i32>(0), i);
    }
}

/// P34.
#[test]
fn ten_quick_statements_do_not_wait_for_a_slow_one_of_the_same_tick() {
    run(async {
        let (gate, client) = (Gate::closed().await, client_with("").await);
        let slow = client.query(&gate.statement(), &[]);
        let quick: Vec<_> = (0..10).map(|i| client.query_one(QUICK, &[&i])).collect();
        for (i, reply) in (0..10).zip(quick) {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i);
        }
        held_up_nobody(&client, &gate.statement());
        gate.open().await;
        slow.await.unwrap();
    });
}

/// P34.
#[test]
fn pipelines_that_are_slow_do_not_wait_for_one_another() {
    run(async {
        let (gate, client) = (Gate::closed().await, client_with("connections_max=5").await);
        let mut pipelines: Vec<_> = (0..3).map(|_| client.pipeline()).collect();
        let slow: Vec<_> =
            pipelines.iter_mut().map(|it| it.query(&gate.statement(), &[])).collect();
        let ends: Vec<_> = pipelines.into_iter().map(|it| it.finish()).collect();
        let mut quick = client.pipeline();
        let row = quick.query_one(QUICK, &[&1]);
        quick.finish().await.unwrap();
        assert_eq!(row.await.unwrap().get::<i32>(0), 1);
        until(async || client.connections() >= 4).await;
        held_up_nobody(&client, &gate.statement());
        gate.open().await;
        for (end, slow) in ends.into_iter().zip(slow) {
            end.await.unwrap();
            slow.await.unwrap();
        }
    });
}

#[test]
fn a_pipeline_needs_no_connection_before_its_first_statement() {
    run(async {
        let client = client_with("connections_max=1").await;
        let session = client.session().await.unwrap();
        let mut pipeline = client.pipeline();
        pipeline.flush();
        pipeline.ready().await.unwrap();
        client.pipeline().finish().await.unwrap();
        drop(session);
        let row = pipeline.query_one(QUICK, &[&1]);
        pipeline.finish().await.unwrap();
        assert_eq!(row.await.unwrap().get::<i32>(0), 1);
    });
}

#[test]
fn a_text_that_runs_in_pipelines_alone_becomes_known() {
    run(async {
        // On a busy machine the two may look like more work than one connection is to have.
        until(async || connections_for_two_known_from_pipelines().await == 1).await;
    });
}

/// How many connections two statements at once get, of a text that ran in pipelines alone. Without
/// knowing it, the client would open a second one.
async fn connections_for_two_known_from_pipelines() -> usize {
    let client = client_with("connections_max=5&slow_head_ms=60000").await;
    for i in 0..60 {
        let mut pipeline = client.pipeline();
        let row = pipeline.query_one(QUICK, &[&i]);
        pipeline.finish().await.unwrap();
        assert_eq!(row.await.unwrap().get::<i32>(0), i);
    }
    let both: Vec<_> = (0..2).map(|i| client.query_one(QUICK, &[&i])).collect();
    for (i, reply) in (0..2).zip(both) {
        assert_eq!(reply.await.unwrap().get::<i32>(0), i);
    }
    client.connections()
}

/// On a busy machine, a quick statement may look slow to those behind it.
fn held_up_nobody(client: &Client, text: &str) {
    let slow = client.metrics().slow_neighbours;
    assert!(slow.iter().all(|one| &*one.text != text), "{slow:?}");
}

#[test]
fn twenty_quick_statements_of_one_tick_make_one_trip_on_one_connection() {
    run(async {
        let proxy = proxy();
        // No statement counts as slow here, however busy the machine is.
        let client = client_through(&proxy, "connections_max=5&slow_head_ms=60000").await;
        learn(&client).await;
        let twenty = async || {
            proxy.reset_stats();
            proxy.fault(Fault::Stall { direction: Direction::Down }, Scope::All);
            let all: Vec<_> = (0..20).map(|i| client.query_one(QUICK, &[&i])).collect();
            let resume = async {
                proxy.fault(Fault::Resume { direction: Direction::Down }, Scope::All);
            };
            let replies = async {
                for reply in all {
                    reply.await.unwrap();
                }
            };
            tokio::join!(biased; replies, resume);
            proxy.stats().trips
        };
        // On a busy machine the first few may take long enough to be spread.
        until(async || twenty().await == 1).await;
        let mut sessions = Vec::new();
        for _ in 0..5 {
            sessions.push(client.session().await.unwrap());
        }
        drop(sessions);
        until(async || client.metrics().idle == 5).await;
        until(async || twenty().await == 1).await;
        assert_eq!(client.connections(), 5, "though others are idle");
    });
}

#[test]
fn nothing_goes_behind_a_statement_that_wants_to_be_alone() {
    run(async {
        let (gate, client) = (Gate::closed().await, client_with("connections_max=2").await);
        learn(&client).await;
        let slow = client.query(&alone(&gate.statement()), &[]);
        learn(&client).await;
        let prepared = client.prepare(QUICK).await.unwrap();
        assert_eq!(client.query_one(&alone(&prepared), &[&7]).await.unwrap().get::<i32>(0), 7);
        gate.open().await;
        slow.await.unwrap();
    });
}

#[test]
fn while_all_connections_are_slow_the_first_that_is_free_takes_what_waits() {
    run(async {
        let (one, other) = (Gate::closed().await, Gate::closed().await);
        let client = client_with("connections_max=2").await;
        learn(&client).await;
        let slow = [client.query(&one.statement(), &[]), client.query(&other.statement(), &[])];
        one.waiting_pid().await;
        other.waiting_pid().await;
        let quick: Vec<_> = (0..10).map(|i| client.query_one(QUICK, &[&i])).collect();
        assert_eq!(client.pending().waiting, 10);
        let [first, second] = slow;
        other.open().await;
        second.await.unwrap();
        for (i, reply) in (0..10).zip(quick) {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i);
        }
        one.open().await;
        first.await.unwrap();
    });
}

#[test]
fn who_waited_behind_whom_is_counted() {
    run(async {
        let client = client_with("connections_max=1").await;
        learn(&client).await;
        let slow = client.query("select pg_sleep(0.05), 'a report'", &[]);
        let quick: Vec<_> = (0..3).map(|i| client.query_one(QUICK, &[&i])).collect();
        slow.await.unwrap();
        for reply in quick {
            reply.await.unwrap();
        }
        let metrics = client.metrics();
        assert!(metrics.counts.waited_behind_slow >= 3, "{metrics:?}");
        let text = "select pg_sleep(0.05), 'a report'";
        let one = metrics.slow_neighbours.iter().find(|one| &*one.text == text).unwrap();
        assert_eq!(one.statements, 3);
        assert!(one.longest >= Duration::from_millis(49), "{one:?}");
    });
}

/// A statement that is taken back, or whose connection is lost, holds up nobody any more.
#[test]
fn what_was_dropped_holds_nobody_up() {
    run(async {
        let (one, other) = (Gate::closed().await, Gate::closed().await);
        let client = client_with("connections_max=2").await;
        learn(&client).await;
        for _ in 0..5 {
            let slow = [client.query(&one.statement(), &[]), client.query(&other.statement(), &[])];
            let pids = [one.waiting_pid().await, other.waiting_pid().await];
            let mut waits: Vec<_> = (0..4).map(|_| client.query(&one.statement(), &[])).collect();
            for reply in &mut waits {
                assert!(!poll_once(reply).await);
            }
            assert_eq!(client.pending().waiting, 4);
            drop(waits);
            assert_eq!(client.pending().waiting, 0);
            for pid in pids {
                terminate(pid).await;
            }
            for reply in slow {
                failed(reply.await, onetrip::Outcome::Unknown, "connection_lost");
            }
            learn(&client).await;
            until(async || client.metrics().idle == client.connections()).await;
        }
        one.open().await;
        other.open().await;
    });
}

/// A text that is quick as a rule, and waits for a lock this time.
const LOCK: &str = "select pg_advisory_xact_lock_shared($1::bigint)";

/// A client with two connections, of which a session has one. Delays of a busy machine don't count
/// as slow.
async fn with_lock_learned() -> (Client, Session) {
    let client = client_with("connections_max=2&slow_head_ms=300").await;
    let other = client.session().await.unwrap();
    learn(&client).await;
    for _ in 0..60 {
        client.execute(LOCK, &[&1_i64]).await.unwrap();
    }
    (client, other)
}

#[test]
fn a_hedged_read_behind_a_late_head_is_answered_by_another_connection() {
    const KEY: i64 = 77_001;
    run(async {
        let (client, other) = with_lock_learned().await;
        let holder = session().await;
        holder.execute("begin", &[]).await.unwrap();
        holder.execute("select pg_advisory_xact_lock($1)", &[&KEY]).await.unwrap();

        let late = client.execute(LOCK, &[&KEY]);
        let reads = client.repeatable();
        let plain = reads.query_one(QUICK, &[&1]);
        let hedged = reads.hedged().query_one(QUICK, &[&2]);
        drop(other);
        assert_eq!(hedged.await.unwrap().get::<i32>(0), 2);
        assert_eq!(client.metrics().counts.hedged, 1);

        holder.execute("rollback", &[]).await.unwrap();
        late.await.unwrap();
        assert_eq!(plain.await.unwrap().get::<i32>(0), 1);
        // The answer that nobody waited for was read.
        until(async || client.metrics().idle == 2).await;
        assert_eq!(client.query_one(QUICK, &[&3]).await.unwrap().get::<i32>(0), 3);
    });
}

#[test]
fn a_hedged_read_whose_reply_is_dropped_leaves_both_connections_in_order() {
    const KEY: i64 = 77_002;
    run(async {
        let (client, other) = with_lock_learned().await;
        let holder = session().await;
        holder.execute("begin", &[]).await.unwrap();
        holder.execute("select pg_advisory_xact_lock($1)", &[&KEY]).await.unwrap();
        let late = client.execute(LOCK, &[&KEY]);
        let mut hedged = client.repeatable().hedged().query_one(QUICK, &[&2]);
        drop(other);
        until(async || poll_once(&mut hedged).await || client.metrics().counts.hedged == 1).await;
        drop(hedged);
        holder.execute("rollback", &[]).await.unwrap();
        late.await.unwrap();
        until(async || client.metrics().idle == 2).await;
        learn(&client).await;
    });
}
