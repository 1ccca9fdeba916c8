//! Texts that only begin or end a transaction, and the server's usual answers to them.

use bytes::{BufMut, Bytes, BytesMut};

use crate::message::tag::backend;

/// How a text controls a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// BEGIN, with or without modes.
    Begin,
    /// START TRANSACTION, which is a BEGIN with another tag.
    Start,
    /// COMMIT or END.
    Commit,
    /// ROLLBACK or ABORT.
    Rollback,
}

impl Control {
    /// The control that a text is, if it is nothing else: one statement without names or values.
    /// Comments count as blanks, since some tools add one to each statement.
    pub fn of(text: &str) -> Option<Control> {
        // The text may be kept, so its length is bounded.
        if text.len() > LEN_MAX {
            return None;
        }
        let first = Words(text).next()?;
        if !FIRST.iter().any(|word| first.eq_ignore_ascii_case(word)) {
            return None;
        }
        let mut words = [""; WORDS_MAX];
        let mut len = 0;
        for word in Words(text) {
            *words.get_mut(len)? = known(word)?;
            len += 1;
        }
        while len > 0 && words[len - 1] == ";" {
            len -= 1;
        }
        match words[..len] {
            ["begin", "work" | "transaction", ref modes @ ..] | ["begin", ref modes @ ..] => {
                are_modes(modes).then_some(Control::Begin)
            }
            ["start", "transaction", ref modes @ ..] => are_modes(modes).then_some(Control::Start),
            ["commit" | "end"] | ["commit" | "end", "work" | "transaction"] => {
                Some(Control::Commit)
            }
            ["rollback" | "abort"] | ["rollback" | "abort", "work" | "transaction"] => {
                Some(Control::Rollback)
            }
            _ => None,
        }
    }

    /// How the first statement of a text ends a transaction without beginning another, whatever
    /// follows it.
    pub fn ends_first(text: &str) -> Option<Control> {
        let mut words = Words(text);
        let control = match known(words.next()?)? {
            "commit" | "end" => Control::Commit,
            "rollback" | "abort" => Control::Rollback,
            _ => return None,
        };
        let next = words.map(known).find(|word| !matches!(word, Some("work" | "transaction")));
        match next.flatten() {
            Some("to" | "prepared" | "and") => None,
            _ => Some(control),
        }
    }

    /// The server's answer if all is well: CommandComplete and ReadyForQuery.
    pub fn answer(self) -> Bytes {
        let (tag, status): (&[u8], u8) = match self {
            Control::Begin => (b"BEGIN\0", b'T'),
            Control::Start => (b"START TRANSACTION\0", b'T'),
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

/// Whether a text contains no statement.
pub fn is_empty(text: &str) -> bool {
    Words(text).all(|word| word == ";")
}

/// The first words of the controls.
const FIRST: [&str; 6] = ["begin", "start", "commit", "end", "rollback", "abort"];

/// The other words and signs that may follow in a control, and those that distinguish it from other
/// statements.
const FURTHER: [&str; 19] = [
    "work",
    "transaction",
    "isolation",
    "level",
    "read",
    "only",
    "write",
    "committed",
    "uncommitted",
    "repeatable",
    "serializable",
    "not",
    "deferrable",
    "to",
    "prepared",
    "and",
    "chain",
    ",",
    ";",
];

/// Comments included. A longer text is not treated as a control.
const LEN_MAX: usize = 64 << 10;

/// The longest sensible BEGIN has 16 words, and semicolons may follow.
const WORDS_MAX: usize = 24;

/// The word as in the lists above, if it is there.
fn known(word: &str) -> Option<&'static str> {
    FIRST.into_iter().chain(FURTHER).find(|known| word.eq_ignore_ascii_case(known))
}

/// Whether these words are transaction modes (transaction_mode_list in src/backend/parser/gram.y),
/// with or without a comma between two.
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

/// The words of a text, and all other characters one by one. Blanks and comments are left out.
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
        let (word, behind) = rest.split_at_checked(len)?;
        self.0 = behind;
        Some(word)
    }
}

/// The text behind a comment, if the text begins with one. C-style comments nest in SQL.
fn behind_comment(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    match bytes {
        [b'-', b'-', ..] => {
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            text.get(end.unwrap_or(bytes.len())..)
        }
        [b'/', b'*', ..] => {
            let (mut at, mut depth) = (2, 1);
            while depth > 0 {
                match bytes.get(at..at + 2)? {
                    b"*/" => (at, depth) = (at + 2, depth - 1),
                    b"/*" => (at, depth) = (at + 2, depth + 1),
                    _ => at += 1,
                }
            }
            text.get(at..)
        }
        _ => None,
    }
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
            "begin isolation level read committed read only",
            "begin not deferrable ,isolation level repeatable read, read write ; ",
            "begin -- now",
            "/* by /* a */ tool */ begin /* traced */",
            "-- first\nbegin",
        ];
        for text in begins {
            assert_eq!(Control::of(text), Some(Control::Begin), "{text}");
        }
        for text in ["start transaction", "START TRANSACTION READ WRITE;"] {
            assert_eq!(Control::of(text), Some(Control::Start), "{text}");
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
