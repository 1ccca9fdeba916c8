//! Prepared statements that the program believes in.

use std::collections::BTreeSet;

use bytes::BytesMut;

use super::told::{Name, Told};

/// Names that are known, and statements that were told and are not there.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: BTreeSet<Name>,
    /// Each is prepared in front of its next use. The unnamed statement is among them under its
    /// empty name.
    owed: Vec<Told>,
    /// There may be others, of which nothing is known.
    is_blind: bool,
}

/// A message that makes or closes a prepared statement, and is not answered yet.
#[derive(Debug)]
pub(super) enum Named {
    Parse(Name),
    /// Of the empty name, it closes a portal.
    Close(Name),
}

/// Names that are remembered. Of the others nothing is told.
const KNOWN_MAX: usize = 256;

/// The longest name that is remembered.
pub(super) const NAME_MAX: usize = 63;

/// Bytes of statements that may be owed.
const OWED_MAX: usize = 8 << 10;

impl Names {
    pub(super) fn is_known(&self, name: &[u8]) -> bool {
        self.known.contains(name)
    }

    /// Whether the server may take a Parse of this name.
    pub(super) fn is_free(&self, name: &[u8]) -> bool {
        let may_be_taken = self.is_known(name) || self.is_blind || name.len() > NAME_MAX;
        name.is_empty() || !may_be_taken
    }

    /// The connection has prepared it.
    pub(super) fn learn(&mut self, name: Name) {
        if name.is_empty() {
            return;
        }
        match name.len() <= NAME_MAX && self.known.len() < KNOWN_MAX {
            true => {
                self.known.insert(name);
            }
            false => self.is_blind = true,
        }
    }

    /// The connection may have prepared something.
    pub(super) fn lose(&mut self) {
        self.is_blind = true;
    }

    /// The connection may have done so by this text.
    pub(super) fn lose_by(&mut self, sql: &str) {
        self.is_blind |= ["prepare", "deallocate", "discard"].iter().any(|it| has_word(sql, it));
    }

    /// The server has done this.
    pub(super) fn take(&mut self, named: Named) {
        match named {
            Named::Parse(name) => {
                self.forget(&name);
                self.learn(name);
            }
            Named::Close(name) if name.is_empty() => {}
            Named::Close(name) => self.forget(&name),
        }
    }

    /// It is closed, or prepared anew.
    pub(super) fn forget(&mut self, name: &[u8]) {
        self.known.remove(name);
        self.owed.retain(|it| it.makes.as_deref() != Some(name));
    }

    pub(super) fn forget_all(&mut self) {
        self.known.clear();
        self.owed.clear();
        self.is_blind = false;
    }

    /// Whether one more statement of this length may be told: if it proves false, it is owed.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.owed.iter().map(Told::memory).sum::<usize>() + len <= OWED_MAX
    }

    /// It was told, and is not there.
    pub(super) fn owe(&mut self, told: Told) {
        if let Some(name) = told.makes.clone() {
            self.owed.retain(|it| it.makes.as_ref() != Some(&name));
            self.owed.push(told.anew());
        }
    }

    pub(super) fn owes_any(&self) -> bool {
        !self.owed.is_empty()
    }

    /// The statement that has to be prepared before this name is used.
    pub(super) fn pay(&mut self, name: &[u8]) -> Option<Told> {
        let at = self.owed.iter().position(|it| it.makes.as_deref() == Some(name))?;
        Some(self.owed.swap_remove(at))
    }

    pub(super) fn memory(&self) -> usize {
        let known: usize = self.known.iter().map(|it| it.len() + size_of::<Name>()).sum();
        known + self.owed.iter().map(Told::memory).sum::<usize>()
    }
}

/// Whether a text has these letters, large or small.
pub(super) fn has_word(sql: &str, word: &str) -> bool {
    sql.as_bytes().windows(word.len()).any(|it| it.eq_ignore_ascii_case(word.as_bytes()))
}

/// Whether a text names what `DISCARD ALL` does not undo: a setting of a name of the program's own,
/// which is empty from then on and not missing; connections of dblink; a seed; a library. What a
/// function does is not seen.
pub(super) fn marks(sql: &str) -> bool {
    ["set_config", "dblink", "setseed"].iter().any(|word| has_word(sql, word))
        || words(sql).any(|word| word.eq_ignore_ascii_case("load"))
        || sets_own(sql)
}

/// Whether a SET names a setting with a dot. A column of a composite looks the same.
fn sets_own(sql: &str) -> bool {
    let is_scope =
        |word: &&str| ["session", "local"].iter().any(|it| word.eq_ignore_ascii_case(it));
    let mut words = words(sql);
    while words.any(|word| word.eq_ignore_ascii_case("set")) {
        if words.by_ref().find(|word| !is_scope(word)).is_some_and(|name| name.contains('.')) {
            return true;
        }
    }
    false
}

/// The words of a text; a name with its dots and quotes is one.
fn words(sql: &str) -> impl Iterator<Item = &str> {
    let is_of_word = |it: char| it.is_alphanumeric() || matches!(it, '_' | '.' | '"');
    sql.split(move |it| !is_of_word(it)).filter(|word| !word.is_empty())
}

/// The name at the front of a body, behind so many others; `None` if it has no end here.
pub(super) fn name_at(body: &[u8], behind: usize) -> Option<&[u8]> {
    let mut names = body.split_inclusive(|byte| *byte == 0);
    names.nth(behind).and_then(|it| it.strip_suffix(&[0]))
}

/// The statement that a Bind or a Describe names.
pub(super) fn statement_of(tag: u8, body: &[u8]) -> Option<&[u8]> {
    use crate::message::tag::frontend;
    match tag {
        frontend::BIND => name_at(body, 1),
        frontend::DESCRIBE => body.strip_prefix(b"S").and_then(|it| name_at(it, 0)),
        _ => None,
    }
}

/// The name and the text of a Parse.
pub(super) fn parsed(message: &BytesMut, len: usize) -> Option<(&[u8], &[u8])> {
    let body = message.get(crate::message::Header::LEN..len)?;
    Some((name_at(body, 0)?, name_at(body, 1)?))
}

#[cfg(test)]
mod tests {
    use super::marks;

    #[test]
    fn a_text_that_names_what_no_reset_undoes_marks_a_connection() {
        for sql in [
            "set app.tenant = '1'",
            "SET SESSION \"app\".tenant to 1",
            "begin; set local app.tenant=1; commit",
            "select set_config('app.tenant', '1', false)",
            "select dblink_connect('a', 'b')",
            "select setseed(0.5)",
            "load 'auto_explain'",
        ] {
            assert!(marks(sql), "{sql}");
        }
        for sql in [
            "select 1.5",
            "set work_mem = '1.5MB'",
            "set search_path to a, b",
            "update t set a = t.b + 1.5",
            "select payload, download from t.u",
        ] {
            assert!(!marks(sql), "{sql}");
        }
    }
}
