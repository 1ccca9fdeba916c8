//! Batches: many parameter sets for one statement, atomic or isolated, in flights of bounded size.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::pooled::shared;
use onetrip::types::{ToSql, Type};
use onetrip::{BatchError, Outcome, ParameterSet, typed, unprepared};

use crate::parameters::Naughty;
use crate::queries::deferred_table;
use crate::support::*;

/// An error of this row, with this outcome, and perhaps this SQLSTATE.
#[track_caller]
fn row_failed(error: &BatchError, index: u64, outcome: Outcome, sqlstate: Option<&str>) {
    let found = (error.index(), error.error().outcome(), error.error().sqlstate());
    assert_eq!(found, (Some(index), outcome, sqlstate), "{error}");
}

#[test]
fn an_atomic_batch_makes_one_trip_and_counts_each_row() {
    run(async {
        let (proxy, t) = (proxy(), table("id bigint, name text").await);
        let client = client_through(&proxy, "").await;
        proxy.reset_stats();
        let insert = format!("insert into {t} values ($1, $2)");
        // So few that the server keeps all answers in its buffer until the sync point (8 KiB).
        let rows = (0..300_i64).map(|id| (id, format!("row {id}")));
        let affected = client.batch(&insert, rows).atomic().await.unwrap();
        assert_eq!((affected.total(), affected.len(), affected.get(299)), (300, 300, Some(1)));
        assert_eq!(proxy.stats().trips, 1);
        let update = format!("update {t} set name = 'new' where id < $1");
        let affected = client.batch(&update, [(3_i64,), (0,), (2,)]).atomic().await.unwrap();
        assert_eq!(affected.iter().collect::<Vec<_>>(), [3, 0, 2]);
        assert_usable(&client).await;
    });
}

#[test]
fn no_rows_are_nothing_to_send() {
    run(async {
        let client = client().await;
        let none: [(i32,); 0] = [];
        assert!(client.batch("select $1", none).atomic().await.unwrap().is_empty());
        let report = client.batch("select $1", none).isolated().await;
        assert!(report.into_result().unwrap().is_empty());
    });
}

struct Reading {
    id: i32,
    value: Option<f64>,
}

impl ParameterSet for Reading {
    fn count(&self) -> usize {
        2
    }

    fn parameter(&self, number: usize) -> &(dyn ToSql + Sync) {
        match number {
            0 => &self.id,
            _ => &self.value,
        }
    }
}

#[test]
fn a_row_is_a_tuple_a_list_or_a_type_of_ones_own() {
    run(async {
        let (client, t) = (client().await, table("id int, value float8").await);
        let insert = format!("insert into {t} values ($1, $2)");
        let insert = client.prepare(&insert).await.unwrap();
        client.batch(&insert, &[(1, 0.5), (2, 1.5)]).atomic().await.unwrap();
        let lists: [[&(dyn ToSql + Sync); 2]; 2] = [[&3, &0.5], [&4, &None::<f64>]];
        client.batch(&insert, &lists).atomic().await.unwrap();
        client.batch(&insert, lists.iter().map(|list| &list[..])).atomic().await.unwrap();
        let boxed: Vec<Vec<Box<dyn ToSql + Sync + Send>>> =
            vec![vec![Box::new(5), Box::new(Some(2.5))]];
        client.batch(&insert, boxed).atomic().await.unwrap();
        let own = [Reading { id: 6, value: None }, Reading { id: 7, value: Some(1.0) }];
        client.batch(&insert, &own).isolated().await.into_result().unwrap();
        let unprepared = unprepared("select 1 where $1::int > 0");
        let affected = client.batch(&unprepared, [(0,), (1,)]).atomic().await.unwrap();
        assert_eq!(affected.iter().collect::<Vec<_>>(), [0, 1]);
        let session = session().await;
        assert_eq!(count(&session, &t).await, 9);
        assert_eq!(count(&session, &format!("{t} where value is null")).await, 3);
    });
}

#[test]
fn a_failed_row_of_an_atomic_batch_undoes_all_and_is_named() {
    run(async {
        let (client, t) = (client().await, table("id int primary key").await);
        let insert = format!("insert into {t} values ($1)");
        for (size, twice) in [(3, 2), (20_000, 1), (20_000, 11_111), (20_000, 19_999)] {
            let rows = (0..size).map(|id| (if id == twice { 0 } else { id },));
            let error = client.batch(&insert, rows).atomic().await.unwrap_err();
            row_failed(&error, twice as u64, Outcome::Rejected, Some("23505"));
            // Messages count rows from 1.
            let row = twice + 1;
            assert!(error.to_string().starts_with(&format!("row {row} of the batch: ")), "{error}");
            assert!(ids(&t).await.is_empty());
            assert_usable(&client).await;
        }
    });
}

/// About a window of rows is taken from the iterator at a time, and none after a row has failed.
#[test]
fn rows_are_taken_as_they_are_sent() {
    run(async {
        let (client, t) = (client().await, table("id int, t text").await);
        let (taken, gate) = (Rc::new(Cell::new(0)), Gate::closed().await);
        let blocked = client.query(&gate.statement(), &[]);
        gate.waiting_pid().await;
        let text = "x".repeat(1000);
        let rows = (0..100_000).map(|id| {
            taken.set(taken.get() + 1);
            (id, &*text)
        });
        let settings = "connections_max=1&in_flight_bytes_max=100000";
        let other = client_with(settings).await;
        let insert = format!("insert into {t} select $1, $2 from {}", gate.table);
        let mut batch = Box::pin(other.batch(&insert, rows).atomic());
        until(async || poll_once(&mut batch).await || taken.get() > 50).await;
        for _ in 0..1000 {
            assert!(!poll_once(&mut batch).await);
        }
        assert!(taken.get() < 500, "{} rows wait in memory", taken.get());
        gate.open().await;
        blocked.await.unwrap();
        let affected = batch.await.unwrap();
        assert_eq!((taken.get(), affected.len(), affected.total()), (100_000, 100_000, 0));
    });
}

#[test]
fn a_row_that_does_not_convert_is_named_and_its_value_is_not_shown() {
    run(async {
        let (client, t) = (client().await, table("id int, t text").await);
        let insert = format!("insert into {t} values ($1, $2)");
        for (size, wrong) in [(3, 0), (3, 2), (20_000, 15_000)] {
            let secret: &(dyn ToSql + Sync) = &"secret";
            let rows = (0..size).map(|id| Pair { id, wrong: (id == wrong).then_some(secret) });
            let error = client.batch(&insert, rows).atomic().await.unwrap_err();
            let outcome = if size == 3 { Outcome::NotSent } else { Outcome::Rejected };
            // The first row decides the types.
            if wrong > 0 {
                row_failed(&error, wrong as u64, outcome, None);
                assert!(error.to_string().contains("parameter $1"), "{error}");
            }
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
            assert!(ids(&t).await.is_empty());
            assert_usable(&client).await;
        }
    });
}

struct Pair {
    id: i32,
    wrong: Option<&'static (dyn ToSql + Sync)>,
}

impl ParameterSet for Pair {
    fn count(&self) -> usize {
        2
    }

    fn parameter(&self, number: usize) -> &(dyn ToSql + Sync) {
        match (number, self.wrong) {
            (0, Some(wrong)) => wrong,
            (0, None) => &self.id,
            _ => &"a text",
        }
    }
}

#[test]
fn isolated_rows_fail_alone() {
    run(async {
        let (client, t) = (client().await, table("id int primary key, check (id <> 77)").await);
        let insert = format!("insert into {t} values ($1)");
        let rows = (0..1000).map(|id| (if id % 100 == 99 { 0 } else { id },));
        let report = client.batch(&insert, rows).isolated().await;
        let failed: Vec<u64> = report.errors().iter().filter_map(|it| it.index()).collect();
        assert_eq!(failed, [77, 99, 199, 299, 399, 499, 599, 699, 799, 899, 999]);
        row_failed(&report.errors()[0], 77, Outcome::Rejected, Some("23514"));
        row_failed(&report.errors()[1], 99, Outcome::Rejected, Some("23505"));
        assert_eq!((report.affected().total(), report.affected().len()), (989, 1000));
        assert_eq!((report.affected().get(77), report.affected().get(78)), (Some(0), Some(1)));
        assert!(report.stopped().is_none());
        assert_eq!(ids(&t).await.len(), 989);
        row_failed(&report.into_result().unwrap_err(), 77, Outcome::Rejected, Some("23514"));
        assert_usable(&client).await;
    });
}

/// The commit of a row fails, not its statement.
#[test]
fn isolated_rows_are_judged_by_their_commit() {
    run(async {
        let (client, t) = (client().await, deferred_table().await);
        let insert = format!("insert into {t} values ($1, $2)");
        let rows = [(1, None), (2, Some(99)), (3, Some(1))];
        let report = client.batch(&insert, rows).isolated().await;
        assert_eq!(report.errors().len(), 1);
        row_failed(&report.errors()[0], 1, Outcome::Rejected, Some("23503"));
        assert_eq!(ids(&t).await, [1, 3].into());
        let rows = [(4, None::<i32>), (5, Some(99))];
        let error = client.batch(&insert, rows).atomic().await.unwrap_err();
        assert_eq!((error.index(), error.error().sqlstate()), (None, Some("23503")));
        assert_eq!((error.error().outcome(), ids(&t).await), (Outcome::Rejected, [1, 3].into()));
    });
}

#[test]
fn an_isolated_row_that_does_not_convert_keeps_its_place() {
    run(async {
        let (client, t) = (client().await, table("id int, t text").await);
        let insert = format!("insert into {t} values ($1, $2)");
        let wrong: &(dyn ToSql + Sync) = &"secret";
        let rows = (0..300).map(|id| Pair { id, wrong: (id % 100 == 50).then_some(wrong) });
        let report = client.batch(&insert, rows).isolated().await;
        assert_eq!(report.errors().len(), 3);
        for (error, index) in report.errors().iter().zip([50, 150, 250]) {
            row_failed(error, index, Outcome::NotSent, None);
        }
        assert_eq!((report.affected().len(), ids(&t).await.len()), (300, 297));
    });
}

#[test]
fn a_statement_that_can_not_be_prepared_is_no_rows_fault() {
    run(async {
        let client = client().await;
        let sql = "insert into there_is_none values ($1)";
        let error = client.batch(sql, (0..5000).map(|id| (id,))).atomic().await.unwrap_err();
        assert_eq!((error.index(), error.error().sqlstate()), (None, Some("42P01")));
        let report = client.batch(sql, (0..5000).map(|id| (id,))).isolated().await;
        assert_eq!(report.stopped().unwrap().sqlstate(), Some("42P01"));
        assert!(report.errors().iter().all(|it| it.error().sqlstate() == Some("42P01")));
        assert_usable(&client).await;
        let error = client.batch("vacuum", [()]).atomic().await.unwrap_err();
        assert_eq!(error.error().outcome(), Outcome::NotSent);
        let report = client.batch("begin", [()]).isolated().await;
        assert_eq!(report.stopped().unwrap().outcome(), Outcome::NotSent);
        let (a, b) = (client.batch("select $1::int, $2::int", [(1,)]), [(1, 2)]);
        assert_eq!(a.atomic().await.unwrap_err().error().outcome(), Outcome::Rejected);
        client.batch("select $1::int, $2::int", b).atomic().await.unwrap();
        assert_usable(&client).await;
    });
}

#[test]
fn in_a_transaction_a_batch_is_part_of_it() {
    run(async {
        let (mut session, t) = (session().await, table("id int primary key").await);
        let insert = format!("insert into {t} values ($1)");
        let tx = session.begin().await.unwrap();
        tx.batch(&insert, (0..5000).map(|id| (id,))).atomic().await.unwrap();
        let report = tx.batch(&insert, [(1,)]).isolated().await;
        assert_eq!(report.stopped().unwrap().code(), "isolated_in_transaction");
        tx.rollback().await.unwrap();
        assert!(ids(&t).await.is_empty());
        let tx = session.begin().await.unwrap();
        tx.execute(&insert, &[&1]).await.unwrap();
        tx.batch(&insert, [(2,), (3,)]).atomic().await.unwrap();
        tx.commit().await.unwrap();
        let tx = session.begin().await.unwrap();
        let error = tx.batch(&insert, [(4,), (1,)]).atomic().await.unwrap_err();
        row_failed(&error, 1, Outcome::Rejected, Some("23505"));
        assert_eq!(tx.commit().await.unwrap_err().outcome(), Outcome::Rejected);
        session.batch(&insert, [(5,)]).atomic().await.unwrap();
        session.batch(&insert, [(6,)]).isolated().await.into_result().unwrap();
        assert_eq!(ids(&t).await, [1, 2, 3, 5, 6].into());
    });
}

#[test]
fn a_dropped_atomic_batch_has_no_effect() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let endless = || (0..).map(|id| (id,));
        let mut batch = Box::pin(client.batch(&insert, endless()).atomic());
        for _ in 0..100 {
            assert!(!poll_once(&mut batch).await);
            tokio::task::yield_now().await;
        }
        drop(batch);
        assert_usable(&client).await;
        drop(client.batch(&insert, (0..10).map(|id| (id,))));
        let mut session = client.session().await.unwrap();
        let tx = session.begin().await.unwrap();
        // Behind some poolers a batch leaves once its BEGIN was answered, and nothing would be
        // undone.
        tx.query("select 1", &[]).await.unwrap();
        let mut batch = Box::pin(tx.batch(&insert, endless()).atomic());
        for _ in 0..100 {
            assert!(!poll_once(&mut batch).await);
            tokio::task::yield_now().await;
        }
        drop(batch);
        error(tx.commit().await);
        drop(session);
        assert_usable(&client).await;
        assert!(ids(&t).await.is_empty());
    });
}

/// P64. All rows were taken from the iterator, and its end waits behind the window, or in line.
#[test]
fn an_atomic_batch_that_is_dropped_before_its_end_was_sent_has_no_effect() {
    run(async {
        let settings = "connections_max=1&in_flight_max=2&cancel_on_drop=0";
        let (client, t) = (client_with(settings).await, table("id int, text text").await);
        let text = "x".repeat(9000);
        let rows = |count: i32| (0..count).map(|id| (id, text.as_str()));
        for (count, in_transaction) in [(1, false), (9, false), (1, true), (9, true)] {
            let mut session = client.session().await.unwrap();
            let gate = Gate::closed().await;
            let insert = format!(
                "with g as (select count(*) from {}) insert into {t} select $1, $2 from g",
                gate.table
            );
            // Of a single row nothing leaves, since the window is full.
            let ahead = if count == 1 { gate.statement() } else { "select 1".to_owned() };
            if in_transaction {
                let tx = session.begin().await.unwrap();
                let replies = [tx.query(&ahead, &[]), tx.query("select 1", &[])];
                let mut batch = Box::pin(tx.batch(&insert, rows(count)).atomic());
                assert!(!poll_once(&mut batch).await);
                gate.waiting_pid().await;
                assert!(!poll_once(&mut batch).await);
                drop(batch);
                gate.open().await;
                for reply in replies {
                    reply.await.unwrap();
                }
                // What was sent makes the transaction fail.
                assert_eq!(tx.commit().await.is_ok(), count == 1);
            } else {
                let replies = [session.query(&ahead, &[]), session.query("select 1", &[])];
                let mut batch = Box::pin(session.batch(&insert, rows(count)).atomic());
                assert!(!poll_once(&mut batch).await);
                gate.waiting_pid().await;
                assert!(!poll_once(&mut batch).await);
                drop(batch);
                gate.open().await;
                for reply in replies {
                    reply.await.unwrap();
                }
            }
            session.query("select 1", &[]).await.unwrap();
            drop(session);
            assert!(ids(&t).await.is_empty(), "{count} rows, in a transaction: {in_transaction}");
        }
        assert_usable(&client).await;
    });
}

/// P64. Its gate stays closed: only a cancel ends what the server runs.
#[test]
fn the_server_is_asked_to_stop_a_dropped_batch_if_the_client_wants_that() {
    run(async {
        let settings = "connections_max=1&in_flight_max=2&cancel_on_drop=1";
        let (client, t) = (client_with(settings).await, table("id int, text text").await);
        let gate = Gate::closed().await;
        let insert = format!(
            "with g as (select count(*) from {}) insert into {t} select $1, $2 from g",
            gate.table
        );
        let text = "x".repeat(9000);
        let rows = (0..9).map(|id| (id, text.as_str()));
        let mut batch = Box::pin(client.batch(&insert, rows).atomic());
        assert!(!poll_once(&mut batch).await);
        gate.waiting_pid().await;
        drop(batch);
        assert_usable(&client).await;
        assert!(ids(&t).await.is_empty());
        gate.open().await;
    });
}

#[test]
fn a_dropped_isolated_batch_sends_no_more_and_disturbs_nobody() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let mut batch = Box::pin(client.batch(&insert, (0..).map(|id| (id,))).isolated());
        for _ in 0..20 {
            assert!(!poll_once(&mut batch).await);
            tokio::task::yield_now().await;
        }
        drop(batch);
        assert_usable(&client).await;
        let ids = ids(&t).await;
        // The rows that were sent are a run from the first row on.
        assert!(ids.iter().copied().eq(0..ids.len() as i32));
    });
}

#[test]
fn a_batch_whose_connection_is_lost_says_what_is_known() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        let gate = Gate::closed().await;
        let sql = format!(
            "with g as (select count(*) from {}) insert into {t} select $1::int from g where $1::int >= 0",
            gate.table
        );
        let mut batch = Box::pin(client.batch(&sql, (0..5000).map(|id| (id,))).atomic());
        assert!(!poll_once(&mut batch).await);
        terminate(gate.waiting_pid().await).await;
        let error = batch.await.unwrap_err();
        assert_eq!((error.index(), error.error().outcome()), (None, Outcome::Unknown));
        assert!(error.error().is_connection_lost());
        let mut batch = Box::pin(client.batch(&sql, (0..5000).map(|id| (id,))).isolated());
        until(async || {
            assert!(!poll_once(&mut batch).await);
            client.connections() == 1
        })
        .await;
        terminate(gate.waiting_pid().await).await;
        let report = batch.await;
        assert!(report.stopped().unwrap().is_connection_lost());
        let (errors, taken) = (report.errors(), report.affected().len());
        assert!(!errors.is_empty() && errors.len() as u64 == taken && taken < 5000);
        assert!(errors.iter().all(|it| it.error().outcome() != Outcome::Rejected));
        gate.open().await;
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_batch_that_is_late_is_given_up() {
    run(async {
        let t = table("id int").await;
        let client = client_with("connections_max=1&request_timeout_ms=50").await;
        let gate = Gate::closed().await;
        let sql = format!(
            "with g as (select count(*) from {}) insert into {t} select $1::int from g where $1::int >= 0",
            gate.table
        );
        let error = client.batch(&sql, (0..5000).map(|id| (id,))).atomic().await.unwrap_err();
        assert_eq!((error.index(), error.error().code()), (None, "timeout"));
        assert_eq!(error.error().outcome(), Outcome::Unknown);
        gate.open().await;
        // Statements behind the batch are answered once the batch was undone.
        let session = session().await;
        until(async || client.query("select 1", &[]).await.is_ok()).await;
        drop(session);
    });
}

/// The batch is given up while its iterator runs, which then returns no further row.
#[test]
fn a_batch_that_is_late_before_its_end_does_not_report_success() {
    run_threads(async {
        let (gate, t) = (Gate::closed().await, table("id int, t text").await);
        let settings =
            "connections_max=1&in_flight_max=1&request_timeout_ms=100&cancel_on_timeout=0";
        let client = client_with(settings).await;
        let insert = format!("insert into {t} values ($1, $2)");
        let text = "x".repeat(20_000);
        let statement = client.prepare(&insert).await.unwrap();
        let ahead = client.query(&gate.statement(), &[]);
        let waits = client.clone();
        let rows = (0..2).map_while(|id| {
            let begun = Instant::now();
            // The queue is looked at long after the deadline.
            while id == 1 && begun.elapsed() < Duration::from_millis(400) {
                std::hint::black_box(waits.pending());
            }
            (id == 0).then_some((id, text.as_str()))
        });
        let error = client.batch(&statement, rows).atomic().await.unwrap_err();
        assert_eq!(error.error().code(), "timeout");
        drop(ahead);
        gate.open().await;
        assert!(ids(&t).await.is_empty());
    });
}

/// Encoding runs the caller's code. Whatever that does, nothing stays half sent.
#[test]
fn a_panic_of_the_iterator_gives_the_batch_up() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let rows = (0..20_000).map(|id| if id == 15_000 { panic!("as wanted") } else { (id,) });
        let batch = client.batch(&insert, rows);
        assert!(panics(async move { batch.atomic().await }).await);
        assert_usable(&client).await;
        assert!(ids(&t).await.is_empty());
    });
}

/// Whether a future panics.
async fn panics<F: Future>(future: F) -> bool {
    let mut future = Box::pin(future);
    loop {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let mut context = Context::from_waker(Waker::noop());
            future.as_mut().poll(&mut context).is_ready()
        }));
        match polled {
            Err(_) => return true,
            Ok(true) => return false,
            Ok(false) => tokio::task::yield_now().await,
        }
    }
}

/// If a value's type would be a guess, the server is asked first, once; later the type is known.
#[test]
fn a_guess_is_asked_about_in_a_trip_of_its_own() {
    run(async {
        let (proxy, t) = (proxy(), table("at timestamp").await);
        let client = client_through(&proxy, "").await;
        let insert = format!("insert into {t} values ($1)");
        let rows = || (0..10).map(|s| (std::time::UNIX_EPOCH + std::time::Duration::from_secs(s),));
        for trips in [2, 1] {
            proxy.reset_stats();
            client.batch(&insert, rows()).atomic().await.unwrap();
            assert_eq!(proxy.stats().trips, trips);
        }
        let typed = [(typed(Type::TIMESTAMP, &std::time::UNIX_EPOCH),)];
        client.batch(&insert, typed).atomic().await.unwrap();
    });
}

#[test]
fn values_of_all_rows_are_checked_as_those_of_calls_are() {
    run(async {
        let client = client().await;
        let error = client.batch("select $1", [(Naughty::Fails,)]).atomic().await;
        assert_eq!(error.unwrap_err().error().outcome(), Outcome::NotSent);
        assert_usable(&client).await;
    });
}

/// Neighbours on the same connection get their own replies while batches run.
#[test]
fn batches_and_other_callers_share_a_connection() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        let rows = |from: i32| (from..from + 2000).map(|id| (id,));
        let atomic = client.batch(&insert, rows(0)).atomic();
        let isolated = client.batch(&insert, rows(10_000)).isolated();
        let others = async {
            for number in 0..200 {
                let row = client.query_one("select $1::int", &[&number]).await.unwrap();
                assert_eq!(row.get::<i32>(0), number);
            }
        };
        let (atomic, isolated, ()) = tokio::join!(atomic, isolated, others);
        assert_eq!(
            (atomic.unwrap().total(), isolated.into_result().unwrap().total()),
            (2000, 2000)
        );
        assert_eq!(ids(&t).await.len(), 4000);
        let _ = shared();
    });
}

/// The batch was placed, and a session behind it in line got the connection before anything was
/// sent there.
#[test]
fn an_isolated_batch_keeps_out_of_a_transaction_that_got_its_connection() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        for round in 0..2 {
            let held = client.session().await.unwrap();
            let rows = [(2 * round,), (2 * round + 1,)];
            let mut batch = Box::pin(client.batch(&insert, rows).isolated());
            assert!(!poll_once(&mut batch).await);
            let mut next = Box::pin(client.begin());
            assert!(!poll_once(&mut next).await);
            drop(held);
            let tx = next.await.unwrap();
            tx.execute(&insert, &[&-1]).await.unwrap();
            assert!(!poll_once(&mut batch).await);
            tx.rollback().await.unwrap();
            assert_eq!(batch.await.into_result().unwrap().total(), 2);
            assert_eq!(ids(&t).await, (0..2 * round + 2).collect());
        }
    });
}

/// A session gets the connection while rows are written, which runs the caller's code.
#[test]
fn rows_of_an_isolated_batch_move_when_their_connection_is_given_away_meanwhile() {
    run(async {
        let (client, t) = (client_with("connections_max=2").await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        // The first batch finds out who the peer is, and the second prepares the statement, so that
        // nothing is in flight when the third begins.
        for id in [-3, -2] {
            client.batch(&insert, [(id,)]).isolated().await.into_result().unwrap();
        }
        let mut transaction = None;
        let rows = (1..100).map(|id| {
            let mut begin = std::pin::pin!(client.begin());
            let mut cx = Context::from_waker(Waker::noop());
            if id == 2
                && let Poll::Ready(Ok(tx)) = begin.as_mut().poll(&mut cx)
            {
                drop(tx.execute(&insert, &[&-1]));
                transaction = Some(tx);
            }
            (id,)
        });
        let report = client.batch(&insert, rows).isolated().await;
        let tx = transaction.expect("an idle connection is there for a transaction");
        tx.rollback().await.unwrap();
        assert_eq!(report.into_result().unwrap().total(), 99);
        assert_eq!(ids(&t).await, (1..100).chain([-3, -2]).collect());
    });
}

/// The batch has its connection, and has not used it yet. The statement is prepared there, so
/// nothing of the batch was submitted when the connection is lost.
#[test]
fn an_atomic_batch_that_loses_its_connection_before_its_first_row_ends() {
    run(async {
        let (client, t) = (client_with("connections_max=1").await, table("id int").await);
        let insert = format!("insert into {t} values ($1)");
        client.batch(&insert, [(0,)]).atomic().await.unwrap();
        let held = client.session().await.unwrap();
        let pid: i32 = held.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        let mut batch = Box::pin(client.batch(&insert, [(1,), (2,)]).atomic());
        assert!(!poll_once(&mut batch).await);
        drop(held);
        terminate(pid).await;
        until(async || client.is_closed()).await;
        let error = batch.await.unwrap_err();
        assert_eq!(error.error().outcome(), Outcome::NotSent, "{error}");
        assert!(error.error().is_connection_lost(), "{error}");
        assert_eq!(ids(&t).await, [0].into());
    });
}
