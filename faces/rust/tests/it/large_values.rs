//! Values in pieces, in both directions, in constant memory.

use std::io::Cursor;
use std::pin::Pin;
use std::task::{Context, Poll};

use onetrip::Outcome;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::support::*;

/// A reader that generates its bytes from their positions, so that they are never all in memory.
struct Generated {
    at: usize,
    len: usize,
}

fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

/// A pattern to copy from, for speed.
static PATTERN: [u8; 251 * 256] = {
    let mut pattern = [0; 251 * 256];
    let mut at = 0;
    while at < pattern.len() {
        pattern[at] = (at % 251) as u8;
        at += 1;
    }
    pattern
};

impl AsyncRead for Generated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let len = out.remaining().min(self.len - self.at);
        let end = self.at + len;
        while self.at < end {
            let from = self.at % 251;
            let piece = &PATTERN[from..][..(end - self.at).min(PATTERN.len() - from)];
            out.put_slice(piece);
            self.at += piece.len();
        }
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_large_value_is_written_and_read_in_pieces() {
    run(async {
        let t = table("id int, doc bytea, name text").await;
        let client = client().await;
        let len = 20_000_000;
        let value = Generated { at: 0, len };
        let sql = format!("insert into {t} (id, name, doc) values ($1, $2, $3)");
        assert_eq!(client.execute_large(&sql, &[&1, &"x"], len, value).await.unwrap(), 1);
        let sql = format!("select id, doc, name, null::text from {t} where id = $1");
        let mut rows = client.query_stream(&sql, &[&1]).await.unwrap();
        let mut row = rows.next_in_pieces().await.unwrap().unwrap();
        assert_eq!((row.value::<i32>().await.unwrap(), row.columns().len()), (1, 4));
        let mut doc = row.pieces().await.unwrap().unwrap();
        assert_eq!(doc.len(), len);
        let mut at = 0;
        while let Some(piece) = doc.next().await.unwrap() {
            assert!(piece.len() <= 256 << 10);
            assert!(piece.iter().copied().eq((at..at + piece.len()).map(byte)), "at {at}");
            at += piece.len();
        }
        assert_eq!(at, len);
        assert_eq!(row.value::<String>().await.unwrap(), "x");
        assert!(row.pieces().await.unwrap().is_none());
        failed(row.value::<i32>().await, Outcome::Applied, "unreadable_reply");
        assert!(rows.next_in_pieces().await.unwrap().is_none());
    });
}

#[test]
fn what_is_not_read_of_a_row_is_skipped() {
    run(async {
        let mut session = session().await;
        let sql = "select i, repeat(i::text, 1000000), i from generate_series(1, 5) i";
        let mut rows = session.query_stream(sql, &[]).await.unwrap();
        drop(rows.next_in_pieces().await.unwrap().unwrap());
        let mut row = rows.next_in_pieces().await.unwrap().unwrap();
        assert_eq!(row.value::<i32>().await.unwrap(), 2);
        let mut part = [0; 10];
        row.pieces().await.unwrap().unwrap().read_exact(&mut part).await.unwrap();
        assert_eq!(&part, b"2222222222");
        assert_eq!(row.value::<i32>().await.unwrap(), 2);
        // Whole rows and rows in pieces may alternate.
        let row = rows.try_next().await.unwrap().unwrap();
        assert_eq!((row.get::<i32>(2), row.get::<&str>(1).len()), (3, 1_000_000));
        let mut row = rows.next_in_pieces().await.unwrap().unwrap();
        row.value::<i32>().await.unwrap();
        let wrong = row.value::<i32>().await.unwrap_err();
        assert!(wrong.to_string().starts_with("column 1 (repeat) has type text"), "{wrong}");
        drop(rows);
        assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
    });
}

#[test]
fn text_and_json_are_written_as_text() {
    run(async {
        let t = table("id int, doc jsonb, name text").await;
        let mut session = session().await;
        let json = format!("[{}0]", "1,".repeat(100_000));
        let len = json.len();
        let insert = format!("insert into {t} (id, doc) values ($1, $2)");
        let value = Cursor::new(json.into_bytes());
        assert_eq!(session.execute_large(&insert, &[&1], len, value).await.unwrap(), 1);
        let update = session.prepare(&format!("update {t} set name = $1")).await.unwrap();
        let value = Cursor::new(vec![b'y'; 300_000]);
        assert_eq!(session.execute_large(&update, &[], 300_000, value).await.unwrap(), 1);
        let sql = format!("select jsonb_array_length(doc), length(name) from {t}");
        let row = session.query_one(&sql, &[]).await.unwrap();
        assert_eq!((row.get::<i32>(0), row.get::<i32>(1)), (100_001, 300_000));
        // An empty value, and one that the server refuses.
        let empty = session.execute_large(&update, &[], 0, tokio::io::empty()).await;
        assert_eq!(empty.unwrap(), 1);
        let broken = Cursor::new(vec![b'{'; 200_000]);
        rejected(session.execute_large(&insert, &[&2], 200_000, broken).await, "22P02");
        rejected(
            session.execute_large("select nonsense", &[], 1, tokio::io::empty()).await,
            "42703",
        );
        assert_eq!(ids(&t).await, [1].into());
    });
}

#[test]
fn a_large_value_is_part_of_its_transaction() {
    run(async {
        let t = table("id int, doc bytea").await;
        let mut session = session().await;
        let mut tx = session.begin().await.unwrap();
        let sql = format!("insert into {t} values ($1, $2)");
        let value = Generated { at: 0, len: 1_000_000 };
        assert_eq!(tx.execute_large(&sql, &[&1], 1_000_000, value).await.unwrap(), 1);
        tx.rollback().await.unwrap();
        assert_eq!(count(&session, &t).await, 0);
    });
}

#[test]
fn a_value_that_ends_early_never_runs_and_ends_its_connection() {
    run(async {
        let t = table("id int, doc bytea").await;
        let client = client().await;
        let sql = format!("insert into {t} values ($1, $2)");
        for there in [0, 1, 500_000, 999_999] {
            let mut session = client.session().await.unwrap();
            let value = Generated { at: 0, len: there };
            let ended = session.execute_large(&sql, &[&1], 1_000_000, value).await;
            failed(ended, Outcome::Rejected, "value_ended");
            assert!(session.is_closed());
        }
        // So does a call that is dropped while it sends.
        let mut session = client.session().await.unwrap();
        let statement = session.prepare(&sql).await.unwrap();
        let (_writer, value) = tokio::io::duplex(100);
        let mut sending = Box::pin(session.execute_large(&statement, &[&1], 10, value));
        // Everything before the value is sent at once; then it waits.
        assert!(!poll_once(&mut sending).await);
        drop(sending);
        assert!(session.is_closed());
        drop(session);
        assert!(ids(&t).await.is_empty());
        assert_usable(&client).await;
    });
}

/// The socket closes at once, not when something else happens on it, and even if the session is
/// kept: otherwise the server would wait for the rest of the value.
#[test]
fn a_value_that_ends_early_leaves_no_process_at_the_server() {
    run(async {
        let t = table("doc bytea").await;
        let (client, observer) = (client().await, session().await);
        let sql = format!("insert into {t} values ($1)");
        for is_dropped in [false, true] {
            let mut session = client.session().await.unwrap();
            let statement = session.prepare(&sql).await.unwrap();
            let pid: i32 = session.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
            if is_dropped {
                let (_writer, value) = tokio::io::duplex(100);
                let mut sending = Box::pin(session.execute_large(&statement, &[], 10, value));
                assert!(!poll_once(&mut sending).await);
            } else {
                let value = Generated { at: 0, len: 1 };
                let ended = session.execute_large(&statement, &[], 10, value).await;
                failed(ended, Outcome::Rejected, "value_ended");
            }
            until(async || {
                let sql = "select count(*) from pg_stat_activity where pid = $1";
                observer.query_one(sql, &[&pid]).await.unwrap().get::<i64>(0) == 0
            })
            .await;
            assert!(session.is_closed());
        }
    });
}

#[test]
fn a_value_that_can_t_fit_is_refused_before_anything_is_sent() {
    run(async {
        let t = table("doc bytea").await;
        let mut session = session().await;
        let sql = format!("insert into {t} values ($1)");
        let too_long = session.execute_large(&sql, &[], 1 << 30, tokio::io::empty()).await;
        failed(too_long, Outcome::NotSent, "unencodable");
        let wrong_count = session.execute_large(&sql, &[&1], 1, tokio::io::empty()).await;
        failed(wrong_count, Outcome::NotSent, "parameter_count");
        assert_eq!(count(&session, &t).await, 0);
    });
}

/// A value of 300 MB in both directions, and a million rows: the peak memory of the process grows
/// by less than 32 MiB. In a process of its own, since the system counts per process.
#[test]
fn what_is_in_memory_does_not_grow_with_what_passes() {
    const CHILD: &str = "ONETRIP_TEST_MEMORY_URL";
    let Ok(url) = std::env::var(CHILD) else {
        if is_refused_by_the_pooler() {
            return;
        }
        let test = "large_values::what_is_in_memory_does_not_grow_with_what_passes";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", test, "--nocapture"]);
        let output = child.env(CHILD, crate::pooled::shared().url()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = onetrip::Client::connect(&url).await.unwrap();
        let mut session = client.session().await.unwrap();
        session.execute("create temp table large (doc bytea)", &[]).await.unwrap();
        session.query("select 1", &[]).await.unwrap();
        let before = peak_kib();
        let len = 300_000_000;
        let insert = "insert into large values ($1)";
        let value = Generated { at: 0, len };
        assert_eq!(session.execute_large(insert, &[], len, value).await.unwrap(), 1);
        let mut rows = session.query_stream("select doc from large", &[]).await.unwrap();
        let mut row = rows.next_in_pieces().await.unwrap().unwrap();
        let mut sum = 0;
        let mut doc = row.pieces().await.unwrap().unwrap();
        while let Some(piece) = doc.next().await.unwrap() {
            sum += piece.len();
        }
        assert_eq!(sum, len);
        drop(rows);
        let sql = "select i, repeat('x', 100) from generate_series(1, 1000000) i";
        let mut rows = session.query_stream(sql, &[]).await.unwrap();
        let mut seen = 0;
        while rows.try_next().await.unwrap().is_some() {
            seen += 1;
        }
        assert_eq!(seen, 1_000_000);
        drop(rows);
        // A value that nobody reads in pieces is dropped as it comes.
        let limited = format!("{url}?result_bytes_max=1000000");
        let limited = onetrip::Client::connect(&limited).await.unwrap();
        let result = limited.query("select repeat('x', 200000000)", &[]).await;
        failed(result, Outcome::Applied, "result_too_large");
        let grown = peak_kib() - before;
        assert!(grown < 32 << 10, "{grown} KiB");
    });
}

/// The peak memory of this process.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
