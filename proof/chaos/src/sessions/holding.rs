//! Checks of a reply: which request it answers, and what its statement saw.

use onetrip::{Error, Reply, Row};

use super::SessionsWriter;
use crate::ledger::Begun;

impl SessionsWriter {
    /// Checks a reply's number, and that its statement saw a session without state.
    pub(crate) fn hold(&self, what: &str, number: i64, row: &Row) {
        let (got, seen): (i64, &str) = (row.get(0), row.get(1));
        if got != number {
            self.ledger.wrong(format!("{what} of task {} got {got} for {number}", self.task));
        }
        if *seen != *self.own.clean {
            self.ledger.wrong(format!("{what} of task {} saw {seen}", self.task));
        }
    }

    /// Checks the number alone: the session has an owner and may have state.
    pub(crate) fn hold_number(&self, what: &str, number: i64, row: &Row) {
        let got: i64 = row.get(0);
        if got != number {
            self.ledger.wrong(format!("{what} of task {} got {got} for {number}", self.task));
        }
    }

    /// Takes the reply of an insert on a shared connection or a new one.
    pub(crate) async fn take(&self, mut unit: Begun, reply: Reply<Row>) {
        let result = reply.await;
        unit.claim(&result);
        result.iter().for_each(|row| self.hold("an insert", unit.numbers.start, row));
        self.end(unit);
    }

    /// Checks why a read failed: without faults, only because its turn never came or its deadline
    /// passed.
    pub(crate) fn bear(&self, what: &str, error: &Error) {
        let is_usual = ["wait_timeout", "timeout"].contains(&error.code());
        if !self.own.setting.faults && !is_usual {
            self.ledger.wrong(format!("{what} of task {} failed: {error:?}", self.task));
        }
    }

    /// The next number for a read.
    pub(crate) fn number(&mut self) -> i64 {
        self.own.looked += 1;
        (i64::from(self.task) << 32) + self.own.looked
    }
}
