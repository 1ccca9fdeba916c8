//! A client and a server of PostgreSQL, as bytes with times.

use onetrip_profile::{Legs, Nanos, Piece, Profiler, Side};

/// The round trip of all conversations here.
pub(crate) const RTT: Nanos = 1_000_000;

/// One connection. It keeps the time.
pub(crate) struct Speaker {
    pub(crate) at: Nanos,
    connection: u64,
    status: u8,
}

/// Rows of text values.
pub(crate) type Rows = Vec<Vec<String>>;

impl Speaker {
    /// A connection that has logged in.
    pub(crate) fn new(profiler: &mut Profiler, connection: u64, at: Nanos) -> Speaker {
        let mut it = Speaker { at, connection, status: b'I' };
        profiler.rtt(connection, Legs { client: None, server: Some(RTT) });
        let mut startup = vec![0, 3, 0, 0];
        startup.extend(b"user\0a\0\0");
        let mut first = (startup.len() as u32 + 4).to_be_bytes().to_vec();
        first.extend(startup);
        it.say(profiler, Side::Client, &first);
        it.at += RTT;
        let mut answer = message(b'R', &[0, 0, 0, 0]);
        answer.extend(message(b'Z', b"I"));
        it.say(profiler, Side::Server, &answer);
        it
    }

    pub(crate) fn say(&self, profiler: &mut Profiler, from: Side, bytes: &[u8]) {
        profiler.piece(Piece { at: self.at, connection: self.connection, from, bytes });
    }

    /// The program does something else for so long.
    pub(crate) fn rest(&mut self, nanos: Nanos) {
        self.at += nanos;
    }

    /// A statement with text parameters, by the extended protocol, and its rows.
    pub(crate) fn run(&mut self, profiler: &mut Profiler, sql: &str, with: &[String], rows: &Rows) {
        self.flight(profiler, &[(sql, with.to_vec(), rows.clone())]);
    }

    /// Statements in one write, each with a Sync of its own.
    pub(crate) fn flight(&mut self, profiler: &mut Profiler, all: &[(&str, Vec<String>, Rows)]) {
        let (mut asked, mut answers) = (Vec::new(), Vec::new());
        for (sql, with, rows) in all {
            asked.extend(extended(sql, with));
            self.status = status_behind(self.status, sql);
            answers.extend(message(b'1', b""));
            answers.extend(message(b'2', b""));
            answers.extend(result(rows));
            answers.extend(message(b'Z', &[self.status]));
        }
        self.say(profiler, Side::Client, &asked);
        self.at += RTT;
        self.say(profiler, Side::Server, &answers);
        // The program thinks.
        self.at += 50_000;
    }

    /// A text by the simple protocol.
    pub(crate) fn simple(&mut self, profiler: &mut Profiler, sql: &str, rows: &Rows) {
        let mut text = sql.as_bytes().to_vec();
        text.push(0);
        self.say(profiler, Side::Client, &message(b'Q', &text));
        self.at += RTT;
        self.status = status_behind(self.status, sql);
        let mut answer = result(rows);
        answer.extend(message(b'Z', &[self.status]));
        self.say(profiler, Side::Server, &answer);
        self.at += 50_000;
    }
}

fn status_behind(before: u8, sql: &str) -> u8 {
    match sql.split_whitespace().next().unwrap_or_default() {
        "begin" => b'T',
        "commit" | "rollback" => b'I',
        _ => before,
    }
}

pub(crate) fn extended(sql: &str, with: &[String]) -> Vec<u8> {
    let mut parse = vec![0];
    parse.extend(sql.as_bytes());
    parse.extend([0, 0, 0]);
    let mut bind = vec![0, 0, 0, 0];
    bind.extend((with.len() as u16).to_be_bytes());
    for value in with {
        bind.extend((value.len() as u32).to_be_bytes());
        bind.extend(value.as_bytes());
    }
    bind.extend([0, 0]);
    let mut bytes = message(b'P', &parse);
    bytes.extend(message(b'B', &bind));
    bytes.extend(message(b'E', &[0, 0, 0, 0, 0]));
    bytes.extend(message(b'S', b""));
    bytes
}

fn result(rows: &Rows) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in rows {
        let mut body = (row.len() as u16).to_be_bytes().to_vec();
        for value in row {
            body.extend((value.len() as u32).to_be_bytes());
            body.extend(value.as_bytes());
        }
        bytes.extend(message(b'D', &body));
    }
    bytes.extend(message(b'C', format!("SELECT {}\0", rows.len()).as_bytes()));
    bytes
}

pub(crate) fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}
