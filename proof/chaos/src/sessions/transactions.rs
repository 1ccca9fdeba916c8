//! Transactions of the client: their ends, their savepoints, and those that are run again.

use onetrip::{Error, Isolation, RunOptions, Transaction, TransactionOptions};

use super::{COUNTED, INSERT, SessionsWriter};
use crate::ledger::{Begun, Claim};

impl SessionsWriter {
    pub(crate) async fn transaction(&mut self) {
        let rows = self.some(1..4);
        let mut unit = self.begin("transaction", rows);
        match self.client.begin().await {
            Ok(tx) => self.write_and_end(&mut unit, tx).await,
            Err(error) => unit.claim::<()>(&Err(error)),
        }
        self.end(unit);
    }

    async fn write_and_end(&mut self, unit: &mut Begun, tx: Transaction<'_>) {
        let fine = !self.random.one_in(8);
        for n in unit.numbers.clone() {
            let fine = fine || n != unit.numbers.start;
            let reply = tx.query_one(INSERT, &[&n, &false, &fine]);
            if self.random.one_in(2) {
                let row = reply.await;
                row.iter().for_each(|row| self.hold("a transaction", n, row));
            }
        }
        match self.random.below(4) {
            0 => {
                drop(tx);
                unit.say(Claim::RolledBack);
            }
            1 => {
                drop(tx.rollback().await);
                unit.say(Claim::RolledBack);
            }
            _ => unit.claim(&tx.commit().await),
        }
    }

    /// One savepoint is released and one is undone; now and then the second is inside the first.
    pub(crate) async fn savepoints(&mut self) {
        let mut unit = self.begin("transaction with savepoints", 2);
        let mut undone = self.begin("savepoint that is undone", 1);
        undone.say(Claim::RolledBack);
        let mut tx = match self.client.begin().await {
            Ok(tx) => tx,
            Err(error) => {
                unit.claim::<()>(&Err(error));
                self.end(undone);
                return self.end(unit);
            }
        };
        let mut kept = tx.savepoint();
        let first = kept.query_one(INSERT, &[&unit.numbers.start, &false, &true]);
        let inner = kept.savepoint();
        let fine = self.random.one_in(2);
        let lost = inner.query_one(INSERT, &[&undone.numbers.start, &false, &fine]);
        if self.random.one_in(2) {
            let _ = lost.await;
        }
        match self.random.one_in(2) {
            true => drop(inner),
            false => drop(inner.rollback().await),
        }
        let released = kept.release();
        match self.random.one_in(2) {
            true => unit.provisional(&released.await),
            false => drop(released),
        }
        let second = tx.query_one(INSERT, &[&(unit.numbers.end - 1), &false, &true]);
        unit.claim(&tx.commit().await);
        for (n, reply) in unit.numbers.clone().zip([first, second]) {
            reply.await.iter().for_each(|row| self.hold("a transaction", n, row));
        }
        self.end(undone);
        self.end(unit);
    }

    /// Increments two counters that other tasks increment in another order: conflicts and
    /// deadlocks.
    pub(crate) async fn counted(&mut self) {
        let mut unit = self.begin("transaction that is run again", 1);
        let n = unit.numbers.start;
        let (a, b) = (self.random.below(4) as i32, self.random.below(4) as i32);
        let mut options = RunOptions::new();
        if self.random.one_in(2) {
            let serializable = TransactionOptions::new().isolation(Isolation::Serializable);
            options = options.transaction(serializable);
        }
        let client = self.client.clone();
        let committed = client
            .run_with(options, async move |tx| {
                for id in [a, b] {
                    tx.execute(COUNT, &[&id]).await?;
                }
                tx.query_one(COUNTED, &[&n]).await
            })
            .await;
        let row: Result<_, Error> = committed.map(|committed| committed.value);
        unit.claim(&row);
        row.iter().for_each(|row| self.hold("a transaction", n, row));
        self.end(unit);
    }
}

const COUNT: &str = "update public.counter set v = v + 1 where id = $1";
