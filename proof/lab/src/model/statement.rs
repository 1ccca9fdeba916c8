//! What the text of a statement asks the model to do.

use super::rows::{INT8, TEXT};
use super::{Act, Kind, PATHS};

/// A statement, read from its text: a verb, then words of the form `key=value` in any order.
///
/// ```text
/// insert op=7 rows=3 size=100       three rows of 100 bytes, tag `INSERT 7 3`
/// select op=8 rows=5 fail=execute after=2
///                                   an error after two rows
/// insert op=$1 rows=$2              values are parameters, given by Bind
/// select op=9 leaves=temp           a function makes a temporary table, and no tag tells of it
/// ```
///
/// Words without `=` are ignored. The field of the same name documents each key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// The first word: which command it is.
    pub verb: Verb,
    /// The identity.
    pub op: Option<u64>,
    /// How many rows it returns.
    pub rows: u32,
    /// How many bytes the payload of each row has.
    pub size: usize,
    /// Where it fails.
    pub fail: Option<Fail>,
    /// For [`Fail::Execute`] and [`Fail::Fatal`]: after how many rows it fails.
    pub after: u32,
    /// How many notices it raises before its rows.
    pub notices: u32,
    /// Whether it returns a result, possibly an empty one. `select` does, and `insert` with
    /// `rows=`.
    pub returns_rows: bool,
    /// What it does to its session: `leaves=`, or what its command does by itself.
    pub act: Act,
    /// Whether it belongs to a reset: it has no identity, and is no probe.
    pub resets: bool,
    /// The table that it is on: `into=` and `from=`.
    pub table: Option<String>,
    /// The number of the parameter that is the value of its column: `v=$2`.
    pub value: Option<usize>,
    /// The path that it sets, by its place in [`PATHS`](super::PATHS): `search_path=`.
    pub path: Option<usize>,
}

/// Which command a statement is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verb {
    /// No words at all: answered by EmptyQueryResponse.
    #[default]
    Empty,
    /// `select`, and every verb that is not listed here.
    Select,
    /// `insert`: its tag has the identity in the place of the former object id.
    Insert,
    /// `call`: when it fails, a part of its effect remains.
    Call,
    /// `begin`
    Begin,
    /// `commit`
    Commit,
    /// `rollback`
    Rollback,
    /// One of `COMMANDS`, with its tag.
    Utility(&'static str),
    /// `alter`: the plans of all prepared statements go stale.
    Alter,
    /// `copy`: a binary one into a table, whose data the client sends.
    Copy,
}

/// Where a statement fails, by the value of `fail=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fail {
    /// `parse`: at Parse, 42601.
    Parse,
    /// `bind`: at Bind, 22P02.
    Bind,
    /// `execute`: while it runs, 22012.
    Execute,
    /// `commit`: when its transaction is to be committed, 23505.
    Commit,
    /// `fatal`: while it runs, with 57P01, and the session is over.
    Fatal,
}

impl Statement {
    /// Reads a text without parameters.
    pub fn parse(text: &str) -> Statement {
        Statement::bind(text, &[])
    }

    /// Reads a text. `$1` stands for the first parameter, and for nothing if there is none.
    pub fn bind(text: &str, parameters: &[Option<String>]) -> Statement {
        let mut statement =
            Statement { verb: Verb::of(text), size: SIZE_DEFAULT, ..Statement::default() };
        statement.returns_rows = statement.verb == Verb::Select;
        statement.act = Act::of(text);
        let is_probe = matches!(statement.act, Act::Probe(_));
        statement.resets = statement.verb != Verb::Empty && !is_probe && !text.contains("op=");
        for (key, value) in words(text) {
            if key == "v" {
                statement.value = placeholder(value);
            }
            let value = match placeholder(value) {
                Some(number) => parameters.get(number - 1).and_then(Option::as_deref),
                None => Some(value),
            };
            statement.set(key, value.unwrap_or_default());
        }
        statement
    }

    /// The types of the parameters that the text mentions.
    pub fn parameter_types(text: &str) -> Vec<u32> {
        let mut types = Vec::new();
        for (key, value) in words(text) {
            if let Some(number) = placeholder(value) {
                types.resize(types.len().max(number), INT8);
                types[number - 1] = if key == "fail" { TEXT } else { INT8 };
            }
        }
        types
    }

    /// The command tag at its end, when it has returned this many rows.
    pub fn tag(&self, rows: u32) -> String {
        match self.verb {
            Verb::Empty | Verb::Select => format!("SELECT {rows}"),
            Verb::Insert => format!("INSERT {} {rows}", self.op.unwrap_or(0)),
            Verb::Call => "CALL".to_owned(),
            Verb::Begin => "BEGIN".to_owned(),
            Verb::Commit => "COMMIT".to_owned(),
            Verb::Rollback => "ROLLBACK".to_owned(),
            Verb::Utility(tag) => tag.to_owned(),
            Verb::Alter => "ALTER TABLE".to_owned(),
            Verb::Copy => format!("COPY {rows}"),
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        match key {
            "op" => self.op = value.parse().ok(),
            "rows" => {
                self.rows = value.parse().unwrap_or(0);
                self.returns_rows = true;
            }
            "size" => self.size = value.parse().unwrap_or(SIZE_DEFAULT),
            "after" => self.after = value.parse().unwrap_or(0),
            "notices" => self.notices = value.parse().unwrap_or(0),
            "fail" => self.fail = Fail::of(value),
            "into" | "from" => {
                self.table = Some(value.to_owned());
                self.returns_rows |= key == "from";
            }
            "returning" => self.returns_rows = true,
            "search_path" => {
                self.path = PATHS.iter().position(|path| *path == value);
                self.act = Act::Leave(Kind::Setting);
            }
            "leaves" => self.act = Kind::of(value).map_or(Act::Nothing, Act::Leave),
            _ => {}
        }
    }
}

impl Verb {
    fn of(text: &str) -> Verb {
        if let Some((_, tag, _)) = command(text) {
            return Verb::Utility(tag);
        }
        let word = text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        match word.as_str() {
            "" => Verb::Empty,
            "insert" => Verb::Insert,
            "call" => Verb::Call,
            "begin" => Verb::Begin,
            "commit" => Verb::Commit,
            "rollback" => Verb::Rollback,
            "alter" => Verb::Alter,
            "copy" => Verb::Copy,
            _ => Verb::Select,
        }
    }

    /// Whether it is allowed in a transaction that has failed.
    pub(super) fn ends_transaction(self) -> bool {
        matches!(self, Verb::Commit | Verb::Rollback)
    }
}

impl Fail {
    fn of(value: &str) -> Option<Fail> {
        match value {
            "parse" => Some(Fail::Parse),
            "bind" => Some(Fail::Bind),
            "execute" => Some(Fail::Execute),
            "commit" => Some(Fail::Commit),
            "fatal" => Some(Fail::Fatal),
            _ => None,
        }
    }

    /// Its value of `fail=`.
    pub fn word(self) -> &'static str {
        match self {
            Fail::Parse => "parse",
            Fail::Bind => "bind",
            Fail::Execute => "execute",
            Fail::Commit => "commit",
            Fail::Fatal => "fatal",
        }
    }
}

/// Commands that change their session by themselves: their first words, their tag, and the change.
const COMMANDS: [(&str, &str, Act); 17] = [
    ("set local ", "SET", Act::Leave(Kind::Local)),
    ("set role ", "SET", Act::Leave(Kind::Role)),
    ("set session authorization default", "SET", Act::Forget(&[Kind::Role])),
    ("set ", "SET", Act::Leave(Kind::Setting)),
    ("reset all", "RESET", Act::Forget(&[Kind::Setting, Kind::Local])),
    ("create temp ", "CREATE TABLE", Act::Leave(Kind::Temp)),
    ("prepare ", "PREPARE", Act::Leave(Kind::Name)),
    ("declare ", "DECLARE CURSOR", Act::Leave(Kind::Cursor)),
    ("listen ", "LISTEN", Act::Leave(Kind::Channel)),
    ("unlisten *", "UNLISTEN", Act::Forget(&[Kind::Channel])),
    ("close all", "CLOSE CURSOR ALL", Act::Forget(&[Kind::Cursor])),
    ("discard sequences", "DISCARD SEQUENCES", Act::Nothing),
    ("discard temp", "DISCARD TEMP", Act::Forget(&[Kind::Temp])),
    ("discard all", "DISCARD ALL", Act::Forget(&Kind::ALL)),
    ("deallocate all", "DEALLOCATE ALL", Act::Forget(&[Kind::Name])),
    // A reset runs it to deallocate the statements of PREPARE.
    ("do $$ declare n ", "DO", Act::Forget(&[Kind::Name])),
    ("do ", "DO", Act::Nothing),
];

fn command(text: &str) -> Option<&'static (&'static str, &'static str, Act)> {
    let begins =
        |start: &str| text.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start));
    COMMANDS.iter().find(|(start, ..)| begins(start))
}

impl Act {
    fn of(text: &str) -> Act {
        if let Some((.., act)) = command(text) {
            return act.clone();
        }
        match text.split('\'').nth(1) {
            _ if text.contains("pg_advisory_unlock_all") => Act::Check,
            Some(name) if text.contains("pg_backend_pid") => Act::Probe(name.to_owned()),
            _ => Act::Nothing,
        }
    }
}

/// The default size of a row's payload, in bytes.
const SIZE_DEFAULT: usize = 8;

fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '(' | ')'));
    words.filter_map(|word| word.split_once('='))
}

/// The number in `$1`, from one.
fn placeholder(value: &str) -> Option<usize> {
    value.strip_prefix('$')?.parse().ok().filter(|number| (1..=65_535).contains(number))
}
