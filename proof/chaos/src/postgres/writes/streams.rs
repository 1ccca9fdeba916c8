//! COPY, and transactions that are run by a function.

use onetrip::Error;

use super::{INSERT, PostgresWriter};
use crate::ledger::{Begun, Claim};

impl PostgresWriter {
    /// One COPY: finished, aborted or just dropped. Now and then one row is refused, and all others
    /// with it.
    pub(crate) async fn copy(&mut self) {
        let rows = self.some(2..32);
        let mut unit = self.begin("COPY", rows);
        let undone = self.random.one_in(6);
        let copied = self.copied(&unit, undone).await;
        match copied {
            Ok(None) => unit.say(Claim::RolledBack),
            Ok(Some(count)) => {
                unit.say(Claim::Acknowledged);
                self.expect(&unit, Some(count), rows as u64);
            }
            Err(error) => unit.claim::<()>(&Err(error)),
        }
        self.end(unit);
    }

    /// How many rows were copied; none if the COPY was undone.
    async fn copied(&mut self, unit: &Begun, undone: bool) -> Result<Option<u64>, Error> {
        let refused = self.random.one_in(8).then_some(unit.numbers.start);
        let flushes = self.random.one_in(2);
        let mut copy = self.client.copy_in("copy written (n, fine) from stdin").await?;
        for n in unit.numbers.clone() {
            let fine = if Some(n) == refused { "f" } else { "t" };
            copy.send(format!("{n}\t{fine}\n")).await?;
        }
        if flushes {
            copy.flush().await?;
        }
        match (undone, self.random.one_in(2)) {
            (false, _) => return copy.finish().await.map(Some),
            (true, true) => drop(copy.abort("its writer thinks better of it").await),
            (true, false) => drop(copy),
        }
        Ok(None)
    }

    /// A transaction as a function, which is run again after a conflict.
    pub(crate) async fn run(&mut self) {
        let rows = self.some(1..5);
        let mut unit = self.begin("transaction that is run", rows);
        let numbers = unit.numbers.clone();
        let refused = self.random.one_in(8).then_some(numbers.start);
        let client = self.client.clone();
        let result = client.run(async move |tx| {
            for n in numbers.start..numbers.end {
                tx.execute(INSERT, &[&n, &(Some(n) != refused)]).await?;
            }
            Ok::<_, Error>(())
        });
        unit.claim(&result.await);
        self.end(unit);
    }
}
