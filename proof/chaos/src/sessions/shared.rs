//! Statements that stand alone, on connections that all share.

use std::time::Duration;

use onetrip::{Cancelled, Row};

use super::{INSERT, LOOK, SessionsWriter, TWO};
use crate::ledger::Claim;
use crate::writer::polled;

impl SessionsWriter {
    /// Reads, one or twenty at once; now and then they are marked as safe to run twice.
    pub(crate) async fn looks(&mut self) {
        let count = if self.random.one_in(3) { 20 } else { 1 };
        let numbers: Vec<i64> = (0..count).map(|_| self.number()).collect();
        let repeatable = self.random.one_in(3);
        let ask = |n: &i64| match repeatable {
            true => self.client.repeatable().query_one(LOOK, &[n]),
            false => self.client.query_one(LOOK, &[n]),
        };
        let replies: Vec<_> = numbers.iter().map(ask).collect();
        for (number, reply) in numbers.into_iter().zip(replies) {
            match reply.await {
                Ok(row) => self.hold("a read", number, &row),
                Err(error) => self.bear("a read", &error),
            }
        }
    }

    pub(crate) async fn inserts(&mut self) {
        let count = if self.random.one_in(4) { 20 } else { 1 };
        let units = self.begin_each("insert", count);
        let ask = |n: &i64| self.client.query_one(INSERT, &[n, &false, &true]);
        let replies: Vec<_> = units.iter().map(|unit| ask(&unit.numbers.start)).collect();
        for (unit, reply) in units.into_iter().zip(replies) {
            self.take(unit, reply).await;
        }
    }

    pub(crate) async fn refused(&mut self) {
        let unit = self.begin("insert that is refused", 1);
        let reply = self.client.query_one(INSERT, &[&unit.numbers.start, &false, &false]);
        self.take(unit, reply).await;
    }

    /// A statement with a short deadline, which sleeps now and then.
    pub(crate) async fn hurried(&mut self) {
        let time = Duration::from_millis(1 + self.random.below(30));
        let hurried = self.client.timeout(time);
        let unit = self.begin("insert with a deadline", 1);
        let n = unit.numbers.start;
        let reply = match self.random.one_in(2) {
            true => hurried.query_one(&slow(), &[&n, &false, &true]),
            false => hurried.query_one(INSERT, &[&n, &false, &true]),
        };
        self.take(unit, reply).await;
    }

    /// A statement whose future is dropped, at once or after it was polled some times.
    pub(crate) async fn dropped(&mut self) {
        let unit = self.begin("insert whose reply is dropped", 1);
        let n = unit.numbers.start;
        let mut reply = self.client.execute(INSERT, &[&n, &false, &true]);
        let early = polled(&mut reply, self.random.below(4)).await;
        drop(reply);
        self.end_as(unit, early.map_or(Claim::Forgotten, |result| Claim::of(&result)));
    }

    /// A statement that is cancelled. A row whose cancellation was reported must not be there.
    pub(crate) async fn cancelled(&mut self) {
        let mut unit = self.begin("insert that is cancelled", 1);
        let n = unit.numbers.start;
        let reply = self.client.query_one(&slow(), &[&n, &false, &true]);
        let canceller = reply.canceller();
        if self.random.one_in(2) {
            tokio::time::sleep(Duration::from_millis(self.random.below(20))).await;
        }
        let cancelled = canceller.cancel().await;
        if cancelled == Cancelled::Yes {
            unit.say(Claim::RolledBack);
        }
        self.take(unit, reply).await;
    }

    /// A statement that takes effect and whose answer can't be read: it returns two rows where one
    /// was asked for.
    pub(crate) async fn unreadable(&mut self) {
        let mut unit = self.begin("insert whose answer can't be read", 2);
        let (first, last) = (unit.numbers.start, unit.numbers.end - 1);
        let result = self.client.query_one(TWO, &[&first, &last]).await;
        unit.claim(&result);
        if result.is_ok() {
            self.ledger.wrong("two rows were read as one".to_owned());
        }
        self.end(unit);
    }

    /// Prepared on the client, used there, on a session and in a transaction.
    pub(crate) async fn prepared(&mut self) {
        if !self.own.setting.knows_names() {
            return self.inserts().await;
        }
        let statement = match self.client.prepare(INSERT).await {
            Ok(statement) => statement,
            Err(error) => return self.bear("a prepare", &error),
        };
        for _ in 0..3 {
            let unit = self.begin("prepared insert", 1);
            let n = unit.numbers.start;
            let reply = self.client.query_one(&statement, &[&n, &false, &true]);
            self.take(unit, reply).await;
        }
        let mut unit = self.begin("prepared insert in a transaction", 1);
        let n = unit.numbers.start;
        let committed = match self.client.begin().await {
            Ok(tx) => tx.commit_with::<Row, _>(&statement, &[&n, &false, &true]).await,
            Err(error) => Err(error),
        };
        unit.claim(&committed);
        committed.iter().for_each(|row| self.hold("a transaction", n, row));
        self.end(unit);
    }
}

/// The insert, and a sleep of some milliseconds.
fn slow() -> String {
    INSERT.replace("$3::bool,", "$3::bool and pg_sleep(0.01) is not null,")
}
