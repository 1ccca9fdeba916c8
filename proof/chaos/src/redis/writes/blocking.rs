//! Commands that block, on connections of their own.

use super::RedisWriter;
use crate::ledger::Claim;
use crate::redis::keys::{feed, rows};

impl RedisWriter {
    /// A number is moved to the rows as soon as it is there to be moved.
    pub(crate) async fn blocking(&mut self) {
        let (tag, mut unit) = (self.tag(), self.begin("blocking move", 1));
        let n = unit.numbers.start;
        let (from, to) = (feed(tag, n), rows(tag));
        let command = self.client.cmd("BLMOVE").args([&from, &to]).args(["LEFT", "RIGHT"]);
        let moved = command.arg(TIMEOUT_SECONDS).send::<Option<i64>>();
        if self.client.cmd("RPUSH").arg(&from).arg(n).send::<i64>().await.is_err() {
            // It may wait for nothing.
            drop(moved);
            return self.end_as(unit, Claim::Forgotten);
        }
        match moved.await {
            Ok(None) => unit.say(Claim::RolledBack),
            result => {
                unit.claim(&result);
                self.expect(&unit, result.ok().flatten(), n);
            }
        }
        self.end(unit);
    }
}

/// The server gives up then, and nothing is moved.
const TIMEOUT_SECONDS: u32 = 5;
