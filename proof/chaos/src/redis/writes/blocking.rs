//! Commands that block, on connections of their own.

use super::RedisWriter;
use crate::ledger::Claim;
use crate::redis::keys::{feed, rows};

impl RedisWriter {
    /// A blocking command moves a number to the rows as soon as the number has been pushed.
    pub(crate) async fn blocking(&mut self) {
        let (tag, mut unit) = (self.tag(), self.begin("blocking move", 1));
        let n = unit.numbers.start;
        let (from, to) = (feed(tag, n), rows(tag));
        let command = self.client.cmd("BLMOVE").args([&from, &to]).args(["LEFT", "RIGHT"]);
        let moved = command.arg(TIMEOUT_SECONDS).send::<Option<i64>>();
        if self.client.cmd("RPUSH").arg(&from).arg(n).send::<i64>().await.is_err() {
            // Nothing may be pushed for it.
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

/// After this time the server answers without having moved anything.
const TIMEOUT_SECONDS: u32 = 5;
