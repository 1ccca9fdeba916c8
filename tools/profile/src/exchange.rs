//! What all protocols come down to: a request and its answer.

use std::collections::HashMap;
use std::sync::Arc;

use crate::piece::Nanos;
use crate::value::{Value, Values};

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
    /// WATCH: its answer is needed before what follows it.
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
    known: HashMap<Arc<str>, TextId>,
    all: Vec<Text>,
}

/// Texts of a run, and the length of one that is kept.
const TEXTS_MAX: usize = 20_000;
const TEXT_LEN_MAX: usize = 4_000;

impl Texts {
    /// The number of a text, which `kind` tells what it is for when it is new.
    pub(crate) fn add(&mut self, text: &str, kind: impl FnOnce() -> (Kind, bool)) -> TextId {
        let text = shortened(text);
        if let Some(id) = self.known.get(text) {
            return *id;
        }
        let text = if self.all.len() < TEXTS_MAX { text } else { "(other texts)" };
        if let Some(id) = self.known.get(text) {
            return *id;
        }
        let (kind, is_boundary) = kind();
        let (text, id) = (Arc::<str>::from(text), TextId(self.all.len() as u32));
        self.known.insert(text.clone(), id);
        self.all.push(Text { text, kind, is_boundary });
        id
    }

    pub(crate) fn get(&self, id: TextId) -> &Text {
        &self.all[id.0 as usize]
    }
}

fn shortened(text: &str) -> &str {
    let mut end = text.len().min(TEXT_LEN_MAX);
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
}

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

/// Values of an answer that are kept.
pub(crate) const VALUES_MAX: usize = 512;

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
