//! Streams, values in pieces and COPY over TLS that verifies: bytes, giving up, one byte at a time.

use std::io::Cursor;
use std::net::SocketAddr;

use onetrip::{Client, Outcome, RowStream};
use onetrip_lab::proxy::{Direction, Fault, Proxy, ProxyConfig, Scope};
use tokio::io::AsyncReadExt;

use crate::certificates::*;
use crate::support::*;

const VERIFIED: &str = "sslmode=verify-full ROOT";

const SERIES: &str = "select generate_series(1, $1::int) i, repeat('x', 100)";

async fn client() -> Client {
    let client = server().connect(VERIFIED).await.unwrap();
    let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    assert!(client.query_one(sql, &[]).await.unwrap().get::<bool>(0), "this is no TLS");
    client
}

/// A new table on the server with TLS.
async fn table(client: &Client, columns: &str) -> String {
    let name = server().postgres.new_name();
    client.execute(&format!("create table {name} ({columns})"), &[]).await.unwrap();
    name
}

async fn rows_in(client: &Client, table: &str) -> i64 {
    let sql = format!("select count(*) from {table}");
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

/// Takes the next rows of a series, and checks their numbers.
async fn take(rows: &mut RowStream<'_>, numbers: std::ops::RangeInclusive<i32>) {
    for number in numbers {
        let row = rows.try_next().await.unwrap().unwrap();
        assert_eq!((row.get::<i32>(0), row.get::<&str>(1).len()), (number, 100));
    }
}

#[test]
fn a_stream_of_many_rows_over_tls_has_each_once_and_in_order() {
    run(async {
        let client = client().await;
        let mut rows = client.query_stream(SERIES, &[&50_000]).await.unwrap();
        take(&mut rows, 1..=50_000).await;
        assert!(rows.try_next().await.unwrap().is_none());
        drop(rows);
        assert_usable(&client).await;
    });
}

#[test]
fn a_stream_over_tls_that_is_dropped_early_leaves_a_usable_connection() {
    run(async {
        let client = client().await;
        let mut session = client.session().await.unwrap();
        for taken in [0, 1, 5000] {
            let mut rows = session.query_stream(SERIES, &[&100_000]).await.unwrap();
            take(&mut rows, 1..=taken).await;
            drop(rows);
            let row = session.query_one("select 20 + $1", &[&22]).await.unwrap();
            assert_eq!(row.get::<i32>(0), 42, "{taken} were taken");
        }
        let mut rows = client.query_stream(SERIES, &[&100_000]).await.unwrap();
        take(&mut rows, 1..=1).await;
        drop(rows);
        assert_usable(&client).await;
    });
}

#[test]
fn an_error_behind_rows_over_tls_comes_behind_those_rows() {
    run(async {
        let mut session = client().await.session().await.unwrap();
        let sql = "select 10 / (500 - i) from generate_series(1, 1000) i";
        let mut rows = session.query_stream(sql, &[]).await.unwrap();
        let error = loop {
            if let Err(error) = rows.try_next().await {
                break error;
            }
        };
        assert_eq!((error.sqlstate(), error.outcome()), (Some("22012"), Outcome::Rejected));
        drop(rows);
        session.query_one("select 1", &[]).await.unwrap();
    });
}

#[test]
fn a_value_over_tls_passes_in_pieces_in_both_directions() {
    run(async {
        let client = client().await;
        let t = table(&client, "doc bytea").await;
        let (mut random, len) = (Random(11), 12_000_000);
        println!("seed 11");
        let bytes: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        let insert = format!("insert into {t} values ($1)");
        let value = Cursor::new(bytes.clone());
        assert_eq!(client.execute_large(&insert, &[], len, value).await.unwrap(), 1);
        let mut rows = client.query_stream(&format!("select doc, 7 from {t}"), &[]).await.unwrap();
        let mut row = rows.next_in_pieces().await.unwrap().unwrap();
        let mut doc = row.pieces().await.unwrap().unwrap();
        let (mut read, mut pieces) = (Vec::new(), 0);
        while let Some(piece) = doc.next().await.unwrap() {
            read.extend_from_slice(&piece);
            pieces += 1;
        }
        assert!(read == bytes && pieces > 10, "{pieces} pieces");
        assert_eq!(row.value::<i32>().await.unwrap(), 7);
        drop(rows);
        // Dropped in the middle of the value.
        let mut session = client.session().await.unwrap();
        let mut rows = session.query_stream(&format!("select doc from {t}"), &[]).await.unwrap();
        let mut row = rows.next_in_pieces().await.unwrap().unwrap();
        let mut part = vec![0; 300_000];
        row.pieces().await.unwrap().unwrap().read_exact(&mut part).await.unwrap();
        assert!(part == bytes[..300_000]);
        drop(rows);
        assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
    });
}

#[test]
fn a_value_over_tls_that_ends_early_never_runs() {
    run(async {
        let client = client().await;
        let t = table(&client, "doc bytea").await;
        let sql = format!("insert into {t} values ($1)");
        let short = Cursor::new(vec![1; 500_000]);
        let mut session = client.session().await.unwrap();
        let ended = session.execute_large(&sql, &[], 1_000_000, short).await;
        failed(ended, Outcome::Rejected, "value_ended");
        assert!(session.is_closed(), "the server waits for the rest of a message");
        assert_eq!(rows_in(&client, &t).await, 0);
    });
}

fn lines(ids: std::ops::Range<i32>) -> String {
    ids.map(|id| format!("{id}\tline {id}\n")).collect()
}

#[test]
fn what_a_copy_takes_in_over_tls_comes_out_byte_by_byte() {
    run(async {
        let client = client().await;
        let t = table(&client, "id int, name text").await;
        let (data, mut random) = (lines(0..100_000), Random(12));
        println!("seed 12");
        let mut copy = client.copy_in(&format!("copy {t} from stdin")).await.unwrap();
        let mut rest = data.as_bytes();
        while !rest.is_empty() {
            let len = (random.below(200_000) as usize).min(rest.len());
            copy.send(rest[..len].to_vec()).await.unwrap();
            rest = &rest[len..];
        }
        assert_eq!(copy.finish().await.unwrap(), 100_000);
        let out = format!("copy (select * from {t} order by id) to stdout");
        let mut read = Vec::new();
        client.copy_out(&out).await.unwrap().read_to_end(&mut read).await.unwrap();
        assert!(read == data.as_bytes());
        // A COPY that is dropped early.
        let mut session = client.session().await.unwrap();
        let mut copy = session.copy_out(&out).await.unwrap();
        assert_eq!(copy.try_next().await.unwrap().unwrap(), "0\tline 0\n");
        drop(copy);
        assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
    });
}

#[test]
fn a_copy_over_tls_that_is_dropped_or_aborted_leaves_nothing() {
    run(async {
        let client = client().await;
        let t = table(&client, "id int, name text").await;
        let mut session = client.session().await.unwrap();
        for aborts in [false, true] {
            for sent in [0..0, 0..1, 0..60_000] {
                let mut copy = session.copy_in(&format!("copy {t} from stdin")).await.unwrap();
                copy.send(lines(sent.clone()) + "1\tha").await.unwrap();
                copy.flush().await.unwrap();
                match aborts {
                    true => copy.abort("changed my mind").await.unwrap(),
                    false => drop(copy),
                }
                assert_eq!(rows_in(&client, &t).await, 0, "{sent:?}");
                assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
            }
        }
    });
}

/// Each byte of a TLS record arrives in a read of its own.
#[test]
fn streams_and_copies_over_tls_are_right_one_byte_at_a_time() {
    run(async {
        let address = SocketAddr::from(([127, 0, 0, 1], server().postgres.port()));
        let proxy = Proxy::start(ProxyConfig::new(address)).unwrap();
        for direction in [Direction::Up, Direction::Down] {
            proxy.fault(Fault::ByteAtATime { direction, on: true }, Scope::All);
        }
        let settings = format!("{VERIFIED} port={}", proxy.addr().port());
        let client = server().connect(&settings).await.unwrap();
        let mut session = client.session().await.unwrap();
        let mut rows = session.query_stream(SERIES, &[&50]).await.unwrap();
        take(&mut rows, 1..=50).await;
        drop(rows);
        session.execute("create temp table t (id int, name text)", &[]).await.unwrap();
        let mut copy = session.copy_in("copy t from stdin").await.unwrap();
        copy.send(lines(0..100)).await.unwrap();
        assert_eq!(copy.finish().await.unwrap(), 100);
        let mut read = String::new();
        session
            .copy_out("copy t to stdout")
            .await
            .unwrap()
            .read_to_string(&mut read)
            .await
            .unwrap();
        assert_eq!(read, lines(0..100));
        let value = Cursor::new(vec![b'v'; 3000]);
        let sql = "update t set name = $1 where id = 7";
        assert_eq!(session.execute_large(sql, &[], 3000, value).await.unwrap(), 1);
        let row = session.query_one("select length(name) from t where id = 7", &[]).await.unwrap();
        assert_eq!(row.get::<i32>(0), 3000);
    });
}
