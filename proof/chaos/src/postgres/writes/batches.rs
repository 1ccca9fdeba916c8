//! Batches: atomic and isolated ones.

use super::{INSERT, PostgresWriter};
use crate::ledger::{Begun, Claim};

impl PostgresWriter {
    /// All rows or none. Now and then one row is refused, and all others with it.
    pub(crate) async fn atomic_batch(&mut self) {
        let rows = self.some(2..32);
        let mut unit = self.begin("atomic batch", rows);
        let refused = self.refused(&unit);
        let rows = unit.numbers.clone().map(|n| (n, Some(n) != refused));
        let batch = self.client.batch(INSERT, rows).atomic();
        if self.random.one_in(10) {
            // By now a batch this short has been sent with its sync point, or waits for a
            // connection.
            drop(batch);
            return self.end_as(unit, Claim::Forgotten);
        }
        let result = batch.await;
        match &result {
            Ok(_) => unit.say(Claim::Acknowledged),
            Err(error) => unit.claim::<()>(&Err(error.error().clone())),
        }
        let count = unit.numbers.clone().count() as u64;
        self.expect(&unit, result.ok().map(|affected| affected.total()), count);
        self.end(unit);
    }

    /// Each row by itself.
    pub(crate) async fn isolated_batch(&mut self) {
        let count = self.some(2..12);
        let mut units = self.begin_each("row of an isolated batch", count);
        let refused = self.refused(&units[0]).or_else(|| self.refused(&units[1]));
        let rows =
            units.iter().map(|unit| (unit.numbers.start, Some(unit.numbers.start) != refused));
        let batch = self.client.batch(INSERT, rows.collect::<Vec<_>>()).isolated();
        if self.random.one_in(10) {
            drop(batch);
            return units.into_iter().for_each(|unit| self.end_as(unit, Claim::Forgotten));
        }
        let report = batch.await;
        for error in report.errors() {
            let index = error.index().expect("an error in a report has the number of its row");
            units[index as usize].claim::<()>(&Err(error.error().clone()));
        }
        let failed: Vec<_> = report.errors().iter().filter_map(|error| error.index()).collect();
        let taken = report.affected().len();
        for (index, mut unit) in units.into_iter().enumerate() {
            let index = index as u64;
            match failed.contains(&index) {
                true => {}
                false if index < taken => unit.say(Claim::Acknowledged),
                // The batch never took it from the iterator.
                false => unit.say(Claim::NotSent),
            }
            self.end(unit);
        }
    }

    /// The row of a unit that the server will refuse, if any.
    fn refused(&mut self, unit: &Begun) -> Option<i64> {
        self.random.one_in(8).then_some(unit.numbers.end - 1)
    }
}
