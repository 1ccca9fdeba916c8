//! What may be told.

use bytes::BytesMut;

use super::names::Names;
use super::told::{Kind, Words};
use crate::sql::Control;

/// What the program believes in.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// As ReadyForQuery says it.
    pub(super) status: u8,
    savepoints: Vec<Box<str>>,
    cursors: Vec<Cursor>,
    /// The cursor of which the last statement got the last row, and its columns.
    exhausted: Option<(Box<str>, BytesMut)>,
    /// BEGIN is held, and nothing stands behind it but SET TRANSACTION.
    follows_begin: bool,
}

/// A cursor that is open.
#[derive(Clone, Debug)]
struct Cursor {
    name: Box<str>,
    /// It was open when its transaction had ended.
    stays: bool,
}

pub(super) const IDLE: u8 = b'I';
pub(super) const IN_TRANSACTION: u8 = b'T';
pub(super) const FAILED: u8 = b'E';

/// Savepoints and cursors that are remembered.
const REMEMBERED_MAX: usize = 32;

impl Default for View {
    fn default() -> View {
        View {
            status: IDLE,
            savepoints: Vec::new(),
            cursors: Vec::new(),
            exhausted: None,
            follows_begin: false,
        }
    }
}

impl View {
    pub(super) fn is_idle(&self) -> bool {
        self.status == IDLE
    }

    /// Takes the server's word.
    pub(super) fn set(&mut self, status: u8) {
        self.status = status;
        self.follows_begin = false;
        if status == IDLE {
            self.savepoints.clear();
            self.cursors.retain(|it| it.stays);
        }
    }

    /// A statement is sent.
    pub(super) fn go_on(&mut self) {
        self.follows_begin = false;
        self.exhausted = None;
    }

    /// The last row of a cursor has come.
    pub(super) fn exhaust(&mut self, cursor: &str, columns: BytesMut) {
        if self.cursors.iter().any(|it| *it.name == *cursor) {
            self.exhausted = Some((cursor.into(), columns));
        }
    }

    /// The columns of a cursor that has no more rows.
    pub(super) fn columns_of(&self, cursor: &str) -> Option<&[u8]> {
        let (name, columns) = self.exhausted.as_ref()?;
        (**name == *cursor && self.status != FAILED).then_some(columns)
    }

    pub(super) fn memory(&self) -> usize {
        self.exhausted.as_ref().map_or(0, |it| it.1.capacity())
    }

    /// Something came that is not understood.
    pub(super) fn forget(&mut self) {
        self.savepoints.clear();
        self.cursors.clear();
    }

    pub(super) fn add_savepoint(&mut self, name: Box<str>) {
        if self.savepoints.len() < REMEMBERED_MAX {
            self.savepoints.push(name);
        }
    }

    /// Takes away a savepoint with those behind it, and with itself if it is released.
    pub(super) fn back_to(&mut self, name: &str, is_released: bool) {
        let at = self.savepoints.iter().rposition(|it| **it == *name);
        self.savepoints.truncate(at.map_or(0, |at| if is_released { at } else { at + 1 }));
        if !is_released {
            self.cursors.clear();
        }
    }

    pub(super) fn add_cursor(&mut self, name: Box<str>, stays: bool) {
        if self.cursors.len() < REMEMBERED_MAX {
            self.cursors.push(Cursor { name, stays });
        }
    }

    /// Whether this statement may be told; if so, what it is, and the tag of its command. Afterwards
    /// the program believes in it.
    pub(super) fn tell(
        &mut self,
        control: &Control,
        words: Words,
        names: &Names,
    ) -> Option<(Kind, &'static str)> {
        let is_in = self.status == IN_TRANSACTION;
        self.exhausted = None;
        let follows = std::mem::take(&mut self.follows_begin);
        match control {
            Control::Begin { is_start } if self.is_idle() => {
                self.status = IN_TRANSACTION;
                self.follows_begin = true;
                Some((Kind::Begin, if *is_start { "START TRANSACTION" } else { "BEGIN" }))
            }
            Control::SetTransaction if follows => {
                self.follows_begin = true;
                Some((Kind::SetTransaction, "SET"))
            }
            Control::Savepoint(name) if is_in && self.savepoints.len() < REMEMBERED_MAX => {
                self.add_savepoint(name.clone());
                Some((Kind::Savepoint, "SAVEPOINT"))
            }
            Control::Release(name) if is_in && self.savepoints.contains(name) => {
                self.back_to(name, true);
                Some((Kind::Release, "RELEASE"))
            }
            Control::Deallocate(name) if self.status != FAILED => {
                names.is_known(name.as_bytes()).then_some((Kind::Close, "DEALLOCATE"))
            }
            Control::Close(name) if self.status != FAILED => {
                let at = self.cursors.iter().position(|it| it.name == *name)?;
                self.cursors.swap_remove(at);
                Some((Kind::Cursor, "CLOSE CURSOR"))
            }
            // Outside a transaction it would be undone with the statement that it leaves with.
            Control::Setting { is_reset } if words.set() && is_in => {
                Some((Kind::Set, if *is_reset { "RESET" } else { "SET" }))
            }
            _ => None,
        }
    }
}
