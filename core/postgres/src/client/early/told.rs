//! What was told, and what the server is asked for it.

use bytes::BytesMut;

use super::names::parsed;
use crate::message::{Close, Execute, Formats, Target, bind, one_line, parse};

/// What a program is told early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// BEGIN, START TRANSACTION.
    Begin,
    /// SET TRANSACTION behind it.
    SetTransaction,
    /// SAVEPOINT.
    Savepoint,
    /// RELEASE.
    Release,
    /// The end of a transaction in which nothing was done.
    Nothing,
    /// Parse without a Describe.
    Prepare,
    /// Close, and DEALLOCATE.
    Close,
    /// CLOSE of a cursor.
    Cursor,
    /// FETCH behind one that came back short.
    Fetch,
    /// A question whether the server is there.
    Ping,
    /// SET and RESET.
    Set,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 11] = [
        Kind::Begin,
        Kind::SetTransaction,
        Kind::Savepoint,
        Kind::Release,
        Kind::Nothing,
        Kind::Prepare,
        Kind::Close,
        Kind::Cursor,
        Kind::Fetch,
        Kind::Ping,
        Kind::Set,
    ];

    /// Whether it begins or divides a transaction.
    pub(super) fn is_structure(self) -> bool {
        use Kind::{Begin, Release, Savepoint, SetTransaction};
        matches!(self, Begin | SetTransaction | Savepoint | Release)
    }

    /// Its name in counts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Begin => "begin",
            Kind::SetTransaction => "set transaction",
            Kind::Savepoint => "savepoint",
            Kind::Release => "release",
            Kind::Nothing => "end of an empty transaction",
            Kind::Prepare => "prepare",
            Kind::Close => "close and deallocate",
            Kind::Cursor => "close of a cursor",
            Kind::Fetch => "empty fetch",
            Kind::Ping => "ping",
            Kind::Set => "set",
        }
    }
}

/// What is told by choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    ping: bool,
    set: bool,
    nothing: bool,
}

impl Words {
    /// The words that are known.
    pub const KNOWN: [&'static str; 3] = ["ping", "set", "nothing"];

    /// These words and one more; `None` if it is unknown.
    #[must_use]
    pub fn with(mut self, word: &str) -> Option<Words> {
        *match word {
            "ping" => &mut self.ping,
            "set" => &mut self.set,
            "nothing" => &mut self.nothing,
            _ => return None,
        } = true;
        Some(self)
    }

    pub(super) fn ping(self) -> bool {
        self.ping
    }

    pub(super) fn set(self) -> bool {
        self.set
    }

    /// Not even what is told by default.
    pub(super) fn is_nothing(self) -> bool {
        self.nothing
    }
}

/// How often what was told: each time is a trip that the program did not wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    trips: [u64; Kind::ALL.len()],
    refuted: [u64; Kind::ALL.len()],
}

impl Saved {
    pub(super) fn tell(&mut self, kind: Kind) {
        self.trips[kind as usize] += 1;
    }

    /// It had to be waited for after all.
    pub(super) fn untell(&mut self, kind: Kind) {
        self.trips[kind as usize] = self.trips[kind as usize].saturating_sub(1);
    }

    pub(super) fn refute(&mut self, kind: Kind) {
        self.refuted[kind as usize] += 1;
    }

    /// Trips that were saved.
    #[must_use]
    pub fn trips(&self, kind: Kind) -> u64 {
        self.trips[kind as usize]
    }

    /// Answers that proved false.
    #[must_use]
    pub fn refuted(&self, kind: Kind) -> u64 {
        self.refuted[kind as usize]
    }

    /// Trips that were saved, of all kinds.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.trips.iter().sum()
    }

    /// Answers that proved false, of all kinds.
    #[must_use]
    pub fn all_refuted(&self) -> u64 {
        self.refuted.iter().sum()
    }

    /// Adds the counts of another connection.
    pub fn add(&mut self, other: &Saved) {
        for kind in Kind::ALL {
            self.trips[kind as usize] += other.trips(kind);
            self.refuted[kind as usize] += other.refuted(kind);
        }
    }

    /// Adds what has come since these counts of the same connection.
    pub(super) fn add_since(&mut self, before: &Saved, now: &Saved) {
        for kind in Kind::ALL {
            self.trips[kind as usize] += now.trips(kind) - before.trips(kind);
            self.refuted[kind as usize] += now.refuted(kind) - before.refuted(kind);
        }
    }
}

/// The name of a prepared statement.
pub(super) type Name = Box<[u8]>;

/// Something that a program was told, and that the server has not confirmed.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) kind: Kind,
    /// The prepared statement that it makes.
    pub(super) makes: Option<Name>,
    /// The server has refused it once.
    pub(super) is_refused: bool,
    /// What is shown of it in an error.
    shown: Box<str>,
    /// For the server, without a Sync.
    pub(super) messages: BytesMut,
    /// The types of the answers that are awaited.
    answers: Vec<u8>,
    /// How many of them have come.
    come: usize,
}

/// What an answer of the server says of something told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is as it was told; more is to come.
    Partly,
    /// It is as it was told.
    Wholly,
    /// It is no answer to that.
    Other,
}

impl Told {
    /// Of a statement that came as a simple query. As that, it leaves neither an unnamed statement
    /// nor an unnamed portal.
    pub(super) fn of_query(kind: Kind, sql: &str) -> Option<Told> {
        let mut messages = BytesMut::with_capacity(sql.len() + 48);
        parse::write(&mut messages, "", sql, &[]).ok()?;
        bind_nothing(&mut messages)?;
        Execute { portal: "", rows_max: 0 }.encode(&mut messages).ok()?;
        Close { target: Target::Statement("") }.encode(&mut messages).ok()?;
        Some(Told::new(kind, sql, messages, b"12C3"))
    }

    /// Of a statement that came by the extended protocol.
    pub(super) fn of_messages(kind: Kind, sql: &str, messages: &[u8], answers: &[u8]) -> Told {
        Told::new(kind, sql, messages.into(), answers)
    }

    /// Of a Parse.
    pub(super) fn of_parse(name: &[u8], sql: &[u8], message: &[u8]) -> Told {
        let shown = String::from_utf8_lossy(sql);
        Told { makes: Some(name.into()), ..Told::new(Kind::Prepare, &shown, message.into(), b"1") }
    }

    /// Of a DEALLOCATE or a CLOSE that came as a simple query, after which there is no unnamed
    /// statement. Unlike those, a Close never fails, and it does not count as a statement of an
    /// implicit transaction.
    pub(super) fn of_close(kind: Kind, target: Target<'_>, sql: &str) -> Option<Told> {
        let mut messages = BytesMut::with_capacity(sql.len() + 24);
        Close { target }.encode(&mut messages).ok()?;
        Close { target: Target::Statement("") }.encode(&mut messages).ok()?;
        Some(Told::new(kind, sql, messages, b"33"))
    }

    /// What a simple query does beside its work: it leaves no unnamed statement.
    pub(super) fn of_nothing() -> Option<Told> {
        let mut messages = BytesMut::with_capacity(8);
        Close { target: Target::Statement("") }.encode(&mut messages).ok()?;
        Some(Told::new(Kind::Close, "Close", messages, b"3"))
    }

    /// Whether there is no unnamed statement behind it.
    pub(super) fn closes_unnamed(&self) -> bool {
        const CLOSE: &[u8] = b"C\0\0\0\x06S\0";
        self.messages.ends_with(CLOSE)
    }

    fn new(kind: Kind, shown: &str, messages: BytesMut, answers: &[u8]) -> Told {
        let shown: String = one_line(shown).trim().chars().take(SHOWN_MAX).collect();
        let answers = answers.to_vec();
        Told {
            kind,
            makes: None,
            is_refused: false,
            shown: shown.into(),
            messages,
            answers,
            come: 0,
        }
    }

    /// It closes this statement too.
    pub(super) fn closes(&mut self, name: &[u8]) {
        self.shown = format!("Close {}", String::from_utf8_lossy(name)).into();
    }

    /// Whether it has an effect in its transaction.
    pub(super) fn is_of_transaction(&self) -> bool {
        !matches!(self.kind, Kind::Prepare | Kind::Close | Kind::Cursor)
    }

    /// Whether it is still owed to the program if the server skipped it.
    pub(super) fn is_owed(&self) -> bool {
        matches!(self.kind, Kind::Close | Kind::Cursor)
    }

    /// It is sent once more from its beginning.
    pub(super) fn anew(mut self) -> Told {
        self.come = 0;
        self
    }

    /// Takes a message of the server.
    pub(super) fn answered(&mut self, tag: u8) -> Answer {
        if self.answers.get(self.come) != Some(&tag) {
            return Answer::Other;
        }
        self.come += 1;
        if self.come == self.answers.len() { Answer::Wholly } else { Answer::Partly }
    }

    /// The text of a Parse.
    pub(super) fn sql(&self) -> Option<&[u8]> {
        self.makes.as_ref()?;
        parsed(&self.messages, self.messages.len()).map(|it| it.1)
    }

    /// The line for the context of its error.
    pub(super) fn context(&self) -> String {
        let shown = &self.shown;
        format!("onetrip sidecar: \"{shown}\", answered early; the statement behind it did not run")
    }

    pub(super) fn memory(&self) -> usize {
        self.messages.capacity() + self.shown.len() + self.answers.capacity()
    }
}

/// Characters of a statement that are shown.
const SHOWN_MAX: usize = 60;

/// Appends a Bind without parameters.
fn bind_nothing(out: &mut BytesMut) -> Option<()> {
    /// No formats and no values.
    const NO_PARAMETERS: [u8; 4] = [0; 4];
    bind::write_encoded(out, "", "", &NO_PARAMETERS, Formats::AllText).ok()
}
