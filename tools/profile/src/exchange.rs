//! What all protocols come down to: a request and its answer.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use crate::piece::Nanos;
use crate::value::{Value, Values};
use crate::wire::{Keys, ReadTexts};

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A part of a login.
    Login,
    /// Parse or Describe without a use of the statement.
    Prepare,
    Begin,
    Commit,
    Rollback,
    /// SAVEPOINT, RELEASE, ROLLBACK TO.
    Savepoint,
    /// Settings and the like: SET, SHOW, DISCARD; AUTH, HELLO, SELECT, CLIENT of Redis.
    Session,
    /// `select 1`, an empty text, PING.
    Ping,
    /// It only reads, as far as its text shows.
    Read,
    Write,
    Copy,
    /// It is meant to wait: BLPOP, SUBSCRIBE.
    Wait,
    /// WATCH and UNWATCH.
    Watch,
}

impl Kind {
    /// Whether it does nothing for the program itself.
    pub(crate) fn is_protocol(self) -> bool {
        !matches!(self, Kind::Read | Kind::Write | Kind::Copy | Kind::Wait)
    }

    /// Whether it is a step of the program, of which it is learned when it follows.
    pub(crate) fn is_step(self) -> bool {
        !self.is_protocol() || matches!(self, Kind::Commit | Kind::Rollback)
    }

    /// Whether what follows need not wait for its answer, since an error of it fails what follows
    /// as well, or it can't fail.
    pub(crate) fn goes_ahead(self) -> bool {
        matches!(self, Kind::Begin | Kind::Prepare | Kind::Savepoint | Kind::Session | Kind::Ping)
    }
}

/// A text, by its place in [`Texts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TextId(pub(crate) u32);

/// What is known of a text.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// Without literals.
    pub(crate) text: Arc<str>,
    pub(crate) kind: Kind,
    /// A pool sends it when a connection changes hands.
    pub(crate) is_boundary: bool,
}

/// The texts of a run.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    /// By their hash under a key of their own.
    known: HashMap<u64, TextId>,
    key: RandomState,
    all: Vec<Text>,
    bytes: usize,
}

/// Texts of a run, the length of one that is kept, and their bytes, beyond which they are kept
/// short.
const TEXTS_MAX: usize = 20_000;
const TEXT_LEN_MAX: usize = 4_000;
const BYTES_MAX: usize = 16 << 20;
const SHORT_LEN_MAX: usize = 200;

impl Texts {
    /// The number of a text, which `kind` tells what it is for when it is new.
    pub(crate) fn add(&mut self, text: &str, kind: impl FnOnce() -> (Kind, bool)) -> TextId {
        let text = shortened(text, TEXT_LEN_MAX);
        self.add_as(self.key.hash_one(text), || text.to_owned(), kind)
    }

    /// The same for a text that is not told apart by what is shown of it.
    pub(crate) fn add_as(
        &mut self,
        hash: u64,
        shown: impl FnOnce() -> String,
        kind: impl FnOnce() -> (Kind, bool),
    ) -> TextId {
        if let Some(id) = self.known.get(&hash) {
            return *id;
        }
        if self.all.len() >= TEXTS_MAX {
            return self.other();
        }
        let shown = shown();
        let len_max = if self.bytes < BYTES_MAX { TEXT_LEN_MAX } else { SHORT_LEN_MAX };
        self.put(hash, shortened(&shown, len_max), kind())
    }

    fn other(&mut self) -> TextId {
        let hash = self.key.hash_one(OTHER);
        match self.known.get(&hash) {
            Some(id) => *id,
            None => self.put(hash, OTHER, (Kind::Write, false)),
        }
    }

    fn put(&mut self, hash: u64, text: &str, (kind, is_boundary): (Kind, bool)) -> TextId {
        let id = TextId(self.all.len() as u32);
        self.bytes += text.len();
        self.known.insert(hash, id);
        self.all.push(Text { text: text.into(), kind, is_boundary });
        id
    }

    /// Shows a text differently from now on.
    pub(crate) fn show(&mut self, id: TextId, text: &str) {
        self.all[id.0 as usize].text = shortened(text, TEXT_LEN_MAX).into();
    }

    pub(crate) fn get(&self, id: TextId) -> &Text {
        &self.all[id.0 as usize]
    }
}

/// What is shown of texts beyond those that are kept.
const OTHER: &str = "(other texts)";

fn shortened(text: &str, len_max: usize) -> &str {
    let mut end = text.len().min(len_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// What all connections of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) texts: Texts,
    pub(crate) values: Values,
    pub(crate) memory: Memory,
    /// Texts are shown as they were sent.
    pub(crate) shows_values: bool,
    /// Texts of SQL that were read before, and the first parts of keys of Redis.
    pub(crate) read: ReadTexts,
    pub(crate) keys: Keys,
}

impl Shared {
    pub(crate) fn new() -> Shared {
        Shared {
            texts: Texts::default(),
            values: Values::new(),
            memory: Memory::default(),
            shows_values: false,
            read: ReadTexts::default(),
            keys: Keys::default(),
        }
    }
}

/// Memory of all connections: what has not ended yet, and pieces of messages.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    held: usize,
}

impl Memory {
    /// What a connection holds was `before` and is `now`, in bytes.
    pub(crate) fn change(&mut self, before: usize, now: usize) {
        self.held = (self.held + now).saturating_sub(before);
    }

    /// No more values are kept, and units end sooner.
    pub(crate) fn is_tight(&self) -> bool {
        self.held > TIGHT
    }

    /// Connections with much in flight are given up.
    pub(crate) fn is_full(&self) -> bool {
        self.held > FULL
    }

    /// Bytes of a message that are kept.
    pub(crate) fn kept_max(&self) -> usize {
        if self.is_tight() { KEPT_TIGHT } else { KEPT_MAX }
    }
}

const TIGHT: usize = 48 << 20;
const FULL: usize = 80 << 20;
/// Bytes of a message that are kept; of a longer one only its beginning is seen.
const KEPT_MAX: usize = 1 << 20;
const KEPT_TIGHT: usize = 2 << 10;

/// What a result is like, as far as a program may decide by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    /// No rows: a simple reply, an empty list, nil, a tag that says so.
    Nothing,
    /// One row, or one that was changed.
    One,
    Many,
    /// One small value.
    Scalar(Value),
    /// An error, by its SQLSTATE or its first word.
    Failed(Value),
}

/// An answer. Of its values a bounded number is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) rows: u64,
    /// Values and their columns, of the first rows.
    pub(crate) values: Vec<(u16, Value)>,
    pub(crate) class: Class,
    /// Rows that a write without a result changed.
    pub(crate) changed: u64,
    pub(crate) bytes: u64,
}

/// Values of an answer that are kept, and parameters or arguments of a request.
pub(crate) const VALUES_MAX: usize = 512;
pub(crate) const INPUTS_MAX: usize = 256;

impl Default for Answer {
    fn default() -> Answer {
        Answer { rows: 0, values: Vec::new(), class: Class::Nothing, changed: 0, bytes: 0 }
    }
}

impl Answer {
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.class, Class::Failed(_))
    }
}

impl Exchange {
    /// One that begins.
    pub(crate) fn new(kind: Kind, text: TextId, at: Nanos) -> Exchange {
        Exchange {
            kind,
            text,
            inputs: Vec::new(),
            answer: Answer::default(),
            begin: at,
            end: at,
            parses: false,
            is_named: false,
            in_transaction: false,
            trace: None,
            endpoint: None,
        }
    }

    /// Bytes of memory.
    pub(crate) fn held(&self) -> usize {
        let inputs = self.inputs.iter().map(|it| size_of_val(&it[..]) + 24).sum::<usize>();
        size_of::<Exchange>() + inputs + size_of_val(&self.answer.values[..])
    }
}

/// A request and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) kind: Kind,
    pub(crate) text: TextId,
    /// The values of each parameter, literal or argument.
    pub(crate) inputs: Vec<Vec<Value>>,
    pub(crate) answer: Answer,
    /// When its first byte left, and when its answer was whole.
    pub(crate) begin: Nanos,
    pub(crate) end: Nanos,
    /// Its text was sent to be parsed.
    pub(crate) parses: bool,
    /// The statement has a name on the server.
    pub(crate) is_named: bool,
    /// The transaction is open behind it.
    pub(crate) in_transaction: bool,
    /// Who asked, by a comment: a trace.
    pub(crate) trace: Option<Value>,
    /// The endpoint, by a comment.
    pub(crate) endpoint: Option<Arc<str>>,
}
