//! The blocking client: the same results, from any thread, and never inside asynchronous code.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::pooled::shared;
use onetrip::blocking::Client;
use onetrip::{Event, Outcome, TransactionOptions};

use crate::support::{error, failed, is_refused_by_the_pooler, rejected};

fn client() -> Client {
    client_with("")
}

fn client_with(settings: &str) -> Client {
    Client::connect(&format!("{}?{}", shared().url(), shared().settings(settings))).unwrap()
}

/// Asks until `wish` returns true.
fn until(mut wish: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !wish() {
        assert!(begin.elapsed() < crate::support::PATIENCE, "it never came true");
        std::thread::yield_now();
    }
}

fn count(client: &Client, from: &str) -> i64 {
    client.query_one(&format!("select count(*) from {from}"), &[]).unwrap().get(0)
}

fn table(client: &Client) -> String {
    let name = shared().new_name();
    client.execute(&format!("create table {name} (id int primary key)"), &[]).unwrap();
    name
}

#[test]
fn each_call_returns_what_its_asynchronous_one_does() {
    let client = client();
    let t = table(&client);
    let insert = format!("insert into {t} values ($1)");
    assert_eq!(client.execute(&insert, &[&1]).unwrap(), 1);
    let rows = client.query(&format!("select id from {t}"), &[]).unwrap();
    assert_eq!((rows.len(), rows.iter().next().unwrap().get::<i32>(0)), (1, 1));
    assert_eq!(client.query_one("select $1::int", &[&7]).unwrap().get::<i32>(0), 7);
    assert!(client.query_opt("select 1 where false", &[]).unwrap().is_none());
    let prepared = client.prepare(&insert).unwrap();
    assert_eq!(client.execute(&prepared, &[&2]).unwrap(), 1);
    rejected(client.execute(&prepared, &[&2]), "23505");
    failed(client.query_one("select 1 where false", &[]), Outcome::Applied, "no_row");
    assert!(client.parameter("server_version").is_some());
    assert_eq!((client.connections(), client.is_closed()), (1, false));
    assert_eq!(client.pending().in_flight, 0);
    assert!(client.metrics().counts.completed > 5);
}

#[test]
fn a_batch_stands_as_a_whole_or_row_by_row() {
    if is_refused_by_the_pooler() {
        return;
    }
    let client = client();
    let t = table(&client);
    let insert = format!("insert into {t} values ($1)");
    assert_eq!(client.batch(&insert, (0..1000).map(|id| (id,))).atomic().unwrap().total(), 1000);
    let twice = client.batch(&insert, [(1000,), (0,), (1001,)]).atomic().unwrap_err();
    assert_eq!((twice.index(), twice.error().sqlstate()), (Some(1), Some("23505")));
    let report = client.batch(&insert, [(1000,), (0,), (1001,)]).isolated().unwrap();
    assert_eq!(report.errors().iter().map(|error| error.index()).collect::<Vec<_>>(), [Some(1)]);
    assert_eq!(count(&client, &t), 1002);
}

#[test]
fn the_last_statement_of_a_transaction_commits() {
    let client = client();
    let t = table(&client);
    let sql = format!("insert into {t} values ($1)");
    let tx = client.begin().unwrap();
    tx.execute(&sql, &[&1]).unwrap();
    assert_eq!(tx.commit_with::<u64>(&sql, &[&2]).unwrap(), 1);
    rejected(client.begin().unwrap().commit_with::<u64>(&sql, &[&2]), "23505");
    assert_eq!(count(&client, &t), 2);
}

#[test]
fn a_pipeline_is_one_trip_and_its_replies_are_read_afterwards() {
    let client = client();
    let t = table(&client);
    let insert = format!("insert into {t} values ($1)");
    let mut pipeline = client.pipeline();
    let replies: Vec<_> = (0..10).map(|id| pipeline.execute(&insert, &[&id])).collect();
    let sync = pipeline.sync();
    let last = pipeline.query_one("select 42", &[]);
    pipeline.finish().unwrap();
    assert!(replies.into_iter().all(|reply| reply.wait().unwrap() == 1));
    sync.wait().unwrap();
    assert_eq!(last.wait().unwrap().get::<i32>(0), 42);
    // A dropped pipeline sends nothing, and a failed one reports it.
    drop(client.pipeline().execute(&insert, &[&100]));
    let mut pipeline = client.pipeline();
    let first = pipeline.execute(&insert, &[&101]);
    drop(pipeline.execute(&insert, &[&1]));
    rejected(pipeline.finish(), "23505");
    error(first.wait());
    assert_eq!(count(&client, &t), 10);
}

#[test]
fn a_transaction_stands_only_if_it_is_committed() {
    let client = client();
    let t = table(&client);
    let insert = format!("insert into {t} values ($1)");
    let mut session = client.session().unwrap();
    let tx = session.begin().unwrap();
    tx.execute(&insert, &[&1]).unwrap();
    tx.commit().unwrap();
    let tx = session.begin().unwrap();
    tx.execute(&insert, &[&2]).unwrap();
    tx.rollback().unwrap();
    let tx = session.begin().unwrap();
    tx.execute(&insert, &[&3]).unwrap();
    drop(tx);
    drop(session);
    let tx = client.begin_with(TransactionOptions::new().read_only(true)).unwrap();
    rejected(tx.execute(&insert, &[&4]), "25006");
    drop(tx);
    let tx = client.begin().unwrap();
    tx.execute(&insert, &[&5]).unwrap();
    tx.commit().unwrap();
    assert_eq!(count(&client, &t), 2);
    let session = client.session().unwrap();
    let results = session.script("select 1; select 2").unwrap();
    assert_eq!(results.len(), 2);
}

#[test]
fn what_has_no_call_of_its_own_is_run_by_wait() {
    if is_refused_by_the_pooler() {
        return;
    }
    let client = client();
    let (one, two) = client
        .wait(|client| {
            let one = client.query_one("select 1", &[]);
            let two = client.query_one("select 2", &[]);
            async { Ok((one.await?, two.await?)) }
        })
        .unwrap();
    assert_eq!((one.get::<i32>(0), two.get::<i32>(0)), (1, 2));
    let mut session = client.session().unwrap();
    let three = session.wait(|session| session.query_one("select 3", &[])).unwrap();
    assert_eq!(three.get::<i32>(0), 3);
}

#[test]
fn many_threads_share_a_client() {
    let client = client_with("connections_max=4");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let client = client.clone();
            scope.spawn(move || {
                for number in 0..100 {
                    let value = thread * 1000 + number;
                    let row = match number % 4 {
                        0 => client.session().unwrap().query_one("select $1::int", &[&value]),
                        _ => client.query_one("select $1::int", &[&value]),
                    };
                    assert_eq!(row.unwrap().get::<i32>(0), value);
                }
            });
        }
    });
}

#[test]
fn a_call_that_blocks_long_holds_up_no_other_thread() {
    let client = client_with("connections_max=3");
    let t = table(&client);
    let (barrier, mut gate) = (Barrier::new(2), client.session().unwrap());
    let lock = gate.begin().unwrap();
    lock.execute(&format!("lock table {t}"), &[]).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let session = client.session().unwrap();
            barrier.wait();
            session.query_one(&format!("select count(*) from {t}"), &[]).unwrap().get::<i64>(0)
        });
        barrier.wait();
        for number in 0..50 {
            let row = client.query_one("select $1::int", &[&number]).unwrap();
            assert_eq!(row.get::<i32>(0), number);
        }
        lock.commit().unwrap();
        assert_eq!(waits.join().unwrap(), 0);
    });
}

#[test]
fn inside_async_code_a_call_is_refused_and_sends_nothing() {
    let client = client();
    let t = table(&client);
    let insert = format!("insert into {t} values (1)");
    let refused = |client: &Client| {
        failed(client.execute(&insert, &[]), Outcome::NotSent, "blocking_in_async");
        failed(client.session(), Outcome::NotSent, "blocking_in_async");
        failed(Client::connect(&shared().url()), Outcome::NotSent, "blocking_in_async");
        let mut pipeline = client.pipeline();
        let reply = pipeline.execute(&insert, &[]);
        failed(pipeline.finish(), Outcome::NotSent, "blocking_in_async");
        failed(reply.wait(), Outcome::NotSent, "blocking_in_async");
    };
    // In the future of block_on, in tasks of both kinds of runtime, and inside a call of its own.
    crate::support::run(async { refused(&client) });
    crate::support::run_threads(async {
        refused(&client);
        let (client, insert) = (client.clone(), insert.clone());
        let task = tokio::spawn(async move { client.execute(&insert, &[]) });
        failed(task.await.unwrap(), Outcome::NotSent, "blocking_in_async");
    });
    let inside = client.wait(|_| async {
        refused(&client);
        Ok(())
    });
    inside.unwrap();
    assert_eq!(count(&client, &t), 0);
}

#[test]
fn on_a_thread_that_may_block_it_works_within_a_runtime() {
    let client = client();
    crate::support::run_threads(async {
        let blocking = client.clone();
        let task = tokio::task::spawn_blocking(move || blocking.query_one("select 1", &[]));
        assert_eq!(task.await.unwrap().unwrap().get::<i32>(0), 1);
        tokio::task::block_in_place(|| client.query_one("select 2", &[])).unwrap();
    });
}

#[test]
fn the_last_handle_may_be_dropped_inside_async_code() {
    // Repeated, since it is chance which thread drops the last handle.
    for _ in 0..20 {
        let (one, two) = (client(), client());
        crate::support::run_threads(async move { drop(one) });
        crate::support::run(async move {
            failed(two.close(), Outcome::NotSent, "blocking_in_async");
        });
    }
}

#[test]
fn between_calls_connections_are_looked_after() {
    if is_refused_by_the_pooler() {
        return;
    }
    // Closed after 0.1 s although nobody calls.
    let client = client_with("idle_timeout_ms=100");
    until(|| client.connections() == 0);
    assert_eq!(client.query_one("select 1", &[]).unwrap().get::<i32>(0), 1);
    // A lock that a session left behind is released although nobody calls.
    let (holder, other) = (self::client(), self::client());
    let session = holder.session().unwrap();
    session.query("select pg_advisory_lock(730451)", &[]).unwrap();
    session.execute("set work_mem = '1MB'", &[]).unwrap();
    drop(session);
    let free = "select pg_try_advisory_lock(730451)";
    let other = other.session().unwrap();
    until(|| other.query_one(free, &[]).unwrap().get(0));
}

#[test]
fn a_closed_client_has_left_the_server() {
    if is_refused_by_the_pooler() {
        return;
    }
    let watcher = client();
    let connections = || {
        let sql = "select count(*) from pg_stat_activity where application_name = 'blocking_gone'";
        watcher.query_one(sql, &[]).unwrap().get::<i64>(0)
    };
    let client = client_with("application_name=blocking_gone");
    let clone = client.clone();
    assert_eq!(connections(), 1);
    clone.close().unwrap();
    assert_eq!(connections(), 1);
    client.close().unwrap();
    until(|| connections() == 0);
    // Without a call of close its connection is closed as well.
    drop(client_with("application_name=blocking_gone"));
    until(|| connections() == 0);
}

#[test]
fn a_listener_waits_as_long_as_it_is_told_to() {
    if is_refused_by_the_pooler() {
        return;
    }
    let client = client();
    let mut listener = client.listen("blocking_jobs").unwrap();
    assert!(listener.next_within(Duration::from_millis(1)).unwrap().is_none());
    client.notify("blocking_jobs", "7").unwrap();
    let Event::Notification(notification) = listener.next().unwrap() else { panic!() };
    assert_eq!(notification.payload, "7");
}
