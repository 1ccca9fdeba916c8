//! Statements that stand alone: shared, prepared, late, forgotten, rejected, and those of a
//! session.

use std::time::Duration;

use onetrip::{Error, Reply, Row};

use super::{INSERT, INSERT_RETURNING, PostgresWriter};
use crate::ledger::{Begun, Claim};
use crate::writer::polled;

impl PostgresWriter {
    /// Several statements at once, each of which returns its own number.
    pub(crate) async fn singles(&mut self) {
        let count = self.some(1..6);
        let units: Vec<(Begun, Reply<Row>)> = (0..count)
            .map(|_| {
                let unit = self.begin("single", 1);
                let reply = self.client.query_one(INSERT_RETURNING, &[&unit.numbers.start, &true]);
                (unit, reply)
            })
            .collect();
        for (unit, reply) in units {
            self.take_row(unit, reply).await;
        }
    }

    pub(crate) async fn rejected_single(&mut self) {
        let mut unit = self.begin("single that is refused", 1);
        let result = self.client.execute(INSERT, &[&unit.numbers.start, &false]).await;
        unit.claim(&result);
        self.end(unit);
    }

    pub(crate) async fn prepared_single(&mut self) {
        let statement = match self.own.clone() {
            Some(statement) => statement,
            None => {
                let unit = self.begin("preparing", 0);
                let prepared = self.client.prepare(INSERT_RETURNING).await;
                self.end_as(unit, Claim::Forgotten);
                let Ok(statement) = prepared else { return };
                self.own.insert(statement).clone()
            }
        };
        let unit = self.begin("prepared single", 1);
        let reply = self.client.query_one(&statement, &[&unit.numbers.start, &true]);
        self.take_row(unit, reply).await;
        if self.random.one_in(8) {
            self.own = None;
        }
    }

    /// One statement with a short deadline.
    pub(crate) async fn hurried_single(&mut self) {
        let time = Duration::from_millis(1 + self.random.below(60));
        let unit = self.begin("single with a deadline", 1);
        let reply =
            self.client.timeout(time).query_one(INSERT_RETURNING, &[&unit.numbers.start, &true]);
        self.take_row(unit, reply).await;
    }

    /// One statement whose reply is dropped, at once or after it was polled some times.
    pub(crate) async fn forgotten_single(&mut self) {
        let unit = self.begin("single whose reply is dropped", 1);
        let mut reply = self.client.execute(INSERT, &[&unit.numbers.start, &true]);
        let early = polled(&mut reply, self.random.below(3)).await;
        drop(reply);
        self.end_as(unit, early.map_or(Claim::Forgotten, |result| Claim::of(&result)));
    }

    /// Statements on a connection of their own, sent without waiting for the replies in between.
    pub(crate) async fn session(&mut self) {
        let count = self.some(1..5);
        let mut units = self.begin_each("statement of a session", count);
        let session = match self.client.session().await {
            Ok(session) => session,
            Err(error) => {
                units.iter_mut().for_each(|unit| unit.claim::<()>(&Err(error.clone())));
                return units.into_iter().for_each(|unit| self.end(unit));
            }
        };
        let replies: Vec<_> = units
            .iter()
            .map(|unit| session.query_one(INSERT_RETURNING, &[&unit.numbers.start, &true]))
            .collect();
        if self.random.one_in(4) {
            // The statements already submitted still run.
            drop(session);
        }
        for (unit, reply) in units.into_iter().zip(replies) {
            self.take_row(unit, reply).await;
        }
    }

    async fn take_row(&self, mut unit: Begun, reply: Reply<Row>) {
        let result: Result<Row, Error> = reply.await;
        unit.claim(&result);
        let got = result.ok().map(|row| row.get::<i64>(0));
        self.expect(&unit, got, unit.numbers.start);
        self.end(unit);
    }
}
