//! What goes in front of a request of a transaction, and is submitted in one go with it.

use bytes::BytesMut;
use onetrip_engine::{Request, SyncPoint, Token};

use super::block::LevelId;
use crate::Expect;
use crate::message::{EncodeError, SYNC, bind, execute, parse};

/// Requests that are submitted in one go, in front of another or by themselves.
#[derive(Debug, Default)]
pub struct Front {
    /// In the order in which they are sent.
    pub pieces: Vec<Piece>,
    /// All of them, framed.
    pub bytes: BytesMut,
    /// The savepoint that it releases.
    pub(super) released: Option<LevelId>,
}

/// One of these requests.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Who is told of its answer.
    pub role: Role,
    /// What it is answered by.
    pub expect: Expect,
    /// Which segment it is of.
    pub sync: SyncPoint,
    /// How many of the bytes are its own.
    pub len: usize,
}

/// Who is told of the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The block: it begins this level.
    Begins(LevelId),
    /// The block: it is a statement of this level.
    Within(LevelId),
    /// Nobody. Where it fails so does what is behind it.
    Nobody,
    /// Whoever has caused it.
    Caller,
}

impl Piece {
    /// The request. It stays where it is: what comes behind depends on it.
    pub fn request(&self, token: Token) -> Request<Expect> {
        Request { sync: self.sync, pinned: true, ..Request::isolated(token, self.expect) }
    }
}

impl Front {
    pub(super) fn push(&mut self, role: Role, expect: Expect, sync: SyncPoint, start: usize) {
        self.pieces.push(Piece { role, expect, sync, len: self.bytes.len() - start });
    }

    /// Adds a statement of the client's own.
    pub(super) fn command(
        &mut self,
        sql: &str,
        role: Role,
        sync: SyncPoint,
    ) -> Result<(), EncodeError> {
        let start = self.bytes.len();
        write_command(&mut self.bytes, sql)?;
        if sync == SyncPoint::Own {
            self.bytes.extend_from_slice(&SYNC);
        }
        self.push(role, command(), sync, start);
        Ok(())
    }

    /// Ends it by a sync point.
    pub(super) fn sync(&mut self) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&SYNC);
        self.push(Role::Caller, Expect::sync(), SyncPoint::Only, start);
    }
}

/// The reply to a command without rows, whose tag tells of no change that outlives its transaction.
pub(super) fn command() -> Expect {
    Expect::sync().parse().bind().execute().transaction_local().leaves_nothing()
}

/// Writes a statement without values, and without a Sync.
///
/// # Errors
/// A NUL in the text, or more than 1 GiB.
pub fn write_command(out: &mut BytesMut, sql: &str) -> Result<(), EncodeError> {
    parse::write(out, "", sql, &[])?;
    bind::write_named(out, "", "", &super::NO_VALUES)?;
    out.extend_from_slice(&execute::UNNAMED_ALL);
    Ok(())
}
