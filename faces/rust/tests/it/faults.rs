//! A hostile line, a hostile peer, and a runtime that goes away.

use std::time::Duration;

use crate::pooled::shared;
use onetrip::{Client, Kind, Outcome};
use onetrip_lab::proxy::{Direction, Fault, Scope};

use crate::support::*;

#[test]
fn all_is_right_one_byte_at_a_time() {
    run(async {
        let (proxy, t) = (proxy(), table("id int primary key").await);
        for direction in [Direction::Up, Direction::Down] {
            proxy.fault(Fault::ByteAtATime { direction, on: true }, Scope::All);
        }
        let client = client_through(&proxy, "").await;
        let mut session = client.session().await.unwrap();
        let insert = format!("insert into {t} values ($1)");
        let replies: Vec<_> =
            (0..20).map(|i| client.query_one("select $1, repeat('x', $1)", &[&i])).collect();
        for (i, reply) in (0..20).zip(replies) {
            let row = reply.await.unwrap();
            assert_eq!((row.get::<i32>(0), row.get::<&str>(1).len()), (i, i as usize));
        }
        let rows = client.query("select i, repeat('y', 50) from generate_series(1, 200) i", &[]);
        assert!(rows.await.unwrap().iter().map(|row| row.get::<i32>(0)).eq(1..=200));
        rejected(client.query("select 1/0", &[]).await, "22012");
        let statement = client.prepare(&insert).await.unwrap();
        let mut pipeline = client.pipeline();
        let replies: Vec<_> = (0..10).map(|i| pipeline.execute(&statement, &[&i])).collect();
        pipeline.finish().await.unwrap();
        for reply in replies {
            assert_eq!(reply.await.unwrap(), 1);
        }
        let mut pipeline = client.pipeline();
        let undone = pipeline.execute(&insert, &[&50]);
        let failing = pipeline.execute(&insert, &[&1]);
        let skipped = pipeline.execute(&insert, &[&51]);
        rejected(pipeline.finish().await, "23505");
        failed(undone.await, Outcome::Rejected, "rolled_back");
        rejected(failing.await, "23505");
        failed(skipped.await, Outcome::Rejected, "aborted");
        let tx = session.begin().await.unwrap();
        tx.execute(&insert, &[&60]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(session.script("select 1; select 2").await.unwrap().len(), 2);
        assert_eq!(ids(&t).await, (0..10).chain([60]).collect());
    });
}

/// P1. Both sides send much at once: reading must not wait for writing.
#[test]
fn large_requests_and_large_replies_do_not_block_one_another() {
    run(async {
        let client = client().await;
        let text = "z".repeat(300_000);
        let replies: Vec<_> =
            (0..60).map(|i| client.query_one("select $1, $2 || $2 || $2", &[&i, &text])).collect();
        for (i, reply) in (0..60).zip(replies) {
            let row = reply.await.unwrap();
            assert_eq!((row.get::<i32>(0), row.get::<&str>(1).len()), (i, 900_000));
        }
    });
}

#[test]
fn a_peer_that_breaks_the_protocol_is_closed_and_all_in_flight_is_unknown() {
    run(async {
        for garbage in [
            &b"Z\0\0\0\x05I"[..],                       // Ready, before the reply.
            b"D\0\0\0\x06\0\0",                         // A row of nothing.
            b"3\0\0\0\x04",                             // A Close that was not asked for.
            b"G\0\0\0\x07\0\0\0",                       // COPY.
            b"T\x7f\xff\xff\xff",                       // A length that nobody has.
            b"\0\0\0\0\0\0\0",                          // No message at all.
            b"E\0\0\0\x0aSERROR\0",                     // An error that isn't whole.
            b"C\0\0\0\x0dSELECT 1\0",                   // Complete, before Parse was.
            b"S\0\0\0\x06a\0",                          // A setting without a value.
            b"A\0\0\0\x08\0\0\0\x01",                   // A notification of nothing.
            b"N\0\0\0\x06Sx",                           // A notice without an end.
            b"1\0\0\0\x042\0\0\0\x04T\0\0\0\x06\0\x01", // A column that isn't there.
        ] {
            let url = hostile_server(garbage).await;
            let client = Client::connect(&format!("{url}&wait_timeout_ms=300&connections_max=1"))
                .await
                .unwrap();
            let replies = [client.query("select 1", &[]), client.query("select 2", &[])];
            for reply in replies {
                let error = failed(reply.await, Outcome::Unknown, "connection_lost");
                assert_eq!(error.kind(), Kind::Protocol, "{garbage:?}: {error}");
            }
            // It tries to open another connection for the next call, but the server is gone.
            let error = error(client.query("select 1", &[]).await);
            assert_eq!(error.outcome(), Outcome::NotSent, "{error}");
        }
    });
}

#[test]
fn a_server_that_reports_settings_without_end_is_closed() {
    run(async {
        let setting = |name: String| message(b'S', format!("{name}\0x\0").as_bytes());
        // A server may report the same settings any number of times.
        let few = (0..5000).flat_map(|i| setting(format!("s{}", i % 200)));
        let many = (0..100_000).flat_map(|i| setting(format!("t{i}")));
        let url = hostile_server(few.chain(many).collect::<Vec<u8>>().leak()).await;
        let client = Client::connect(&format!("{url}&wait_timeout_ms=300")).await.unwrap();
        let session = client.session().await.unwrap();
        let error =
            failed(session.query("select 1", &[]).await, Outcome::Unknown, "connection_lost");
        assert_eq!(error.kind(), Kind::Protocol, "{error}");
        assert_eq!(session.parameter("s199").as_deref(), Some("x"));
        assert!(session.parameter("t999").is_none(), "a thousand are kept");
    });
}

/// A message of a server.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u32 + 4).to_be_bytes();
    [&[tag][..], &len, body].concat()
}

#[test]
fn an_error_of_a_server_that_gives_no_reason_says_so() {
    run(async {
        for (error, text) in [
            (&b"E\0\0\0\x05\0Z\0\0\0\x05I"[..], "the server gave no reason"),
            (b"E\0\0\0\x0bMtext\0\0Z\0\0\0\x05I", "text"),
            (b"E\0\0\0\x0cC22012\0\0Z\0\0\0\x05I", "the server gave no reason (SQLSTATE 22012)"),
        ] {
            let client = Client::connect(&hostile_server(error).await).await.unwrap();
            assert_eq!(self::error(client.query("select 1", &[]).await).to_string(), text);
        }
    });
}

/// One column of type int4, and its value.
const ONE_ROW: [&[u8]; 2] = [
    b"1\0\0\0\x042\0\0\0\x04T\0\0\0\x1a\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01",
    b"D\0\0\0\x0e\0\x01\0\0\0\x04\0\0\0\x07",
];

/// Rows whose lengths are wrong.
const MISFITS: [&[u8]; 6] = [
    b"D\0\0\0\x0e\0\x01\0\0\0\x05\0\0\0\x07", // A value beyond the end.
    b"D\0\0\0\x0e\0\x01\0\0\0\x02\0\0\0\x07", // Bytes behind the last value.
    b"D\0\0\0\x0a\0\x01\xff\xff\xff\xfe",     // A length below zero that isn't NULL.
    b"D\0\0\0\x06\0\0",                       // No value.
    b"D\0\0\0\x12\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff", // One too many.
    b"D\0\0\0\x05\0",                         // Not even their number.
];

const COMPLETE: &[u8] = b"C\0\0\0\x0dSELECT 2\0Z\0\0\0\x05I";

/// A server without a password that answers the first statement with two rows, the second of which
/// is malformed, and later statements not at all. It ends with its connection.
async fn server_of_a_misfit(misfit: &[u8]) -> String {
    let answer = [ONE_ROW[0], ONE_ROW[1], misfit, COMPLETE].concat();
    hostile_server(answer.leak()).await
}

#[test]
fn a_row_that_does_not_fit_closes_the_connection_and_all_in_flight_is_unknown() {
    run(async {
        for misfit in MISFITS {
            let url = server_of_a_misfit(misfit).await;
            let client = Client::connect(&format!("{url}&wait_timeout_ms=300")).await.unwrap();
            let replies = [client.query("select a", &[]), client.query("select b", &[])];
            let [first, second] = replies;
            let error = failed(first.await, Outcome::Applied, "malformed_reply");
            assert_eq!(error.kind(), Kind::Protocol, "{misfit:?}: {error}");
            let error = failed(second.await, Outcome::Unknown, "connection_lost");
            assert_eq!(error.kind(), Kind::Protocol, "{misfit:?}: {error}");
            assert_eq!(client.connections(), 0);
        }
    });
}

#[test]
fn a_row_of_a_stream_that_does_not_fit_closes_the_connection() {
    run(async {
        for (misfit, in_pieces) in MISFITS.into_iter().flat_map(|it| [(it, false), (it, true)]) {
            let url = server_of_a_misfit(misfit).await;
            let client = Client::connect(&format!("{url}&wait_timeout_ms=300")).await.unwrap();
            let session = &mut client.session().await.unwrap();
            let mut rows = session.query_stream("select a", &[]).await.unwrap();
            assert_eq!(rows.try_next().await.unwrap().unwrap().get::<i32>(0), 7);
            let failure = match in_pieces {
                false => rows.try_next().await.map(drop),
                true => async { rows.next_in_pieces().await?.unwrap().value::<i32>().await }
                    .await
                    .map(drop),
            };
            failed(failure, Outcome::Unknown, "malformed_reply");
            drop(rows);
            assert!(session.is_closed(), "{misfit:?}");
        }
    });
}

/// A server without a password that answers the first statement with `garbage`, and nothing more.
async fn hostile_server(garbage: &'static [u8]) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        let welcome = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\0\0\0\0\x02Z\0\0\0\x05I";
        stream.write_all(welcome).await.unwrap();
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        stream.write_all(garbage).await.unwrap();
        // Stays open until the client closes the connection.
        while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    });
    format!("postgres://me@127.0.0.1:{port}/db?sslmode=disable")
}

/// The driver runs on the runtime that connected. Without it no reply can come, and calls report
/// that.
#[test]
fn a_connection_whose_runtime_is_gone_says_so() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let client = first.block_on(async { Client::connect(&shared().url()).await.unwrap() });
    let submitted = client.query("select 1", &[]);
    drop(first);
    let later = client.query("select 2", &[]);
    runtime().block_on(async {
        for reply in [submitted, later] {
            let ended = tokio::time::timeout(Duration::from_secs(2), reply).await;
            assert!(ended.expect("this reply never ends").is_err());
        }
        assert!(client.is_closed());
    });
}

#[test]
fn nothing_of_a_lost_connection_is_left_waiting() {
    run_threads(async {
        let proxy = proxy();
        for round in 0..6 {
            let client = client_through(&proxy, "in_flight_max=10&queue_max=10").await;
            let tasks: Vec<_> = (0..16)
                .map(|task| {
                    let client = client.clone();
                    tokio::spawn(async move {
                        for number in (task * 1000)..(task * 1000 + 150) {
                            let mut pipeline = client.pipeline();
                            let of_pipeline = pipeline.query_one("select $1", &[&number]);
                            let alone = client.query_one("select $1", &[&number]);
                            let finished = pipeline.finish().await;
                            let (alone, piped) = (alone.await, of_pipeline.await);
                            for row in [&alone, &piped].into_iter().flatten() {
                                assert_eq!(row.get::<i32>(0), number);
                            }
                            if finished.is_err() || alone.is_err() {
                                break;
                            }
                        }
                    })
                })
                .collect();
            let direction = if round % 2 == 0 { Direction::Up } else { Direction::Down };
            let bytes = 5000 + round * 777;
            proxy.fault(Fault::ResetAfter { direction, bytes }, Scope::Present);
            for task in tasks {
                task.await.unwrap();
            }
            assert_usable(&client).await;
        }
    });
}
