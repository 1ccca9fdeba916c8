//! Submits the lead of a transaction: BEGIN, SAVEPOINT and RELEASE, which travel with its
//! statements. [`onetrip_postgres::client::transaction`] decides about them.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use onetrip_engine::Outcome;
use onetrip_postgres::Expect;
use onetrip_postgres::client::statements::Generation;
use onetrip_postgres::client::transaction::block::{Block, LevelId, NotSent};
use onetrip_postgres::client::transaction::front::Role;
use onetrip_postgres::client::transaction::pending::Begin;
use onetrip_postgres::client::transaction::verdict::{Failure, ROLLED_BACK};
use onetrip_postgres::message::EncodeError;

pub(crate) use onetrip_postgres::client::transaction::block::Part;

use crate::error::ABORTED;
use crate::fate::Fate;
use crate::params;
use crate::{Error, Kind};

/// A transaction or a savepoint in it.
#[derive(Debug)]
pub(crate) struct Lead {
    block: Arc<Mutex<Block<Error>>>,
    pub(crate) level: LevelId,
    pub(crate) fate: Arc<Fate>,
    /// The transaction or savepoint around a savepoint, kept alive until the savepoint ends.
    _outer: Option<Arc<Lead>>,
}

/// What the end of a request says about its transaction, beside what it says to its caller.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) lead: Arc<Lead>,
    pub(crate) role: Role,
}

impl Note {
    /// A statement of this transaction or savepoint.
    pub(crate) fn within(lead: Arc<Lead>) -> Note {
        Note { role: Role::Within(lead.level), lead }
    }

    /// Whether the request is a BEGIN or SAVEPOINT.
    pub(crate) fn begins(&self) -> bool {
        matches!(self.role, Role::Begins(_))
    }

    pub(crate) fn ended(self, error: Option<&Error>) {
        self.lead.block().answered(self.role, error);
    }
}

impl Lead {
    /// A transaction of which nothing was sent.
    pub(crate) fn begin(text: Cow<'static, str>, generation: &Generation) -> Arc<Lead> {
        // The number differs from that of every other transaction of the session.
        static TRANSACTIONS: AtomicU64 = AtomicU64::new(1);
        let number = TRANSACTIONS.fetch_add(1, Ordering::Relaxed);
        let block = Arc::new(Mutex::new(Block::new(Begin::new(text, number), generation)));
        let (level, fate) = (LevelId::OUTERMOST, Arc::default());
        Arc::new(Lead { block, level, fate, _outer: None })
    }

    /// A savepoint of which nothing was sent.
    pub(crate) fn savepoint(self: &Arc<Lead>) -> Arc<Lead> {
        let level = self.block().savepoint(self.level);
        let fate = Arc::new(Fate::within(&self.fate));
        Arc::new(Lead { block: self.block.clone(), level, fate, _outer: Some(self.clone()) })
    }

    /// No code of a caller runs under this lock.
    pub(crate) fn block(&self) -> MutexGuard<'_, Block<Error>> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // --- what is known ---

    pub(crate) fn is_sent(&self) -> bool {
        self.block().is_sent(self.level)
    }

    pub(crate) fn has_left(&self) -> bool {
        self.block().has_left(self.level)
    }

    /// It is rolled back, or its connection is gone.
    pub(crate) fn is_undone(&self) {
        self.fate.is_undone(self.has_left());
    }

    pub(crate) fn is_known(&self) -> bool {
        self.block().is_known(self.level)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.block().is_open(self.level)
    }

    pub(crate) fn refusal(&self) -> Option<Error> {
        self.block().refusal().cloned()
    }

    pub(crate) fn why_skipped(&self) -> Option<Error> {
        self.block().why_skipped(self.level).cloned()
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.block().failure(self.level).cloned()
    }

    pub(crate) fn is_doomed(&self) -> bool {
        self.block().is_doomed()
    }

    pub(crate) fn has_conflict(&self) -> bool {
        self.block().conflict().is_some()
    }

    /// Whether the transaction is run again, whose begin or end failed in this way.
    pub(crate) fn runs_again(&self, end: &Error) -> bool {
        self.block().runs_again(end)
    }

    /// A statement of it was refused.
    pub(crate) fn leave_out(&self) {
        self.block().leave_out(self.level);
    }

    /// Whether a statement of it was refused, so that it must not be kept.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.block().is_incomplete(self.level)
    }

    pub(crate) fn end(&self) {
        self.block().end(self.level);
    }

    // --- what is sent ---

    /// Lets RELEASE travel with what comes next.
    pub(crate) fn release(&self) {
        self.block().release(self.level);
    }

    /// Takes back a RELEASE that has not left yet.
    pub(crate) fn take_release(&self) -> Option<String> {
        self.block().take_release(self.level)
    }

    /// Writes the guard: a request that fails unless the transaction is open.
    pub(crate) fn write_guard(&self, out: &mut BytesMut) -> Result<Expect, EncodeError> {
        self.block().begin().write_guard(out)?;
        Ok(Begin::guard())
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.block().forget(self.level);
    }
}

impl From<NotSent<Error>> for Error {
    fn from(why: NotSent<Error>) -> Error {
        match why {
            NotSent::NotBegun(error) | NotSent::Incomplete(error) => error,
            NotSent::Ended(refusal) => Error::misuse(refusal.code(), refusal.to_string()),
            NotSent::Unencodable(error) => params::unencodable(error),
        }
    }
}

impl Failure for Error {
    fn answer(&self) -> Option<(&str, Option<&str>)> {
        let is_answer = self.kind() == Kind::Server && !self.is_connection_lost();
        let server = self.server().filter(|_| is_answer)?;
        Some((self.sqlstate().unwrap_or_default(), server.routine.as_deref()))
    }

    fn is_skipped(&self) -> bool {
        self.code() == ABORTED
    }

    fn outcome(&self) -> Outcome {
        Error::outcome(self)
    }

    fn with_outcome(self, outcome: Outcome) -> Error {
        Error::with_outcome(self, outcome)
    }

    fn about(self, what: &'static str) -> Error {
        Error::about(self, what)
    }

    fn rolled_back(text: &'static str, why: Option<Error>) -> Error {
        match why {
            Some(why) => why.about(text).with_code(ROLLED_BACK).with_outcome(Outcome::Rejected),
            None => Error::new(Kind::Server, Outcome::Rejected, ROLLED_BACK, text),
        }
    }
}
