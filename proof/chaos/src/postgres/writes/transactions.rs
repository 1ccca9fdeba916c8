//! Transactions: committed, committed with their last statement, undone, and forgotten at their
//! end.

use std::time::Duration;

use onetrip::{Error, Reply, Transaction};

use super::{INSERT, PostgresWriter};
use crate::ledger::{Begun, Claim};

impl PostgresWriter {
    /// Some rows, awaited one by one or not at all, and one of the ways to commit.
    pub(crate) async fn transaction(&mut self) {
        let hurried = self.random.one_in(6);
        let name = if hurried { "transaction with a deadline" } else { "transaction" };
        let rows = self.some(2..5);
        let mut unit = self.begin(name, rows);
        let Some(tx) = self.begun(&mut unit).await else { return self.end(unit) };
        let last = unit.numbers.end - 1;
        let time = hurried.then(|| Duration::from_millis(1 + self.random.below(60)));
        let replies = unit.numbers.start..last;
        let replies: Vec<_> = replies.map(|n| self.execute(&tx, n, time)).collect();
        match self.random.below(4) {
            0 => self.commit_with(&mut unit, tx, replies).await,
            1 => self.commit_and_forget(&mut unit, tx, replies).await,
            _ => {
                let reply = self.execute(&tx, last, time);
                self.commit(&mut unit, tx, replies.into_iter().chain([reply]).collect()).await;
            }
        }
        self.end(unit);
    }

    /// A part of the transaction is undone; the rest is committed or undone independently.
    pub(crate) async fn transaction_with_a_savepoint(&mut self) {
        let mut unit = self.begin("transaction around a savepoint", 2);
        let mut part = self.begin("savepoint that is undone", 2);
        let Some(mut tx) = self.begun(&mut unit).await else {
            self.end_as(part, Claim::RolledBack);
            return self.end(unit);
        };
        let first = self.execute(&tx, unit.numbers.start, None);
        let savepoint = tx.savepoint();
        // The second one fails now and then, which the savepoint mends.
        let fine = !self.random.one_in(3);
        for n in part.numbers.clone() {
            let reply = savepoint.execute(INSERT, &[&n, &(fine || n == part.numbers.start)]);
            if self.random.one_in(2) {
                let _ = reply.await;
            }
        }
        match self.random.one_in(2) {
            true => drop(savepoint),
            false => drop(savepoint.rollback().await),
        }
        let second = self.execute(&tx, unit.numbers.end - 1, None);
        self.commit(&mut unit, tx, vec![first, second]).await;
        part.say(Claim::RolledBack);
        self.end(part);
        self.end(unit);
    }

    /// Rolled back or just dropped.
    pub(crate) async fn transaction_undone(&mut self) {
        let rows = self.some(1..4);
        let mut unit = self.begin("transaction that is undone", rows);
        let Some(tx) = self.begun(&mut unit).await else { return self.end(unit) };
        for n in unit.numbers.clone() {
            let reply = self.execute(&tx, n, None);
            if self.random.one_in(2) {
                let _ = reply.await;
            }
        }
        match self.random.one_in(2) {
            true => drop(tx),
            false => drop(tx.rollback().await),
        }
        self.end_as(unit, Claim::RolledBack);
    }

    async fn begun(&self, unit: &mut Begun) -> Option<Transaction<'static>> {
        let begun = self.client.begin().await;
        if let Err(error) = &begun {
            unit.claim::<()>(&Err(error.clone()));
        }
        begun.ok()
    }

    fn execute(&self, tx: &Transaction<'_>, n: i64, time: Option<Duration>) -> Reply<u64> {
        match time {
            Some(time) => tx.timeout(time).execute(INSERT, &[&n, &true]),
            None => tx.execute(INSERT, &[&n, &true]),
        }
    }

    /// Commits. The statements are awaited before the COMMIT or after it.
    async fn commit(&mut self, unit: &mut Begun, tx: Transaction<'_>, replies: Vec<Reply<u64>>) {
        let (first, later) = match self.random.one_in(2) {
            true => (replies, Vec::new()),
            false => (Vec::new(), replies),
        };
        self.take_statements(unit, first).await;
        let commit = tx.commit();
        self.take_statements(unit, later).await;
        unit.claim(&commit.await);
    }

    async fn commit_with(
        &mut self,
        unit: &mut Begun,
        tx: Transaction<'_>,
        replies: Vec<Reply<u64>>,
    ) {
        let fine = !self.random.one_in(6);
        let last = unit.numbers.end - 1;
        let committed: Result<u64, Error> = tx.commit_with(INSERT, &[&last, &fine]).await;
        unit.claim(&committed);
        self.expect(unit, committed.ok(), 1);
        self.take_statements(unit, replies).await;
    }

    /// A COMMIT that was sent stays sent.
    async fn commit_and_forget(
        &mut self,
        unit: &mut Begun,
        tx: Transaction<'_>,
        replies: Vec<Reply<u64>>,
    ) {
        self.take_statements(unit, replies).await;
        // COMMIT would succeed without the last row, so that row is sent with it.
        let last = tx.execute(INSERT, &[&(unit.numbers.end - 1), &true]);
        drop(tx.commit());
        unit.provisional(&last.await);
        unit.say(Claim::Forgotten);
    }

    /// Takes the replies of the statements. The COMMIT says whether their rows are there.
    async fn take_statements(&self, unit: &mut Begun, replies: Vec<Reply<u64>>) {
        for reply in replies {
            let result = reply.await;
            unit.provisional(&result);
            self.expect(unit, result.ok(), 1);
        }
    }
}
