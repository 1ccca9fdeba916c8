//! Plans that go stale again and again. A scripted server reports them as often as it is told to,
//! since on a real one the Parse that prepares again holds a lock from then on.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onetrip::Client;

use crate::support::*;

/// What the server is told to do, and what it has seen.
#[derive(Default)]
struct Told {
    /// How many of the next Binds of a named statement find a stale plan.
    stale: AtomicUsize,
    parses: AtomicUsize,
    binds: AtomicUsize,
}

/// A client of a server whose only statement returns a row with one column, named after the Parse
/// that the statement came from.
async fn scripted() -> (Client, Arc<Told>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "postgres://u@{}/d?sslmode=disable&prepare_threshold=1&connections_max=1",
        listener.local_addr().unwrap()
    );
    let told = Arc::new(Told::default());
    let server = told.clone();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let server = server.clone();
            std::thread::spawn(move || serve(stream, &server));
        }
    });
    (Client::connect(&url).await.unwrap(), told)
}

fn put(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    out.push(tag);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
}

/// Serves one connection until the client closes it.
fn serve(mut stream: TcpStream, told: &Told) -> Option<()> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).ok()?;
    let mut body = vec![0; u32::from_be_bytes(len) as usize - 4];
    stream.read_exact(&mut body).ok()?;
    let mut out = Vec::new();
    put(&mut out, b'R', &[0; 4]);
    put(&mut out, b'K', &[0, 0, 0, 1, 0, 0, 0, 2]);
    put(&mut out, b'Z', b"I");
    let mut status = *b"I";
    let mut skips = false;
    // The client asks whether this is the server itself, and it is.
    let mut probed = false;
    loop {
        stream.write_all(&out).ok()?;
        out.clear();
        let mut head = [0; 5];
        stream.read_exact(&mut head).ok()?;
        let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
        let mut body = vec![0; len];
        stream.read_exact(&mut body).ok()?;
        match head[0] {
            b'S' => {
                skips = false;
                put(&mut out, b'Z', &status);
            }
            _ if skips => {}
            b'P' if body.windows(14).any(|text| text == b"pg_backend_pid") => {
                probed = true;
                put(&mut out, b'1', b"");
            }
            b'B' if probed => put(&mut out, b'2', b""),
            b'E' if probed => {
                put(&mut out, b'D', &[0, 2, 0, 0, 0, 1, b'1', 0, 0, 0, 1, b't']);
                put(&mut out, b'C', b"SELECT 1\0");
            }
            b'C' if probed => {
                probed = false;
                put(&mut out, b'3', b"");
            }
            b'P' => {
                let begins = body.windows(5).any(|text| text == b"BEGIN");
                status = if begins { *b"T" } else { status };
                told.parses.fetch_add(1, Ordering::SeqCst);
                put(&mut out, b'1', b"");
            }
            b'B' => {
                skips = is_stale(&body, told);
                match skips {
                    true => put(&mut out, b'E', STALE),
                    false => put(&mut out, b'2', b""),
                }
            }
            tag => answer(tag, &body, told, &mut out),
        }
    }
}

const STALE: &[u8] = b"SERROR\0VERROR\0C0A000\0Mcached plan must not change result type\0\
                       RRevalidateCachedQuery\0\0";

fn is_stale(bind: &[u8], told: &Told) -> bool {
    // A portal's name is in front; BEGIN's Bind is the only one with an empty statement name.
    let named = bind[0] == 0 && bind[1] != 0;
    told.binds.fetch_add(usize::from(named), Ordering::SeqCst);
    let less = |stale: usize| stale.checked_sub(1);
    named && told.stale.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
}

fn answer(tag: u8, body: &[u8], told: &Told, out: &mut Vec<u8>) {
    match tag {
        b'C' => put(out, b'3', b""),
        b'D' => {
            if body[0] == b'S' {
                put(out, b't', &[0, 0]);
            }
            let name = format!("c{}", told.parses.load(Ordering::SeqCst));
            let int4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 23, 0, 4, 255, 255, 255, 255, 0, 1];
            put(out, b'T', &[&[0, 1], name.as_bytes(), &[0], &int4].concat());
        }
        b'E' => {
            put(out, b'D', &[0, 1, 0, 0, 0, 4, 0, 0, 0, 7]);
            put(out, b'C', b"SELECT 1\0");
        }
        _ => {}
    }
}

const SELECT: &str = "select * from t";

/// The number of the Parse that the columns of a row came from.
async fn parse_of(client: &Client) -> usize {
    let row = client.query_one(SELECT, &[]).await.unwrap();
    assert_eq!(row.get::<i32>(0), 7);
    row.columns()[0].name()[1..].parse().unwrap()
}

#[test]
fn a_plan_that_goes_stale_twice_in_a_row_is_healed_twice() {
    run(async {
        let (client, told) = scripted().await;
        assert_eq!((parse_of(&client).await, parse_of(&client).await), (1, 1));
        told.stale.store(2, Ordering::SeqCst);
        assert_eq!(parse_of(&client).await, 3, "the columns are those of the last");
        assert_eq!(parse_of(&client).await, 3);
        assert_eq!(client.metrics().counts.healed, 2);
    });
}

#[test]
fn a_plan_that_is_stale_each_time_is_given_up() {
    run(async {
        let (client, told) = scripted().await;
        parse_of(&client).await;
        told.stale.store(usize::MAX, Ordering::SeqCst);
        told.binds.store(0, Ordering::SeqCst);
        rejected(client.query_one(SELECT, &[]).await, "0A000");
        assert_eq!(told.binds.load(Ordering::SeqCst), 1 + 5);
        told.stale.store(0, Ordering::SeqCst);
        parse_of(&client).await;
    });
}

#[test]
fn a_stale_plan_of_a_transaction_or_a_pipeline_is_never_healed() {
    run(async {
        let (client, told) = scripted().await;
        let mut session = client.session().await.unwrap();
        for _ in 0..2 {
            session.query_one(SELECT, &[]).await.unwrap();
        }
        let tx = session.begin().await.unwrap();
        tx.query_one(SELECT, &[]).await.unwrap();
        told.stale.store(1, Ordering::SeqCst);
        rejected(tx.query_one(SELECT, &[]).await, "0A000");
        drop(tx);
        drop(session);
        let (client, told) = scripted().await;
        parse_of(&client).await;
        told.stale.store(1, Ordering::SeqCst);
        let mut pipeline = client.pipeline();
        let reply = pipeline.query(SELECT, &[]);
        rejected(pipeline.finish().await, "0A000");
        rejected(reply.await, "0A000");
    });
}
