//! A BEGIN that waits for the first statement of its transaction, and leaves with it in one segment: it costs no
//! trip, and where it fails the statement is skipped.
//!
//! A text of several statements can't be of a segment, so there BEGIN has a sync point of its own in front, in the same
//! write. What could make it fail then is no syntax, which is known here, but a server that has no room for it, or a
//! replica, which writes nothing anyway.

use bytes::{BufMut, Bytes, BytesMut};
use onetrip_postgres::message::{EncodeError, parse, tag::backend};
use onetrip_postgres::message::{bind, execute};

/// A BEGIN that was answered here and is not sent yet.
#[derive(Debug)]
pub(crate) struct Begin {
    text: Box<str>,
}

/// What a text is to a transaction that has not begun on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Begin,
    Commit,
    Rollback,
}

impl Control {
    /// The control that a text is, if it is nothing else: words alone, without comments, quotes or a second statement.
    pub(crate) fn of(text: &str) -> Option<Control> {
        let text = text.trim_ascii();
        let text = text.strip_suffix(';').unwrap_or(text);
        let is_word =
            |byte: u8| byte.is_ascii_alphabetic() || byte.is_ascii_whitespace() || byte == b',';
        if text.len() > TEXT_MAX || !text.bytes().all(is_word) {
            return None;
        }
        let words: Vec<String> =
            text.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
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

/// Whether these words are modes of a transaction (transaction_mode_list in src/backend/parser/gram.y), with a
/// comma behind a word or none.
fn are_modes(mut words: &[&str]) -> bool {
    while let [word, rest @ ..] = words {
        words = match (*word, rest) {
            ("isolation", ["level", "repeatable", "read" | "read,", rest @ ..])
            | (
                "isolation",
                [
                    "level",
                    "read",
                    "committed" | "committed," | "uncommitted" | "uncommitted,",
                    rest @ ..,
                ],
            )
            | ("isolation", ["level", "serializable" | "serializable,", rest @ ..])
            | ("read", ["only" | "only," | "write" | "write,", rest @ ..])
            | ("not", ["deferrable" | "deferrable,", rest @ ..])
            | ("deferrable" | "deferrable,", rest) => rest,
            _ => return false,
        };
        if words.is_empty() && rest.last().unwrap_or(word).ends_with(',') {
            return false;
        }
    }
    true
}

/// The longest BEGIN with all that it may say has less than 100 characters.
const TEXT_MAX: usize = 200;

impl Begin {
    pub(crate) fn new(text: &str) -> Begin {
        Begin { text: text.into() }
    }

    /// Writes it without a Sync: what follows is of its segment.
    pub(crate) fn write(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        parse::write(out, "", &self.text, &[])?;
        bind::write_named(out, "", "", &[0; 6])?;
        out.put_slice(&execute::UNNAMED_ALL);
        Ok(())
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
            "start transaction",
            "START TRANSACTION READ WRITE;",
            "begin isolation level read committed read only",
            "begin not deferrable, isolation level repeatable read, read write",
        ];
        for text in begins {
            assert_eq!(Control::of(text), Some(Control::Begin), "{text}");
        }
        for text in ["commit", "END", "Commit Work;", "end transaction"] {
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
            "start transaction isolation level chaos",
            "begin -- now",
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
}
