//! Texts that begin or end a transaction and do nothing else, and what the server answers to them.

use bytes::{BufMut, Bytes, BytesMut};
use onetrip_postgres::message::tag::backend;

/// What a text is to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Begin,
    Commit,
    Rollback,
}

impl Control {
    /// The control that a text is, if it is nothing else: one statement without names or values. Comments are as good
    /// as blanks, since some tools sign each statement by one.
    pub(crate) fn of(text: &str) -> Option<Control> {
        let first = Words(text).next()?;
        if !FIRST.iter().any(|word| first.eq_ignore_ascii_case(word)) {
            return None;
        }
        let mut words: Vec<String> = Words(text).map(str::to_ascii_lowercase).collect();
        while words.last().is_some_and(|word| word == ";") {
            words.pop();
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["begin", "work" | "transaction", ref modes @ ..]
            | ["start", "transaction", ref modes @ ..]
            | ["begin", ref modes @ ..] => are_modes(modes).then_some(Control::Begin),
            ["commit" | "end"] | ["commit" | "end", "work" | "transaction"] => {
                Some(Control::Commit)
            }
            ["rollback" | "abort"] | ["rollback" | "abort", "work" | "transaction"] => {
                Some(Control::Rollback)
            }
            _ => None,
        }
    }

    /// By what the first statement of a text ends a transaction without beginning another, whatever follows.
    pub(crate) fn ends_first(text: &str) -> Option<Control> {
        let mut words = Words(text).map(str::to_ascii_lowercase);
        let control = match words.next().as_deref() {
            Some("commit" | "end") => Control::Commit,
            Some("rollback" | "abort") => Control::Rollback,
            _ => return None,
        };
        let next = words.find(|word| word != "work" && word != "transaction");
        (!matches!(next.as_deref(), Some("to" | "prepared" | "and"))).then_some(control)
    }

    /// What the server answers where all is well: CommandComplete and ReadyForQuery.
    pub(crate) fn answer(self) -> Bytes {
        let (tag, status): (&[u8], u8) = match self {
            Control::Begin => (b"BEGIN\0", b'T'),
            Control::Commit => (b"COMMIT\0", b'I'),
            Control::Rollback => (b"ROLLBACK\0", b'I'),
        };
        let mut answer = BytesMut::new();
        answer.put_u8(backend::COMMAND_COMPLETE);
        answer.put_u32(tag.len() as u32 + 4);
        answer.put_slice(tag);
        answer.put_slice(&[backend::READY_FOR_QUERY, 0, 0, 0, 5, status]);
        answer.freeze()
    }
}

/// What a text of one of the controls begins with.
const FIRST: [&str; 6] = ["begin", "start", "commit", "end", "rollback", "abort"];

/// Whether these words are modes of a transaction (transaction_mode_list in src/backend/parser/gram.y), with a
/// comma between two or none.
fn are_modes(mut words: &[&str]) -> bool {
    while !words.is_empty() {
        words = match words {
            ["isolation", "level", "repeatable", "read", rest @ ..]
            | ["isolation", "level", "read", "committed" | "uncommitted", rest @ ..]
            | ["isolation", "level", "serializable", rest @ ..]
            | ["read", "only" | "write", rest @ ..]
            | ["not", "deferrable", rest @ ..]
            | ["deferrable", rest @ ..] => rest,
            _ => return false,
        };
        words = match words {
            [",", rest @ ..] if !rest.is_empty() => rest,
            _ => words,
        };
    }
    true
}

/// The words of a text, and whatever else is in it, character by character. Blanks and comments are left out.
struct Words<'a>(&'a str);

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let mut rest = self.0.trim_ascii_start();
        while let Some(behind) = behind_comment(rest) {
            rest = behind.trim_ascii_start();
        }
        let word =
            rest.bytes().take_while(|byte| byte.is_ascii_alphabetic() || *byte == b'_').count();
        let len = match word {
            0 => rest.chars().next()?.len_utf8(),
            len => len,
        };
        let (word, rest) = rest.split_at(len);
        self.0 = rest;
        Some(word)
    }
}

/// What follows a comment, if the text begins with one. Those of C are nested in SQL.
fn behind_comment(text: &str) -> Option<&str> {
    if let Some(line) = text.strip_prefix("--") {
        let end = line.find(['\n', '\r']).unwrap_or(line.len());
        return Some(&line[end..]);
    }
    let mut rest = text.strip_prefix("/*")?;
    let mut depth = 1;
    while depth > 0 {
        let at = rest.find("*/").into_iter().chain(rest.find("/*")).min()?;
        depth = if rest[at..].starts_with("*/") { depth - 1 } else { depth + 1 };
        rest = &rest[at + 2..];
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_forms_are_known_and_nothing_else_is() {
        let begins = [
            "BEGIN",
            "begin;",
            " Begin Work ",
            "BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE",
            "start transaction",
            "START TRANSACTION READ WRITE;",
            "begin isolation level read committed read only",
            "begin not deferrable ,isolation level repeatable read, read write ; ",
            "begin -- now",
            "/* by /* a */ tool */ begin /* traced */",
            "-- first\nbegin",
        ];
        for text in begins {
            assert_eq!(Control::of(text), Some(Control::Begin), "{text}");
        }
        for text in ["commit", "END", "Commit Work;", "end transaction", "commit /* x='y' */"] {
            assert_eq!(Control::of(text), Some(Control::Commit), "{text}");
        }
        for text in ["rollback", "ABORT;", "rollback transaction"] {
            assert_eq!(Control::of(text), Some(Control::Rollback), "{text}");
        }
        let others = [
            "",
            "start",
            "begin; select 1",
            "begin foo",
            "begin read",
            "begin read only,",
            "begin , read only",
            "begin é",
            "start transaction isolation level chaos",
            "begin /* never closed",
            "begin /* a /* b */",
            "begin_it",
            "commit and chain",
            "rollback to savepoint a",
            "commit prepared 'a'",
            "beginning",
            "end of",
        ];
        for text in others {
            assert_eq!(Control::of(text), None, "{text}");
        }
    }

    #[test]
    fn a_text_that_begins_with_the_end_of_a_transaction_is_known_by_its_first_words() {
        for text in ["rollback; select 1", "commit", "/* a */ ABORT", "rollback work;"] {
            assert!(Control::ends_first(text).is_some(), "{text}");
        }
        for text in ["select 1; rollback", "rollback to a", "end and chain", "begin", "ended"] {
            assert_eq!(Control::ends_first(text), None, "{text}");
        }
    }
}
