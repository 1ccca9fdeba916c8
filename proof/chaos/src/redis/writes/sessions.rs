//! Sessions: several commands on one connection, and transactions that run unless a key has
//! changed.

use onetrip::Error;
use onetrip::redis::{Running, Sends, Session};

use super::RedisWriter;
use crate::ledger::{Begun, Claim};
use crate::redis::keys::{put, written};

impl RedisWriter {
    /// Commands sent without waiting for the replies in between.
    pub(crate) async fn session(&mut self) {
        let (tag, count) = (self.tag(), self.some(1..5));
        let units = self.begin_each("command of a session", count);
        let session = match self.client.session_for(written(tag)).await {
            Ok(session) => session,
            Err(error) => return self.refuse(units, &error),
        };
        let put = |unit: &Begun| session.send::<i64>(put(tag, unit.numbers.start));
        let replies: Vec<_> = units.iter().map(put).collect();
        if self.random.one_in(4) {
            // The commands already submitted still run.
            drop(session);
        }
        for (unit, reply) in units.into_iter().zip(replies) {
            self.answered(unit, &reply.await);
        }
    }

    /// A transaction that must not run if a watched key was changed meanwhile, and must run
    /// otherwise.
    pub(crate) async fn watching(&mut self) {
        let (tag, rows) = (self.own.keys.tag_of(self.task), self.some(1..4));
        let mut unit = self.begin("watching", rows);
        let key = self.own.keys.watched(self.task);
        let session = match self.client.session_for(&key).await {
            Ok(session) => session,
            Err(error) => return self.refuse(vec![unit], &error),
        };
        let watches = session.watch([&key]).await;
        if watches.is_err() {
            // Without WATCH the transaction would run whatever happened.
            return self.end_as(unit, Claim::RolledBack);
        }
        let changes = self.random.one_in(3);
        // Moving a hash slot changes its keys, too.
        let may_change = changes || self.own.keys.in_cluster;
        let changed = changes && self.client.cmd("INCR").arg(&key).send::<i64>().await.is_ok();
        if self.random.one_in(4) {
            drop(session.atomic());
            return self.end_as(unit, Claim::RolledBack);
        }
        let result = Self::run(&unit, &session, tag).await;
        unit.claim(&result);
        match result {
            Ok(_) if changed => {
                self.ledger.wrong(format!("a transaction of task {} ran over a change", self.task));
            }
            Err(error) if error.code() == "watched_key_changed" && !may_change => {
                self.ledger.wrong(format!("no key of task {} was changed", self.task));
            }
            _ => {}
        }
        self.end(unit);
    }

    /// A transaction, and WAIT for one replica behind it in the same flight.
    pub(crate) async fn copied(&mut self) {
        let (tag, rows) = (self.tag(), self.some(1..4));
        let mut unit = self.begin("write and WAIT", rows);
        let session = match self.client.session_for(written(tag)).await {
            Ok(session) => session,
            Err(error) => return self.refuse(vec![unit], &error),
        };
        let running = Self::run(&unit, &session, tag);
        let copies = session.wait(1, WAIT_MS);
        let result = running.await;
        match copies.await {
            Ok(1..) if result.is_ok() => unit.say(Claim::Copied),
            _ => unit.claim(&result),
        }
        self.end(unit);
    }

    fn run(unit: &Begun, session: &Session, tag: u64) -> Running {
        let list = session.atomic();
        for n in unit.numbers.clone() {
            let _ = list.send::<i64>(put(tag, n));
        }
        list.run()
    }

    fn refuse(&self, units: Vec<Begun>, error: &Error) {
        for mut unit in units {
            unit.claim::<()>(&Err(error.clone()));
            self.end(unit);
        }
    }
}

/// How long a write waits for its replica, in milliseconds.
const WAIT_MS: u64 = 200;
