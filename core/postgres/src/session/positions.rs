//! The position in the log of what was written on a connection.
//!
//! The rules:
//!
//! 1. Behind requests that may have written, a *question* for the position is sent in the same
//!    flight, once for all of them. Every request may have written unless
//!    [`Expect::leaves_nothing`] says otherwise: a text does not show what its functions do.
//! 2. A question covers what was sent in front of it. It is asked outside of transactions only,
//!    where that is certain: on a shared connection, behind a COMMIT, or once nothing is in flight
//!    and the server has reported that no transaction is open.
//! 3. Writes count as acknowledged when the server reports that no transaction is open behind them.
//!    From then until the question behind them is answered, the connection is uncertain.
//! 4. Behind a pooler another server may answer the question than the one that wrote. If that is a
//!    standby, its answer says nothing of what was written, and the connection stays uncertain.

use std::collections::VecDeque;

use bytes::BytesMut;

use super::{Expect, Own};
use crate::client::names::NAME_PREFIX;
use crate::client::position::{self, Position, QUESTION};
use crate::message::{Close, DataRow, Formats, SYNC, Target, bind, execute, parse};

/// What is known of the positions of a connection's writes.
#[derive(Debug, Default)]
pub(super) struct Positions {
    is_watching: bool,
    /// Requests that may have written are numbered as they are sent; the numbers wrap. Of these,
    /// the last that was sent, the last with a question behind it, the last that was acknowledged,
    /// and the last whose question was answered.
    sent: u32,
    asked: u32,
    acknowledged: u32,
    covered: u32,
    /// What the questions in flight cover, and the host's mark at that time.
    questions: VecDeque<(u32, u64)>,
    mark: u64,
    /// What the row of the answer says.
    row: Option<Option<Position>>,
    newest: Option<(Position, u64)>,
    /// Whether the server has the question under its name.
    is_prepared: bool,
    /// Whether the question in flight is to prepare it.
    prepares: bool,
    failed: u8,
    /// The last request that was sent ends the transaction, if there is one.
    is_outside: bool,
}

/// So many questions may fail in a row. After that none is asked, and the connection stays
/// uncertain.
const TRIES_MAX: u8 = 3;

/// So many questions are in flight at most.
const QUESTIONS_MAX: usize = 64;

impl Positions {
    pub(super) fn watch(&mut self) {
        self.is_watching = true;
    }

    pub(super) fn set_mark(&mut self, mark: u64) {
        self.mark = mark;
    }

    pub(super) fn is_uncertain(&self) -> bool {
        is_behind(self.covered, self.acknowledged)
    }

    pub(super) fn take(&mut self) -> Option<(Position, u64)> {
        self.newest.take()
    }

    /// A request is sent. Returns the number of the last one that may have written.
    #[inline]
    pub(super) fn sending(&mut self, may_write: bool, ends: bool) -> u32 {
        if self.is_watching {
            self.sent = self.sent.wrapping_add(u32::from(may_write));
            self.is_outside = ends;
        }
        self.sent
    }

    /// Whether a question is to be asked, where no transaction is open.
    #[inline]
    pub(super) fn owes(&self) -> bool {
        self.is_watching
            && self.sent != self.asked
            && self.failed < TRIES_MAX
            && self.questions.len() < QUESTIONS_MAX
    }

    pub(super) fn is_outside(&self) -> bool {
        self.is_outside
    }

    /// Writes the question. `keeps_names`: a statement that is prepared stays. `unique` makes its
    /// name different from those of other connections.
    pub(super) fn write(&mut self, keeps_names: bool, unique: u64, out: &mut BytesMut) -> Expect {
        self.questions.push_back((self.sent, self.mark));
        self.asked = self.sent;
        let mut expect = Expect { own: Own::Position, ..Expect::sync() };
        let name = match keeps_names {
            true => format!("{NAME_PREFIX}position_{unique:x}"),
            false => String::new(),
        };
        if !(keeps_names && self.is_prepared) {
            if keeps_names {
                // It may be there although its answer was lost to a cancel.
                let _ = Close { target: Target::Statement(&name) }.encode(out);
                expect = expect.close();
                self.prepares = true;
            }
            // Encoding can't fail: neither text holds a NUL, and both are short.
            let _ = parse::write(out, &name, QUESTION, &[]);
            expect = expect.parse();
        }
        let none = |_: usize, _: &mut BytesMut| -> Result<_, crate::message::EncodeError> {
            Ok(bind::IsNull::Yes)
        };
        let _ = bind::write(out, "", &name, Formats::AllText, 0, none, Formats::AllText);
        out.extend_from_slice(&execute::UNNAMED_ALL);
        out.extend_from_slice(&SYNC);
        expect.bind().execute()
    }

    /// The row of the answer. `is_direct`: the connection leads to the server itself.
    pub(super) fn learn(&mut self, body: &[u8], is_direct: bool) {
        let Ok(row) = DataRow::decode(body) else { return };
        let text = |at: usize| std::str::from_utf8(row.values.clone().nth(at)??).ok();
        self.row = match [text(0), text(1), text(2)] {
            [Some(_), None, None] => is_direct.then_some(None),
            texts => position::read(texts).map(Some),
        };
    }

    /// The server reports behind the request `up_to` that it is ready, and whether a transaction is
    /// open.
    #[inline]
    pub(super) fn ready(&mut self, up_to: u32, is_outside: bool) {
        if self.is_watching && is_outside && is_behind(self.acknowledged, up_to) {
            self.acknowledged = up_to;
        }
    }

    /// A question was answered.
    pub(super) fn answered(&mut self, is_failed: bool, is_outside: bool) {
        let (Some((covers, mark)), row) = (self.questions.pop_front(), self.row.take()) else {
            return;
        };
        let prepares = std::mem::take(&mut self.prepares);
        match row.filter(|_| is_outside && !is_failed) {
            Some(position) => {
                (self.covered, self.failed) = (covers, 0);
                self.is_prepared |= prepares;
                if let Some(position) = position {
                    self.newest = Some((position, mark));
                }
            }
            None => {
                // It is asked anew, and prepared anew.
                (self.is_prepared, self.failed) = (false, self.failed + 1);
                if self.questions.is_empty() {
                    self.asked = self.covered;
                }
            }
        }
    }

    /// The server has lost its prepared statements.
    pub(super) fn statements_lost(&mut self) {
        self.is_prepared = false;
    }
}

/// Whether the number `at` comes before `other`.
fn is_behind(at: u32, other: u32) -> bool {
    at != other && other.wrapping_sub(at) < u32::MAX / 2
}
