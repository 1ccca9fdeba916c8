//! The requests that go in front of a request of a transaction, and are submitted together with it.

use bytes::BytesMut;
use onetrip_engine::{Request, SyncPoint, Token};

use super::block::LevelId;
use crate::Expect;
use crate::message::{EncodeError, SYNC, bind, execute, parse};

/// Requests that are submitted together, in front of another or on their own.
#[derive(Debug, Default)]
pub struct Front {
    /// The requests, in the order in which they are sent.
    pub pieces: Vec<Piece>,
    /// The messages of all of them.
    pub bytes: BytesMut,
    /// The savepoint that they release, if any.
    pub(super) released: Option<LevelId>,
}

/// One of these requests.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Who is told its answer.
    pub role: Role,
    /// The reply to expect.
    pub expect: Expect,
    /// Its place in a segment.
    pub sync: SyncPoint,
    /// The length of its messages in `bytes`.
    pub len: usize,
}

/// Who is told of the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The block, since this is the BEGIN or SAVEPOINT of the level.
    Begins(LevelId),
    /// The block, since this is a statement of the level.
    Within(LevelId),
    /// Nobody. If it fails, so do the requests behind it.
    Nobody,
    /// The caller that asked for it.
    Caller,
}

impl Piece {
    /// The request. It is pinned in the queue, since requests behind it depend on it.
    pub fn request(&self, token: Token) -> Request<Expect> {
        Request { sync: self.sync, pinned: true, ..Request::isolated(token, self.expect) }
    }
}

impl Front {
    pub(super) fn push(&mut self, role: Role, expect: Expect, sync: SyncPoint, start: usize) {
        self.pieces.push(Piece { role, expect, sync, len: self.bytes.len() - start });
    }

    /// Adds a statement that the client itself makes.
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

    /// Ends the front with a sync point.
    pub(super) fn sync(&mut self) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&SYNC);
        self.push(Role::Caller, Expect::sync(), SyncPoint::Only, start);
    }
}

/// The reply to a command without rows, whose tag shows no change that outlives its transaction.
pub(super) fn command() -> Expect {
    Expect::sync().parse().bind().execute().transaction_local().leaves_nothing()
}

/// Writes a statement without parameters, and without a Sync.
///
/// # Errors
/// The text contains a NUL, or exceeds 1 GiB.
pub fn write_command(out: &mut BytesMut, sql: &str) -> Result<(), EncodeError> {
    // Once, and not with each part of the first message.
    out.reserve(sql.len() + 64);
    parse::write(out, "", sql, &[])?;
    out.extend_from_slice(&bind::UNNAMED_WITHOUT_VALUES);
    out.extend_from_slice(&execute::UNNAMED_ALL);
    Ok(())
}
