//! Nothing waits for itself: what one caller holds open either does not stand in the way of what
//! the same caller does next, or that is refused at once, and the error says what to do instead.

use onetrip::{Client, Error, Kind, Outcome};

use crate::pooled::shared;
use crate::support::*;

/// Checks for a refusal before anything was sent.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, code: &str) -> Error {
    let error = failed(result, Outcome::NotSent, code);
    assert_eq!(error.kind(), Kind::Misuse, "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

// --- behind an open pipeline ---

#[test]
fn a_statement_behind_an_open_pipeline_of_its_own_transaction_is_refused() {
    run(async {
        let tx = client().await.begin().await.unwrap();
        let mut pipeline = tx.pipeline();
        let one = pipeline.query_one("select 1", &[]).await.unwrap();
        assert_eq!(one.get::<i32>(0), 1, "a reply may be awaited before the pipeline is finished");
        let error = refused(tx.execute("select 2", &[]).await, "pipeline_open");
        assert!(error.to_string().contains("finish"), "{error}");
        // A value whose type must be asked for takes another way.
        refused(tx.execute("select $1::text", &[&2]).await, "pipeline_open");
        refused(tx.prepare("select 3").await, "pipeline_open");
        pipeline.finish().await.unwrap();
        assert_eq!(tx.query_one("select 4", &[]).await.unwrap().get::<i32>(0), 4);
        // It is not committed without what was refused.
        failed(tx.commit().await, Outcome::Rejected, "rolled_back");
    });
}

#[test]
fn a_commit_behind_an_open_pipeline_is_refused_and_the_transaction_rolled_back() {
    // Something of each transaction had been sent, and was rolled back.
    let undone = |error: Error| {
        assert_eq!((error.code(), error.outcome()), ("pipeline_open", Outcome::Rejected));
    };
    run(async move {
        let (client, table) = (client().await, table("id int").await);
        let insert = format!("insert into {table} values ($1)");
        let tx = client.begin().await.unwrap();
        tx.execute(&insert, &[&1]).await.unwrap();
        let mut pipeline = tx.pipeline();
        pipeline.execute(&insert, &[&2]).await.unwrap();
        undone(tx.commit().await.unwrap_err());
        drop(pipeline);
        let tx = client.begin().await.unwrap();
        let mut pipeline = tx.pipeline();
        pipeline.execute(&insert, &[&3]).await.unwrap();
        undone(tx.commit_with::<u64, _>(&insert, &[&4]).await.unwrap_err());
        drop(pipeline.finish());
        assert!(ids(&table).await.is_empty());
        assert_usable(&client).await;
    });
}

#[test]
fn nothing_of_a_session_waits_behind_its_open_pipeline() {
    run(async {
        let mut session = session().await;
        let mut pipeline = session.pipeline();
        pipeline.query_one("select 1", &[]).await.unwrap();
        refused(session.execute("select 2", &[]).await, "pipeline_open");
        refused(session.script("select 3").await, "pipeline_open");
        refused(session.query_stream("select 4", &[]).await, "pipeline_open");
        refused(session.copy_out("copy (select 5) to stdout").await, "pipeline_open");
        let batch = session.batch("select $1::int", [(6,)]).atomic().await;
        refused(batch.map_err(|error| error.error().clone()), "pipeline_open");
        let report = session.batch("select $1::int", [(6,)]).isolated().await;
        assert_eq!(report.stopped().unwrap().code(), "pipeline_open");
        let mut second = session.pipeline();
        refused(second.query_one("select 7", &[]).await, "pipeline_open");
        drop(second);
        let mut third = session.pipeline();
        let reply = third.query_one("select 8", &[]);
        refused(third.finish().await, "pipeline_open");
        refused(reply.await, "pipeline_open");
        pipeline.finish().await.unwrap();
        let row = session.query_one("select 9", &[]).await.unwrap();
        assert_eq!(row.get::<i32>(0), 9);
    });
}

#[test]
fn statements_of_a_client_go_elsewhere_while_its_pipeline_is_open() {
    run(async {
        let client = client_with("connections_max=2").await;
        // Texts that are known to be quick share a connection with others.
        for _ in 0..20 {
            client.query_one("select 1", &[]).await.unwrap();
            assert_usable(&client).await;
        }
        let mut pipeline = client.pipeline();
        pipeline.query_one("select 1", &[]).await.unwrap();
        assert_usable(&client).await;
        let mut second = client.pipeline();
        let reply = second.query_one("select 2", &[]);
        second.finish().await.unwrap();
        assert_eq!(reply.await.unwrap().get::<i32>(0), 2);
        assert_eq!(client.connections(), 2);
        pipeline.finish().await.unwrap();
        assert_usable(&client).await;
    });
}

#[test]
fn without_another_connection_a_statement_behind_an_open_pipeline_waits_in_line() {
    run(async {
        let client = client_with("connections_max=1&wait_timeout_ms=100").await;
        let mut pipeline = client.pipeline();
        pipeline.query_one("select 1", &[]).await.unwrap();
        failed(client.query("select 2", &[]).await, Outcome::NotSent, "wait_timeout");
        drop(pipeline);
        let client = client_with("connections_max=1").await;
        let mut pipeline = client.pipeline();
        pipeline.query_one("select 1", &[]).await.unwrap();
        let (first, mut second) = (client.query_one("select 3", &[]), client.pipeline());
        let last = second.query_one("select 4", &[]);
        pipeline.finish().await.unwrap();
        second.finish().await.unwrap();
        assert_eq!(first.await.unwrap().get::<i32>(0), 3);
        assert_eq!(last.await.unwrap().get::<i32>(0), 4);
        let mut dropped = client.pipeline();
        dropped.query_one("select 5", &[]).await.unwrap();
        let behind = client.query_one("select 6", &[]);
        drop(dropped);
        assert_eq!(behind.await.unwrap().get::<i32>(0), 6);
    });
}

#[test]
fn a_pipeline_that_sent_nothing_yet_holds_nobody_up() {
    run(async {
        let session = session().await;
        let mut pipeline = session.pipeline();
        let kept = pipeline.query_one("select 1", &[]);
        assert_eq!(session.query_one("select 2", &[]).await.unwrap().get::<i32>(0), 2);
        pipeline.finish().await.unwrap();
        assert_eq!(kept.await.unwrap().get::<i32>(0), 1);
    });
}

#[test]
fn a_savepoint_behind_an_open_pipeline_is_refused() {
    run(async {
        let mut tx = client().await.begin().await.unwrap();
        let savepoint = tx.savepoint();
        savepoint.execute("select 1", &[]).await.unwrap();
        let mut pipeline = savepoint.pipeline();
        pipeline.query_one("select 2", &[]).await.unwrap();
        refused(savepoint.execute("select 3", &[]).await, "pipeline_open");
        refused(savepoint.rollback().await, "pipeline_open");
        pipeline.finish().await.unwrap();
        tx.execute("select 4", &[]).await.unwrap();
        tx.commit().await.unwrap();
    });
}

#[test]
fn a_blocking_call_behind_an_open_pipeline_is_refused() {
    if is_refused_by_the_pooler() {
        return;
    }
    within_patience(|| {
        let url = format!("{}?{}", shared().url(), shared().settings(""));
        let client = onetrip::blocking::Client::connect(&url).unwrap();
        let tx = client.begin().unwrap();
        let mut pipeline = tx.pipeline();
        let one = pipeline.query_one("select 1", &[]).wait().unwrap();
        assert_eq!(one.get::<i32>(0), 1);
        refused(tx.execute("select 2", &[]), "pipeline_open");
        pipeline.finish().unwrap();
        failed(tx.commit(), Outcome::Rejected, "rolled_back");
    });
}

/// Runs a test that blocks on a thread of its own, so that it fails where it hangs.
fn within_patience(test: impl FnOnce() + Send + 'static) {
    let (ended, end) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = ended.send(());
    });
    match end.recv_timeout(PATIENCE) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("something never ended"),
        _ => thread.join().unwrap(),
    }
}

// --- a closed client ---

#[test]
fn a_closed_client_makes_no_listener() {
    run(async {
        let client = client().await;
        client.close(PATIENCE).await.unwrap();
        let error = failed(client.listen("closed").await, Outcome::NotSent, "closed");
        assert!(error.to_string().contains("closed by this program"), "{error}");
        failed(client.listener().await, Outcome::NotSent, "closed");
    });
}

#[test]
fn the_listeners_of_a_client_that_is_closed_end_with_an_error() {
    run(async {
        let name = shared().new_name();
        let client = client_with(&format!("application_name={name}")).await;
        let watcher = session().await;
        let of_client = format!("pg_stat_activity where application_name = '{name}'");
        let mut first = client.listen("closing").await.unwrap();
        let mut second = client.listener().await.unwrap();
        let notify = "select pg_notify('closing', 'first'), pg_notify('closing', 'last')";
        client.query(notify, &[]).await.unwrap();
        // The server sends both at once.
        assert!(matches!(first.next().await.unwrap(), onetrip::Event::Notification(_)));
        assert_eq!(count(&watcher, &of_client).await, 3);
        let reader = tokio::spawn(async move {
            let error = error(second.next().await);
            (second, error)
        });
        client.close(PATIENCE).await.unwrap();
        until(async || count(&watcher, &of_client).await == 0).await;
        let (second, error) = reader.await.unwrap();
        assert_eq!(error.code(), "closed");
        assert!(error.to_string().contains("closed by this program"), "{error}");
        failed(second.listen("late").await, Outcome::NotSent, "closed");
        // What came before is still read.
        assert!(matches!(first.next().await.unwrap(), onetrip::Event::Notification(_)));
        for _ in 0..2 {
            let error = self::error(first.next().await);
            assert!(error.to_string().contains("closed by this program"), "{error}");
        }
        let next = std::future::poll_fn(|cx| {
            futures_core::Stream::poll_next(std::pin::Pin::new(&mut first), cx)
        });
        assert!(next.await.is_none());
    });
}

#[test]
fn a_listener_of_a_blocking_client_ends_with_its_last_clone() {
    if is_refused_by_the_pooler() {
        return;
    }
    within_patience(|| {
        let url = format!("{}?{}", shared().url(), shared().settings(""));
        let client = onetrip::blocking::Client::connect(&url).unwrap();
        let mut listener = client.listen("closing").unwrap();
        client.clone().close().unwrap();
        assert!(listener.next_within(std::time::Duration::ZERO).unwrap().is_none());
        client.close().unwrap();
        failed(listener.next(), Outcome::NotSent, "closed");
    });
}

#[test]
fn clients_that_are_closed_leave_no_listener_on_the_server() {
    run(async {
        let name = shared().new_name();
        let watcher = session().await;
        let of_clients = format!("pg_stat_activity where application_name = '{name}'");
        let mut kept = Vec::new();
        for _ in 0..5 {
            let client = client_with(&format!("application_name={name}")).await;
            kept.push(client.listen("left").await.unwrap());
            client.close(PATIENCE).await.unwrap();
        }
        until(async || count(&watcher, &of_clients).await == 0).await;
    });
}

#[test]
fn the_notices_of_a_client_that_is_closed_end() {
    run(async {
        let client = client().await;
        let mut notices = client.notices();
        let mut waiting = client.notices();
        client.execute("do $$ begin raise notice 'last'; end $$", &[]).await.unwrap();
        let reader = tokio::spawn(async move { while waiting.next().await.is_some() {} });
        client.close(PATIENCE).await.unwrap();
        reader.await.unwrap();
        assert_eq!(notices.next().await.unwrap().message(), "last");
        assert!(notices.next().await.is_none());
        assert!(client.notices().next().await.is_none());
    });
}

// --- closing beside what is open ---

#[test]
fn a_stream_that_was_read_to_its_end_keeps_no_connection() {
    run(async {
        let client = client_with("connections_max=1").await;
        let mut rows = client.query_stream("select generate_series(1, 3)", &[]).await.unwrap();
        while rows.try_next().await.unwrap().is_some() {}
        assert_usable(&client).await;
        let mut pieces = client.query_stream("select 1", &[]).await.unwrap();
        while pieces.next_in_pieces().await.unwrap().is_some() {}
        let mut failing = client
            .query_stream("select 1 / (3 - n) from generate_series(1, 100000) as n", &[])
            .await
            .unwrap();
        while failing.try_next().await.is_ok() {}
        let mut copy = client.copy_out("copy (select 1) to stdout").await.unwrap();
        while copy.try_next().await.unwrap().is_some() {}
        assert_usable(&client).await;
        client.close(PATIENCE / 2).await.unwrap();
        assert!(rows.try_next().await.unwrap().is_none());
        assert!(pieces.try_next().await.unwrap().is_none());
        assert!(copy.try_next().await.unwrap().is_none());
        assert!(failing.try_next().await.unwrap().is_none());
    });
}

// --- behind an open stream or COPY ---

#[test]
fn nothing_of_a_session_waits_behind_its_open_copy() {
    run(async {
        let table = table("filler text").await;
        let mut session = session().await;
        // Neither borrows the session.
        let (mut pipeline, mut second) = (session.pipeline(), session.pipeline());
        let sql = format!("copy {table} from stdin");
        let mut copy = session.copy_in(&sql).await.unwrap();
        copy.send(vec![b'x'; 100_000]).await.unwrap();
        refused(pipeline.query_one("select 1", &[]).await, "stream_open");
        refused(pipeline.finish().await, "stream_open");
        let kept = second.query_one("select $1::text", &[&2]);
        refused(kept.await, "stream_open");
        copy.send("\n").await.unwrap();
        assert_eq!(copy.finish().await.unwrap(), 1);
        assert_eq!(session.query_one("select 3", &[]).await.unwrap().get::<i32>(0), 3);
    });
}

#[test]
fn nothing_of_a_transaction_waits_behind_its_open_stream() {
    run(async {
        let mut tx = client().await.begin().await.unwrap();
        let (mut pipeline, mut later) = (tx.pipeline(), tx.pipeline());
        let many = "select repeat('x', 1000) from generate_series(1, 100000)";
        let mut rows = tx.query_stream(many, &[]).await.unwrap();
        refused(pipeline.query_one("select 1", &[]).await, "stream_open");
        assert!(rows.try_next().await.unwrap().is_some());
        drop(rows);
        // What is left of it is dropped as it comes.
        assert_eq!(later.query_one("select 2", &[]).await.unwrap().get::<i32>(0), 2);
        later.finish().await.unwrap();
        let mut out = tx.pipeline();
        let copy = format!("copy ({many}) to stdout");
        let mut copy = tx.copy_out(&copy).await.unwrap();
        assert!(copy.try_next().await.unwrap().is_some());
        refused(out.query_one("select 3", &[]).await, "stream_open");
        while copy.try_next().await.unwrap().is_some() {}
        let mut behind = { copy };
        assert!(behind.try_next().await.unwrap().is_none());
        drop(behind);
        tx.commit().await.unwrap();
    });
}

/// A value that is read from a reply.
struct OfReply(onetrip::Reply<onetrip::Row>);

impl tokio::io::AsyncRead for OfReply {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        out: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        let row = std::task::ready!(std::pin::Pin::new(&mut self.0).poll(cx));
        let row = row.map_err(std::io::Error::other)?;
        out.put_slice(row.get::<&str>(0).as_bytes());
        std::task::Poll::Ready(Ok(()))
    }
}

#[test]
fn a_value_that_is_read_while_its_statement_is_sent_does_not_wait_for_its_own_session() {
    run(async {
        let client = client().await;
        let mut session = client.session().await.unwrap();
        let mut pipeline = session.pipeline();
        let value = OfReply(pipeline.query_one("select repeat('x', 100)", &[]));
        // The statement of the pipeline was kept back until it is awaited: in the large one.
        let large = session.execute_large("select $1::text", &[], 100, value).await;
        let error = failed(large, Outcome::Rejected, "value_ended");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("a stream of rows or a COPY"), "{source}");
        drop((pipeline, session));
        assert_usable(&client).await;
    });
}

// --- what is dropped gives its connection back ---

/// How many connections the client of a test may have, and how often each kind is dropped.
const CONNECTIONS: usize = 2;
const TIMES: usize = 3 * CONNECTIONS;

/// Drops what `make` returns, as often as would use the pool up more than once: here, on another
/// thread, and in a runtime that is shut down. Then the client still has all its connections.
fn drops_give_back<T: Send + 'static>(make: impl AsyncFn(&Client) -> T) {
    run_threads(async {
        let client = client_with(&format!("connections_max={CONNECTIONS}")).await;
        for _ in 0..TIMES {
            drop(make(&client).await);
        }
        for _ in 0..TIMES {
            let made = make(&client).await;
            std::thread::spawn(move || drop(made)).join().unwrap();
        }
        for _ in 0..TIMES {
            let made = make(&client).await;
            let elsewhere = tokio::runtime::Builder::new_current_thread().build().unwrap();
            elsewhere.spawn(async move {
                std::future::pending::<()>().await;
                drop(made);
            });
            elsewhere.shutdown_background();
        }
        let mut sessions = Vec::new();
        for _ in 0..CONNECTIONS {
            sessions.push(client.session().await.unwrap());
        }
        for session in &sessions {
            assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
        }
        drop(sessions);
        client.close(PATIENCE).await.unwrap();
    });
}

const LONG: &str = "select repeat('x', 1000) from generate_series(1, 10000)";

#[test]
fn sessions_that_are_dropped_give_their_connections_back() {
    drops_give_back(async |client| {
        let session = client.session().await.unwrap();
        drop(session.execute("select 1", &[]));
        session
    });
}

#[test]
fn transactions_that_are_dropped_give_their_connections_back() {
    drops_give_back(async |client| {
        let transaction = client.begin().await.unwrap();
        transaction.execute("select 1", &[]).await.unwrap();
        transaction
    });
}

#[test]
fn streams_that_are_dropped_give_their_connections_back() {
    drops_give_back(async |client| client.query_stream(LONG, &[]).await.unwrap());
}

#[test]
fn streams_that_were_read_to_the_end_give_their_connections_back() {
    drops_give_back(async |client| {
        let mut rows = client.query_stream(LONG, &[]).await.unwrap();
        while rows.try_next().await.unwrap().is_some() {}
        rows
    });
}

#[test]
fn copies_that_are_dropped_give_their_connections_back() {
    drops_give_back(async |client| {
        client.copy_out(&format!("copy ({LONG}) to stdout")).await.unwrap()
    });
}

#[test]
fn copies_in_that_are_dropped_give_their_connections_back() {
    if is_refused_by_the_pooler() {
        return;
    }
    let name = shared().new_name();
    let create = format!("create table {name} (filler text)");
    run(async { drop(session().await.script(&create).await.unwrap()) });
    drops_give_back(async |client| {
        let mut copy = client.copy_in(&format!("copy {name} from stdin")).await.unwrap();
        copy.send(vec![b'x'; 100_000]).await.unwrap();
        copy
    });
}

#[test]
fn pipelines_that_are_dropped_hold_no_connection() {
    drops_give_back(async |client| {
        let mut pipeline = client.pipeline();
        pipeline.query_one("select 1", &[]).await.unwrap();
        let kept = pipeline.query("select 2", &[]);
        (pipeline, kept)
    });
}

#[test]
fn listeners_that_are_dropped_leave_the_server() {
    run(async {
        let (name, watcher) = (shared().new_name(), session().await);
        let client = client_with(&format!("application_name={name}&connections_max=1")).await;
        for _ in 0..TIMES {
            drop(client.listen("dropped").await.unwrap());
            let listener = client.listen("dropped").await.unwrap();
            std::thread::spawn(move || drop(listener)).join().unwrap();
        }
        let of_client = format!("pg_stat_activity where application_name = '{name}'");
        until(async || count(&watcher, &of_client).await == 1).await;
        assert_usable(&client).await;
    });
}

#[test]
fn what_outlives_the_runtime_of_its_client_is_dropped_in_peace() {
    if is_refused_by_the_pooler() {
        return;
    }
    within_patience(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let left = runtime.block_on(async {
            let client = client().await;
            let mut pipeline = client.pipeline();
            pipeline.query_one("select 1", &[]).await.unwrap();
            let transaction = client.begin().await.unwrap();
            transaction.execute("select 1", &[]).await.unwrap();
            let rows = client.query_stream(LONG, &[]).await.unwrap();
            let (session, listener) = (client.session().await.unwrap(), client.listener().await);
            (client, pipeline, transaction, rows, session, listener.unwrap())
        });
        drop(runtime);
        let (client, pipeline, transaction, rows, session, mut listener) = left;
        let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        other.block_on(async {
            error(session.query("select 1", &[]).await);
            error(client.query("select 1", &[]).await);
            failed(listener.next().await, Outcome::Unknown, "closed");
            client.close(PATIENCE).await.unwrap();
        });
        drop((pipeline, transaction, rows, session, listener, client));
    });
}
