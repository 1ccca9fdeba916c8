//! Statements that control transactions and sessions, read whole: what is not exactly one of them
//! is none.

use super::lexer::{Lexer, Token, is};

/// One statement that is known to its last word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// BEGIN or START TRANSACTION, with any modes.
    Begin {
        /// Whether it is START TRANSACTION, whose tag differs.
        is_start: bool,
    },
    /// SET TRANSACTION with modes; not of a snapshot.
    SetTransaction,
    /// SAVEPOINT.
    Savepoint(Box<str>),
    /// RELEASE.
    Release(Box<str>),
    /// ROLLBACK TO.
    RollbackTo(Box<str>),
    /// COMMIT or END, without AND CHAIN.
    Commit,
    /// ROLLBACK or ABORT, without AND CHAIN.
    Rollback,
    /// DEALLOCATE of one statement.
    Deallocate(Box<str>),
    /// DEALLOCATE ALL or DISCARD ALL.
    ForgetStatements,
    /// CLOSE of one cursor.
    Close(Box<str>),
    /// FETCH of so many rows forward.
    Fetch {
        /// The most rows that it gives.
        rows: u32,
        /// The cursor.
        cursor: Box<str>,
    },
    /// SET or RESET of a setting that the server does not report, to a value that it can't refuse.
    Setting {
        /// Whether it is RESET, whose tag differs.
        is_reset: bool,
    },
    /// No statement at all.
    Nothing,
    /// `select 1`.
    SelectOne,
}

/// The statement of a text, if it is one of these and nothing else. A name must be one that the
/// server takes as it is: ASCII, not empty, and shorter than 64 bytes.
#[must_use]
pub fn control(sql: &str) -> Option<Control> {
    if !sql.is_ascii() || sql.contains('\\') {
        return None;
    }
    let mut words = Words(Lexer::new(sql));
    let control = words.statement()?;
    words.end().then_some(control)
}

/// The cursor that a text declares, if it begins so, and whether it says WITH HOLD.
#[must_use]
pub fn declared(sql: &str) -> Option<(Box<str>, bool)> {
    let mut words = Words(Lexer::new(sql));
    if !sql.is_ascii() || !words.may(b"declare") {
        return None;
    }
    let name = words.name()?;
    loop {
        match words.0.next() {
            Token::Word(word) if is(word, b"with") => return Some((name, words.may(b"hold"))),
            Token::Word(word) if is(word, b"for") => return Some((name, false)),
            Token::Word(_) => {}
            _ => return None,
        }
    }
}

/// Reads a text word by word.
struct Words<'a>(Lexer<'a>);

impl Words<'_> {
    fn statement(&mut self) -> Option<Control> {
        let mut ahead = self.0;
        let Token::Word(word) = ahead.next() else { return Some(Control::Nothing) };
        self.0 = ahead;
        Some(match &*word.to_ascii_lowercase() {
            b"begin" => {
                self.work();
                self.begin(false)?
            }
            b"start" => {
                self.must(b"transaction")?;
                self.begin(true)?
            }
            b"savepoint" => Control::Savepoint(self.name()?),
            b"release" => {
                self.may(b"savepoint");
                Control::Release(self.name()?)
            }
            b"commit" | b"end" => {
                self.work();
                Control::Commit
            }
            b"rollback" | b"abort" => {
                self.work();
                if !is(word, b"rollback") || !self.may(b"to") {
                    return Some(Control::Rollback);
                }
                self.may(b"savepoint");
                Control::RollbackTo(self.name()?)
            }
            b"deallocate" => {
                self.may(b"prepare");
                match self.may(b"all") {
                    true => Control::ForgetStatements,
                    false => Control::Deallocate(self.name()?),
                }
            }
            b"discard" => {
                self.must(b"all")?;
                Control::ForgetStatements
            }
            b"close" => {
                let is_all = self.0.is(b"all");
                Control::Close(self.name().filter(|_| !is_all)?)
            }
            b"fetch" => self.fetch()?,
            b"set" if self.may(b"transaction") => {
                self.modes(1)?;
                Control::SetTransaction
            }
            b"set" => self.set()?,
            b"reset" => {
                self.setting()?;
                Control::Setting { is_reset: true }
            }
            b"select" => match self.number()? {
                1 => Control::SelectOne,
                _ => return None,
            },
            _ => return None,
        })
    }

    fn begin(&mut self, is_start: bool) -> Option<Control> {
        self.modes(0)?;
        Some(Control::Begin { is_start })
    }

    /// WORK or TRANSACTION, which mean nothing.
    fn work(&mut self) {
        if !self.may(b"work") {
            self.may(b"transaction");
        }
    }

    /// At least so many modes of a transaction, with or without commas between them.
    fn modes(&mut self, min: usize) -> Option<()> {
        let mut count = 0;
        while self.mode()? {
            count += 1;
            if self.symbol(b',') && !self.is_mode() {
                return None;
            }
        }
        (count >= min).then_some(())
    }

    fn is_mode(&self) -> bool {
        [&b"isolation"[..], b"read", b"not", b"deferrable"].iter().any(|it| self.0.is(it))
    }

    /// Whether a mode was read; `None` if one began and is wrong.
    fn mode(&mut self) -> Option<bool> {
        if self.may(b"isolation") {
            self.must(b"level")?;
            if self.may(b"serializable") {
                return Some(true);
            }
            if self.may(b"repeatable") {
                self.must(b"read")?;
                return Some(true);
            }
            self.must(b"read")?;
            return (self.may(b"committed") || self.may(b"uncommitted")).then_some(true);
        }
        if self.may(b"read") {
            return (self.may(b"only") || self.may(b"write")).then_some(true);
        }
        if self.may(b"not") {
            self.must(b"deferrable")?;
            return Some(true);
        }
        Some(self.may(b"deferrable"))
    }

    /// Behind FETCH.
    fn fetch(&mut self) -> Option<Control> {
        self.may(b"forward");
        let rows = self.number()?;
        if !self.may(b"from") {
            self.must(b"in")?;
        }
        let cursor = self.name()?;
        (rows > 0).then_some(Control::Fetch { rows, cursor })
    }

    /// Behind SET.
    fn set(&mut self) -> Option<Control> {
        if !self.may(b"session") {
            self.may(b"local");
        }
        let setting = self.setting()?;
        if !self.symbol(b'=') {
            self.must(b"to")?;
        }
        if !self.may(b"default") {
            match setting {
                Setting::Time => {
                    self.number()?;
                }
                Setting::Word(words) => {
                    words.iter().any(|it| self.may(it)).then_some(())?;
                }
            }
        }
        Some(Control::Setting { is_reset: false })
    }

    fn setting(&mut self) -> Option<Setting> {
        SETTINGS.iter().find(|(name, _)| self.may(name)).map(|it| it.1)
    }

    /// A number without a fraction that fits the server's settings.
    fn number(&mut self) -> Option<u32> {
        let mut ahead = self.0;
        ahead.skip_blanks(&mut Vec::new());
        let from = ahead.position();
        let Token::Literal = ahead.next() else { return None };
        let digits = ahead.read_since(from);
        self.0 = ahead;
        let digits = std::str::from_utf8(digits).ok().filter(|it| it.len() < 10)?;
        digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse().ok())?
    }

    /// A name, as the server folds it.
    fn name(&mut self) -> Option<Box<str>> {
        let name = match self.0.next() {
            Token::Word(word) => {
                let word = word.to_ascii_lowercase();
                let is_reserved = RESERVED.binary_search_by(|it| it.as_bytes().cmp(&word)).is_ok();
                (!is_reserved).then_some(word)?
            }
            Token::Quoted(name) if !name.contains(&b'"') => name.to_vec(),
            _ => return None,
        };
        let name = String::from_utf8(name).ok()?;
        (1..NAME_LEN).contains(&name.len()).then(|| name.into())
    }

    fn may(&mut self, word: &[u8]) -> bool {
        let is_it = self.0.is(word);
        if is_it {
            self.0.next();
        }
        is_it
    }

    fn must(&mut self, word: &[u8]) -> Option<()> {
        self.may(word).then_some(())
    }

    fn symbol(&mut self, symbol: u8) -> bool {
        let mut ahead = self.0;
        let is_it = matches!(ahead.next(), Token::Symbol(it) if it == symbol);
        if is_it {
            self.0 = ahead;
        }
        is_it
    }

    /// Whether nothing but semicolons is left.
    fn end(&mut self) -> bool {
        loop {
            match self.0.next() {
                Token::End => return true,
                Token::Symbol(b';') => {}
                _ => return false,
            }
        }
    }
}

/// NAMEDATALEN in src/include/pg_config_manual.h: longer names are cut, with a notice.
const NAME_LEN: usize = 64;

/// Words that are no names unless they are quoted: those that are reserved, and those that may only
/// name a function or a type (src/include/parser/kwlist.h of PostgreSQL 12 to 18). Sorted.
#[rustfmt::skip]
const RESERVED: [&str; 101] = [
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric",
    "authorization", "binary", "both", "case", "cast", "check", "collate", "collation",
    "column", "concurrently", "constraint", "create", "cross", "current_catalog",
    "current_date", "current_role", "current_schema", "current_time", "current_timestamp",
    "current_user", "default", "deferrable", "desc", "distinct", "do", "else", "end", "except",
    "false", "fetch", "for", "foreign", "freeze", "from", "full", "grant", "group", "having",
    "ilike", "in", "initially", "inner", "intersect", "into", "is", "isnull", "join",
    "lateral", "leading", "left", "like", "limit", "localtime", "localtimestamp", "natural",
    "not", "notnull", "null", "offset", "on", "only", "or", "order", "outer", "overlaps",
    "placing", "primary", "references", "returning", "right", "select", "session_user",
    "similar", "some", "symmetric", "system_user", "table", "tablesample", "then", "to",
    "trailing", "true", "union", "unique", "user", "using", "variadic", "verbose", "when",
    "where", "window", "with",
];

/// What a setting takes.
#[derive(Clone, Copy)]
enum Setting {
    /// Milliseconds.
    Time,
    /// One of these words.
    Word(&'static [&'static [u8]]),
}

/// Settings that the server does not report (GUC_REPORT in utils/misc/guc_tables.c), that any user
/// may set, with values that it never refuses.
const SETTINGS: [(&[u8], Setting); 6] = [
    (b"statement_timeout", Setting::Time),
    (b"lock_timeout", Setting::Time),
    (b"idle_in_transaction_session_timeout", Setting::Time),
    (b"client_min_messages", Setting::Word(&[b"notice", b"warning", b"error", b"log"])),
    (b"synchronous_commit", Setting::Word(&[b"on", b"off", b"local"])),
    (b"bytea_output", Setting::Word(&[b"hex", b"escape"])),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_statements_are_known() {
        let begin = |is_start| Control::Begin { is_start };
        for (sql, known) in [
            ("BEGIN", begin(false)),
            ("begin;", begin(false)),
            ("/* a */ Begin Transaction -- b", begin(false)),
            ("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY NOT DEFERRABLE", begin(false)),
            ("START TRANSACTION ISOLATION LEVEL READ COMMITTED", begin(true)),
            ("set transaction isolation level serializable", Control::SetTransaction),
            ("SAVEPOINT \"_pg3_1\"", Control::Savepoint("_pg3_1".into())),
            ("savepoint Active_Record_1;", Control::Savepoint("active_record_1".into())),
            ("RELEASE SAVEPOINT a", Control::Release("a".into())),
            ("release a", Control::Release("a".into())),
            ("ROLLBACK TO SAVEPOINT \"A\"", Control::RollbackTo("A".into())),
            ("rollback work to a", Control::RollbackTo("a".into())),
            ("COMMIT WORK", Control::Commit),
            ("end", Control::Commit),
            ("ABORT", Control::Rollback),
            ("DEALLOCATE pdo_stmt_00000001", Control::Deallocate("pdo_stmt_00000001".into())),
            ("deallocate prepare a", Control::Deallocate("a".into())),
            ("DEALLOCATE ALL", Control::ForgetStatements),
            ("discard all;", Control::ForgetStatements),
            ("CLOSE \"c\"", Control::Close("c".into())),
            ("FETCH FORWARD 100 FROM \"c\"", Control::Fetch { rows: 100, cursor: "c".into() }),
            ("fetch 2 in C", Control::Fetch { rows: 2, cursor: "c".into() }),
            ("set statement_timeout = 500", Control::Setting { is_reset: false }),
            ("set local client_min_messages to warning", Control::Setting { is_reset: false }),
            ("reset statement_timeout", Control::Setting { is_reset: true }),
            ("", Control::Nothing),
            (" ; -- ping", Control::Nothing),
            ("SELECT 1", Control::SelectOne),
        ] {
            assert_eq!(control(sql), Some(known), "{sql}");
        }
    }

    #[test]
    fn whatever_else_is_said_makes_it_another_statement() {
        for sql in [
            "begin; select 1",
            "begin read",
            "begin isolation level read only",
            "begin read only,",
            "begin atomic",
            "start",
            "set transaction",
            "set transaction snapshot '1'",
            "commit and chain",
            "rollback and no chain",
            "commit prepared 'a'",
            "savepoint",
            "savepoint 'a'",
            "savepoint é",
            "savepoint \"a\"\"b\"",
            "savepoint \"\"",
            "release savepoint",
            "abort to a",
            "discard plans",
            "deallocate all, a",
            "close all",
            "fetch all from c",
            "fetch backward 2 from c",
            "fetch -1 from c",
            "fetch 0 from c",
            "fetch c",
            "set statement_timeout = '1 s'",
            "set statement_timeout = -1",
            "set statement_timeout = 1.5",
            "set application_name = 'a'",
            "set timezone = 'UTC'",
            "reset all",
            "select 2",
            "select 1, 1",
            "select 1 from a",
            "select 1.0",
            "\\",
            "'",
        ] {
            assert_eq!(control(sql), None, "{sql}");
        }
        for (sql, name) in [
            ("DECLARE \"c\" NO SCROLL CURSOR WITH HOLD FOR SELECT 1", Some(("c", true))),
            ("declare C cursor without hold for select 1", Some(("c", false))),
            ("declare c cursor for select 'with hold'", Some(("c", false))),
            ("select 1", None),
        ] {
            let name = name.map(|(name, is_held)| (Box::from(name), is_held));
            assert_eq!(declared(sql), name, "{sql}");
        }
        let long = "a".repeat(63);
        assert!(control(&format!("savepoint {long}")).is_some());
        assert_eq!(control(&format!("savepoint {long}a")), None);
    }
}
