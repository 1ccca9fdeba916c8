//! A client and a server of PostgreSQL, as bytes with times.

use onetrip_profile::{Legs, Nanos, Piece, Profiler, Side};

/// The round trip of all conversations here.
pub(crate) const RTT: Nanos = 1_000_000;

/// One connection. It keeps the time.
pub(crate) struct Speaker {
    pub(crate) at: Nanos,
    /// What a trip takes.
    pub(crate) rtt: Nanos,
    /// What the server needs for each flight.
    pub(crate) server: Nanos,
    connection: u64,
    status: u8,
}

/// What a statement returns: rows of one column, of JSON or of arrays, or an error.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Rows(Vec<String>),
    Json(Vec<String>),
    Arrays(Vec<String>),
    Failed,
}

/// A statement or a command, its values, and what it returns.
pub(crate) type Asked = (String, Vec<String>, Found);

/// Rows of text values.
pub(crate) type Rows = Vec<Vec<String>>;

impl Speaker {
    /// A connection that has logged in.
    pub(crate) fn new(profiler: &mut Profiler, connection: u64, at: Nanos) -> Speaker {
        let mut it = Speaker { at, rtt: RTT, server: 0, connection, status: b'I' };
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

    /// A connection of Redis.
    pub(crate) fn redis(profiler: &mut Profiler, connection: u64, at: Nanos) -> Speaker {
        profiler.rtt(connection, Legs { client: None, server: Some(RTT) });
        Speaker { at, rtt: RTT, server: 0, connection, status: b'I' }
    }

    /// Statements in one write, each with a Describe and a Sync of its own.
    pub(crate) fn statements(&mut self, profiler: &mut Profiler, all: &[Asked]) {
        let (mut asked, mut answers) = (Vec::new(), Vec::new());
        for (sql, with, found) in all {
            asked.extend(described(sql, with));
            answers.extend([message(b'1', b""), message(b'2', b"")].concat());
            answers.extend(found.of_postgres());
            answers.extend(message(b'Z', &[self.status]));
        }
        self.trip(profiler, &asked, &answers);
    }

    /// A statement that fails, in a transaction.
    pub(crate) fn fail(&mut self, profiler: &mut Profiler, sql: &str, with: &[String]) {
        self.status = b'E';
        self.statements(profiler, &[(sql.to_owned(), with.to_vec(), Found::Failed)]);
    }

    /// Commands of Redis in one write. Values become parts of the key.
    pub(crate) fn commands(&mut self, profiler: &mut Profiler, all: &[Asked]) {
        let (mut asked, mut answers) = (Vec::new(), Vec::new());
        for (command, with, found) in all {
            let (name, key) = command.split_once(' ').unwrap_or((command, ""));
            let keys = match (name, &with[..]) {
                (_, []) => vec![format!("{key}:all")],
                ("MGET", with) => with.iter().map(|it| format!("{key}:{it}")).collect(),
                (_, with) => vec![format!("{key}:{}", with.join(":"))],
            };
            asked.extend(format!("*{}\r\n", 1 + keys.len()).into_bytes());
            asked.extend(bulk(name));
            keys.iter().for_each(|key| asked.extend(bulk(key)));
            answers.extend(found.of_redis(name != "GET"));
        }
        self.trip(profiler, &asked, &answers);
    }

    fn trip(&mut self, profiler: &mut Profiler, asked: &[u8], answers: &[u8]) {
        self.say(profiler, Side::Client, asked);
        self.at += self.rtt;
        self.say(profiler, Side::Server, answers);
        // The program thinks.
        self.at += 50_000;
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
        self.at += self.rtt + self.server;
        self.say(profiler, Side::Server, &answers);
        // The program thinks.
        self.at += 50_000;
    }

    /// A text by the simple protocol.
    pub(crate) fn simple(&mut self, profiler: &mut Profiler, sql: &str, rows: &Rows) {
        let mut text = sql.as_bytes().to_vec();
        text.push(0);
        self.say(profiler, Side::Client, &message(b'Q', &text));
        self.at += self.rtt + self.server;
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
    [bound(sql, with), message(b'E', &[0, 0, 0, 0, 0]), message(b'S', b"")].concat()
}

/// The same with a Describe of the portal.
fn described(sql: &str, with: &[String]) -> Vec<u8> {
    let rest = [message(b'D', b"P\0"), message(b'E', &[0, 0, 0, 0, 0]), message(b'S', b"")];
    [bound(sql, with), rest.concat()].concat()
}

fn bound(sql: &str, with: &[String]) -> Vec<u8> {
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
    [message(b'P', &parse), message(b'B', &bind)].concat()
}

impl Found {
    fn of_postgres(&self) -> Vec<u8> {
        let (oid, rows): (u32, _) = match self {
            Found::Rows(rows) => (25, rows),
            Found::Json(rows) => (114, rows),
            Found::Arrays(rows) => (1016, rows),
            Found::Failed => return message(b'E', b"SERROR\0C23505\0Mduplicate\0\0"),
        };
        let mut column = vec![0, 1, b'c', 0];
        column.extend([0; 6]);
        column.extend(oid.to_be_bytes());
        column.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);
        let mut bytes = message(b'T', &column);
        bytes.extend(result(&rows.iter().map(|it| vec![it.clone()]).collect()));
        bytes
    }

    fn of_redis(&self, is_list: bool) -> Vec<u8> {
        match self {
            Found::Failed => b"-ERR it failed\r\n".to_vec(),
            Found::Rows(rows) | Found::Json(rows) | Found::Arrays(rows) if is_list => {
                let mut bytes = format!("*{}\r\n", rows.len()).into_bytes();
                rows.iter().for_each(|row| bytes.extend(bulk(row)));
                bytes
            }
            Found::Rows(rows) | Found::Json(rows) | Found::Arrays(rows) => match rows.first() {
                Some(row) => bulk(row),
                None => b"$-1\r\n".to_vec(),
            },
        }
    }
}

fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
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
