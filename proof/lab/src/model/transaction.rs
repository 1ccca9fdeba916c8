//! Transactions: which statements are committed or rolled back together.

use std::collections::HashSet;

use onetrip_postgres::message::TransactionStatus;

use super::session::Session;
use super::startup::PROCESS_ID;
use super::{Effect, Log, Table};

/// The transaction of a session: the one between two Syncs, or one with BEGIN.
#[derive(Debug)]
pub(super) struct Transaction {
    /// `Idle` also within an implicit transaction.
    pub(super) block: TransactionStatus,
    /// Statements that ran in it.
    ops: Vec<Option<u64>>,
    /// One of them makes the commit fail.
    deferred: Option<Option<u64>>,
    /// The tables that it has used, and holds.
    pub(super) tables: HashSet<Table>,
    /// The state that outlives the transaction.
    pub(super) session: Session,
}

impl Transaction {
    pub(super) fn new() -> Transaction {
        let session = Session::new(PROCESS_ID);
        let (ops, tables) = (Vec::new(), HashSet::new());
        Transaction { block: TransactionStatus::Idle, ops, deferred: None, tables, session }
    }

    pub(super) fn is_explicit(&self) -> bool {
        self.block != TransactionStatus::Idle
    }

    pub(super) fn has_failed(&self) -> bool {
        self.block == TransactionStatus::Failed
    }

    /// The statement that ran last; none if there is nothing to commit.
    pub(super) fn last(&self) -> Option<Option<u64>> {
        self.ops.last().copied()
    }

    /// A statement ran.
    pub(super) fn ran(&mut self, op: Option<u64>, fails_commit: bool) {
        self.ops.push(op);
        if fails_commit {
            self.deferred.get_or_insert(op);
        }
    }

    /// Commits. If the commit fails, undoes everything and returns the statement that made it fail.
    pub(super) fn commit(&mut self, log: &Log) -> Result<(), Option<u64>> {
        if let Some(culprit) = self.deferred {
            self.roll_back(log);
            return Err(culprit);
        }
        self.block = TransactionStatus::Idle;
        self.tables.clear();
        self.session.commit();
        self.ops.drain(..).for_each(|op| log.settled(op, Effect::Committed));
        Ok(())
    }

    /// Undoes everything and ends the transaction.
    pub(super) fn roll_back(&mut self, log: &Log) {
        self.block = TransactionStatus::Idle;
        self.deferred = None;
        self.tables.clear();
        self.session.roll_back();
        self.ops.drain(..).for_each(|op| log.settled(op, Effect::RolledBack));
    }

    /// A statement failed: everything is undone, and an explicit transaction waits for its end.
    pub(super) fn fail(&mut self, log: &Log) {
        let explicit = self.is_explicit();
        self.roll_back(log);
        if explicit {
            self.block = TransactionStatus::Failed;
        }
    }
}
