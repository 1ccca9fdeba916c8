//! Streams of rows: pace, errors, dropping, transactions.

use onetrip::{Client, Outcome, RowStream};
use onetrip_lab::proxy::Direction;

use crate::support::*;

/// A set-returning function in the list of columns yields row by row; one in FROM is computed as a
/// whole first.
const SERIES: &str = "select generate_series(1, $1::int) i, repeat('x', 100)";

/// All numbers of a stream, in order.
async fn numbers(rows: &mut RowStream<'_>) -> Vec<i32> {
    let mut numbers = Vec::new();
    while let Some(row) = rows.try_next().await.unwrap() {
        numbers.push(row.get(0));
    }
    numbers
}

#[test]
fn a_stream_has_every_row_once_and_in_order() {
    run(async {
        let client = client().await;
        let mut rows = client.query_stream(SERIES, &[&50_000]).await.unwrap();
        assert_eq!((rows.columns().len(), rows.columns()[0].name()), (2, "i"));
        assert!(numbers(&mut rows).await.into_iter().eq(1..=50_000));
        assert!(rows.try_next().await.unwrap().is_none());
        drop(rows);
        assert_usable(&client).await;
    });
}

#[test]
fn a_stream_is_a_stream_for_the_futures_crates() {
    use futures_core::Stream;
    run(async {
        let mut rows = Box::pin(client().await.query_stream(SERIES, &[&3]).await.unwrap());
        let mut seen = Vec::new();
        while let Some(row) = std::future::poll_fn(|cx| rows.as_mut().poll_next(cx)).await {
            seen.push(row.unwrap().get::<i32>(0));
        }
        assert_eq!(seen, [1, 2, 3]);
    });
}

#[test]
fn streams_of_statements_without_rows_end_at_once() {
    run(async {
        let t = table("id int").await;
        let mut session = session().await;
        let insert = format!("insert into {t} values ($1)");
        for id in 0..2 {
            let mut rows = session.query_stream(&insert, &[&id]).await.unwrap();
            assert!(rows.columns().is_empty() && rows.try_next().await.unwrap().is_none());
        }
        let returning = format!("delete from {t} where id = 1 returning id");
        let mut rows = session.query_stream(&returning, &[]).await.unwrap();
        assert_eq!(numbers(&mut rows).await, [1]);
        drop(rows);
        assert_eq!(ids(&t).await, [0].into());
    });
}

#[test]
fn prepared_guessed_and_textual_statements_can_be_streamed() {
    run(async {
        let mut session = session().await;
        let statement = session.prepare("select $1::int8 + 1").await.unwrap();
        for _ in 0..3 {
            let mut rows = session.query_stream(&statement, &[&41i64]).await.unwrap();
            assert_eq!(rows.try_next().await.unwrap().unwrap().get::<i64>(0), 42);
        }
        // The parameter's type is a guess, so the server is asked; and aclitem has no binary form.
        let moment = std::time::SystemTime::UNIX_EPOCH;
        let sql = "select $1 = timestamptz 'epoch', 'postgres=r/postgres'::aclitem";
        for _ in 0..2 {
            let mut rows = session.query_stream(sql, &[&moment]).await.unwrap();
            let row = rows.try_next().await.unwrap().unwrap();
            assert!(row.get::<bool>(0));
            assert_eq!(row.get::<&str>(1), "postgres=r/postgres");
        }
        let sql = "select 'postgres=r/postgres'::aclitem";
        for _ in 0..2 {
            let mut rows = session.query_stream(sql, &[]).await.unwrap();
            let row = rows.try_next().await.unwrap().unwrap();
            assert_eq!(row.get::<&str>(0), "postgres=r/postgres");
        }
    });
}

#[test]
fn an_error_comes_at_once_or_behind_the_rows_before_it() {
    run(async {
        let mut session = session().await;
        rejected(session.query_stream("select nonsense", &[]).await.map(drop), "42703");
        let sql = "select 1000 / (500 - generate_series(1, 1000)), repeat('x', 1000)";
        let mut rows = session.query_stream(sql, &[]).await.unwrap();
        let mut seen = 0;
        let error = loop {
            match rows.try_next().await {
                Ok(row) => seen += usize::from(row.is_some()),
                Err(error) => break error,
            }
        };
        assert_eq!((error.sqlstate(), error.outcome()), (Some("22012"), Outcome::Rejected));
        // Rows that the server had not sent yet are lost with the error.
        assert!((400..500).contains(&seen), "{seen}");
        assert!(rows.try_next().await.unwrap().is_none());
        drop(rows);
        assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
    });
}

/// The bytes that passed the proxy show how much was read: without a pause it would be everything.
#[test]
fn a_reader_that_pauses_stops_the_server_and_no_other_stream() {
    run(async {
        let proxy = proxy();
        let slow = client_through(&proxy, "").await;
        let rows_max = 2_000_000;
        let mut paused = slow.query_stream(SERIES, &[&rows_max]).await.unwrap();
        assert_eq!(paused.try_next().await.unwrap().unwrap().get::<i32>(0), 1);
        // Another stream of some 20 MB passes by completely.
        let mut other = slow.query_stream(SERIES, &[&150_000]).await.unwrap();
        assert!(numbers(&mut other).await.into_iter().eq(1..=150_000));
        let (before, after) = (bytes_down(&proxy), || bytes_down(&proxy));
        assert_usable(&slow).await;
        // Its own 20 MB, what the paused stream had read ahead, and the buffers of the system.
        assert!(after() < 40 << 20, "{} of 230 MB were read", after());
        assert!(after() - before < 4 << 20);
        for number in 2..1000 {
            assert_eq!(paused.try_next().await.unwrap().unwrap().get::<i32>(0), number);
        }
        drop(paused);
        assert_usable(&slow).await;
    });
}

/// P10. A portal ends with its transaction, so a stream that is fetched piece by piece breaks off
/// at the next sync point, of whichever caller.
#[test]
fn a_stream_outlives_the_sync_points_of_others() {
    run(async {
        let client = client_with("connections_max=2&in_flight_max=4").await;
        let mut rows = client.query_stream(SERIES, &[&60_000]).await.unwrap();
        for number in 1..=60_000 {
            assert_eq!(rows.try_next().await.unwrap().unwrap().get::<i32>(0), number);
            if number % 600 == 0 {
                let reply = client.query_one("select $1", &[&number]);
                let mut pipeline = client.pipeline();
                let piped = pipeline.query_one("select $1", &[&-number]);
                pipeline.finish().await.unwrap();
                assert_eq!(reply.await.unwrap().get::<i32>(0), number);
                assert_eq!(piped.await.unwrap().get::<i32>(0), -number);
                rejected(client.query("select 1 / 0", &[]).await, "22012");
            }
        }
        assert!(rows.try_next().await.unwrap().is_none());
    });
}

fn bytes_down(proxy: &onetrip_lab::proxy::Proxy) -> u64 {
    proxy.stats().bytes_down
}

#[test]
fn a_stream_that_is_dropped_leaves_its_session_usable() {
    run(async {
        let mut session = session().await;
        for take in [0, 1, 10, 5000] {
            let mut rows = session.query_stream(SERIES, &[&100_000]).await.unwrap();
            for number in 1..=take {
                assert_eq!(rows.try_next().await.unwrap().unwrap().get::<i32>(0), number);
            }
            drop(rows);
            let row = session.query_one("select 20 + $1", &[&22]).await.unwrap();
            assert_eq!(row.get::<i32>(0), 42);
        }
        // Dropped before anything came, and before anything was sent.
        for polls in 0..3 {
            let mut opening = Box::pin(session.query_stream(SERIES, &[&10_000]));
            for _ in 0..polls {
                if poll_once(&mut opening).await {
                    break;
                }
            }
            drop(opening);
            assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
        }
    });
}

/// P29: the rest of an unwanted result is not read if its connection can be replaced.
#[test]
fn a_dropped_stream_of_a_client_gives_its_connection_back_or_up() {
    run(async {
        let client = client_with("connections_max=1").await;
        let mut small = client.query_stream(PIDS, &[&100]).await.unwrap();
        let pid = backend(&mut small).await;
        drop(small);
        assert_eq!(pid_of(&client).await, pid);
        let mut huge = client.query_stream(PIDS, &[&2_000_000_000]).await.unwrap();
        assert!(huge.try_next().await.unwrap().is_some());
        drop(huge);
        // There is one connection, so this waits until that is given up.
        assert_ne!(pid_of(&client).await, pid);
    });
}

#[test]
fn the_rest_of_a_long_stream_is_cancelled_where_nobody_is_harmed() {
    run(async {
        let mut session = session().await;
        for _ in 0..3 {
            let mut rows = session.query_stream(SERIES, &[&2_000_000_000]).await.unwrap();
            assert!(rows.try_next().await.unwrap().is_some());
            drop(rows);
            // The whole stream would take minutes.
            let replies: Vec<_> = (0..5).map(|i| session.query_one("select $1", &[&i])).collect();
            for (i, reply) in (0..5).zip(replies) {
                assert_eq!(reply.await.unwrap().get::<i32>(0), i);
            }
        }
    });
}

/// Rows with the server process that makes them.
const PIDS: &str = "select pg_backend_pid(), generate_series(1, $1::int), repeat('x', 100)";

/// The server process behind such a stream.
async fn backend(rows: &mut RowStream<'_>) -> i32 {
    rows.try_next().await.unwrap().unwrap().get(0)
}

#[test]
fn streams_in_a_transaction_see_it_and_leave_it_open() {
    run(async {
        let t = table("id int").await;
        let mut session = session().await;
        let mut tx = session.begin().await.unwrap();
        // BEGIN goes in front of it.
        let mut rows = tx.query_stream(SERIES, &[&10]).await.unwrap();
        assert_eq!(numbers(&mut rows).await.len(), 10);
        drop(rows);
        tx.execute(&format!("insert into {t} select generate_series(1, 1000)"), &[]).await.unwrap();
        let select = format!("select id from {t} order by id");
        let mut rows = tx.query_stream(&select, &[]).await.unwrap();
        assert_eq!(rows.try_next().await.unwrap().unwrap().get::<i32>(0), 1);
        drop(rows);
        tx.execute("savepoint s", &[]).await.unwrap();
        rejected(tx.query_stream("select 1/0", &[]).await.map(drop), "22012");
        tx.execute("rollback to s", &[]).await.unwrap();
        let row = tx.query_one(&format!("select count(*) from {t}"), &[]).await.unwrap();
        assert_eq!(row.get::<i64>(0), 1000);
        tx.rollback().await.unwrap();
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_stream_whose_server_goes_away_says_so() {
    run(async {
        let client = client().await;
        let mut rows = client.query_stream(PIDS, &[&2_000_000]).await.unwrap();
        terminate(backend(&mut rows).await).await;
        let error = loop {
            match rows.try_next().await {
                Ok(row) => assert!(row.is_some(), "it ended as if it were whole"),
                Err(error) => break error,
            }
        };
        assert_eq!((error.outcome(), error.code()), (Outcome::Unknown, "connection_lost"));
        drop(rows);
        assert_usable(&client).await;
    });
}

#[test]
fn a_stream_has_no_deadline() {
    run(async {
        let client = client_with("request_timeout_ms=50").await;
        let mut rows = client.query_stream(SERIES, &[&100_000]).await.unwrap();
        assert!(rows.try_next().await.unwrap().is_some());
        // A statement that takes longer than the limit.
        session().await.query("select pg_sleep(0.2)", &[]).await.unwrap();
        assert_eq!(numbers(&mut rows).await.len(), 99_999);
    });
}

#[test]
fn all_is_right_one_byte_at_a_time() {
    run(async {
        let proxy = proxy();
        let (direction, on) = (Direction::Down, true);
        proxy.fault(
            onetrip_lab::proxy::Fault::ByteAtATime { direction, on },
            onetrip_lab::proxy::Scope::All,
        );
        let client: Client = client_through(&proxy, "").await;
        let mut rows = client.query_stream(SERIES, &[&300]).await.unwrap();
        assert!(numbers(&mut rows).await.into_iter().eq(1..=300));
    });
}

#[test]
fn many_streams_at_once_each_have_their_rows() {
    run_threads(async {
        let client = client_with("connections_max=4").await;
        let tasks: Vec<_> = (1..=12)
            .map(|task: i32| {
                let client = client.clone();
                tokio::spawn(async move {
                    let sql = "select $1 * 1000000 + i from generate_series(1, 20000) i";
                    let mut rows = client.query_stream(sql, &[&task]).await.unwrap();
                    // Some streams are dropped early.
                    let wanted = if task % 3 == 0 { 100 } else { 20_000 };
                    for i in 1..=wanted {
                        let row = rows.try_next().await.unwrap().unwrap();
                        assert_eq!(row.get::<i32>(0), task * 1_000_000 + i);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}
