//! Memory is bounded, whatever comes. `ONETRIP_MEMORY=1` runs the million trips as well.

use onetrip_profile::{Piece, Profiler, Side};

/// Bytes that the analysis may hold at once.
const MOST: u64 = 256 << 20;

/// The most bytes that were held while this ran.
fn held(name: &str, run: impl FnOnce(&mut Profiler)) {
    let mut run = Some(run);
    let info = allocation_counter::measure(|| {
        let mut profiler = Profiler::new();
        if let Some(run) = run.take() {
            run(&mut profiler);
        }
        std::hint::black_box(profiler.finish());
    });
    println!("{name}: {} MiB", info.bytes_max >> 20);
    assert!(info.bytes_max < MOST, "{name}: {} bytes", info.bytes_max);
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

fn startup() -> Vec<u8> {
    let body = b"\0\x03\0\0user\0a\0\0";
    [&(body.len() as u32 + 4).to_be_bytes(), &body[..]].concat()
}

fn log_in(profiler: &mut Profiler, connection: u64) {
    let ready = [message(b'R', &[0; 4]), message(b'Z', b"I")].concat();
    say(profiler, connection, Side::Client, &startup());
    say(profiler, connection, Side::Server, &ready);
}

fn say(profiler: &mut Profiler, connection: u64, from: Side, bytes: &[u8]) {
    profiler.piece(Piece { at: 0, connection, from, bytes });
}

/// Statements with texts of which so many are distinct, on so many connections.
fn work(profiler: &mut Profiler, trips: u64, connections: u64, texts: u64) {
    (0..connections).for_each(|connection| log_in(profiler, connection));
    let row = |n: u64| {
        let value = n.to_string();
        let len = (value.len() as u32).to_be_bytes();
        message(b'D', &[&[0, 1][..], &len, value.as_bytes()].concat())
    };
    for n in 0..trips {
        let at = n * 300_000 + n / 7 * 50_000_000;
        let which = n % texts;
        let sql = format!("select a from t{which} join u{which} using (k) where id = {n}\0");
        let answer = [row(n), message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat();
        let connection = n % connections;
        let (client, server) = (Side::Client, Side::Server);
        let asked = message(b'Q', sql.as_bytes());
        profiler.piece(Piece { at, connection, from: client, bytes: &asked });
        profiler.piece(Piece { at: at + 100_000, connection, from: server, bytes: &answer });
    }
}

#[test]
fn memory_is_bounded_at_work() {
    let trips = if std::env::var_os("ONETRIP_MEMORY").is_some() { 1_000_000 } else { 40_000 };
    held("trips of one connection", |it| work(it, trips, 1, 50));
    held("10,000 connections", |it| work(it, trips, 10_000, 50));
    held("30,000 texts", |it| work(it, trips, 20, 30_000));
}

#[test]
fn memory_is_bounded_under_attack() {
    held("a message without end on each of many connections", |it| {
        for connection in 0..600 {
            log_in(it, connection);
            say(it, connection, Side::Client, b"Q\x3f\xff\xff\xf0");
            for _ in 0..16 {
                say(it, connection, Side::Client, &[b'x'; 60_000]);
                say(it, connection, Side::Server, b"N\0\x0f\xff\xff");
            }
        }
    });
    held("a reply without end", |it| {
        say(it, 1, Side::Client, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
        say(it, 1, Side::Server, b"*9999\r\n$500000000\r\n");
        (0..5_000).for_each(|_| say(it, 1, Side::Server, &[b'x'; 60_000]));
    });
    held("a command without end", |it| {
        say(it, 1, Side::Client, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$500000000\r\n");
        (0..5_000).for_each(|_| say(it, 1, Side::Client, &[b'x'; 60_000]));
    });
    held("names of statements and portals", |it| {
        for connection in 0..20 {
            log_in(it, connection);
            for n in 0..20_000 {
                let parse = message(b'P', format!("s{n}\0select {n}, $1\0\0\0").as_bytes());
                let bind = format!("p{n}\0s{n}\0\0\0\0\x01\0\0\0\x0217\0\0");
                let bytes = [parse, message(b'B', bind.as_bytes())].concat();
                say(it, connection, Side::Client, &bytes);
            }
        }
    });
    held("requests without answers", |it| {
        for connection in 0..50 {
            log_in(it, connection);
            let sql = message(b'Q', b"select a from t where b in (1, 2, 3, 4, 5, 6)\0");
            (0..100).for_each(|_| say(it, connection, Side::Client, &sql.repeat(100)));
        }
        (100..150).for_each(|connection| {
            let command = b"*3\r\n$3\r\nSET\r\n$3\r\na:1\r\n$1\r\nv\r\n".repeat(100);
            (0..100).for_each(|_| say(it, connection, Side::Client, &command));
        });
    });
}
