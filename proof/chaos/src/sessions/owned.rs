//! Sessions whose owner leaves something in them.

use std::time::Duration;

use onetrip::{Error, Session};

use super::keeping::Kept;
use super::{INSERT, LOOK, SessionsWriter};
use crate::ledger::{Claim, Ledger};
use crate::writer::polled;

impl SessionsWriter {
    /// One session from its beginning to one of its ends.
    pub(crate) async fn owned(&mut self) {
        let Ok(mut session) = self.client.session().await else { return };
        // The first statement may set a state, or look for state that others left.
        if self.random.one_in(3) {
            self.look_around(&session).await;
        }
        let kept = self.keep(&mut session).await;
        if self.random.one_in(2) {
            self.write_own(&session, &kept).await;
        }
        self.leave(session, &kept).await;
    }

    async fn look_around(&mut self, session: &Session) {
        let n = self.number();
        match session.query_one(LOOK, &[&n]).await {
            Ok(row) => self.hold("a session", n, &row),
            Err(error) => self.bear("a session", &error),
        }
    }

    /// An insert by the owner, which goes where its state says.
    async fn write_own(&self, session: &Session, kept: &Kept) {
        match kept {
            Kept::Unknown => {}
            // The table goes with the session, and the row with it.
            Kept::Temporary => {
                let row = session.query_one(INSERT, &[&NOWHERE, &true, &true]).await;
                row.iter().for_each(|row| self.hold_number("a session", NOWHERE, row));
            }
            Kept::Path => self.write_to(session, &self.own.stray, i64::wrapping_neg).await,
            Kept::Other => self.write_to(session, &self.ledger, |n| n).await,
        }
    }

    /// Rows of the other schema have the numbers below those of the first, which begin with -1.
    async fn write_to(&self, session: &Session, ledger: &Ledger, number: fn(i64) -> i64) {
        let mut unit = ledger.begin(self.task, "insert of a session's owner", 1);
        let n = number(unit.numbers.start + i64::from(number(1) < 0));
        let result = session.query_one(INSERT, &[&n, &true, &true]).await;
        unit.claim(&result);
        result.iter().for_each(|row| self.hold_number("a session", n, row));
        ledger.end(unit);
    }

    /// Ends the session in one of the ways that sessions end.
    async fn leave(&mut self, mut session: Session, kept: &Kept) {
        match self.random.below(8) {
            0 => self.leave_at_work(session, kept).await,
            1 => {
                // In a transaction, open or failed.
                let _ = session.execute("begin", &[]).await;
                let failed = self.random.one_in(2);
                if failed {
                    let _ = session.execute("select 1 / 0", &[]).await;
                }
            }
            2 => {
                let result = session.begin().await;
                if let Ok(tx) = result {
                    let _ = tx.execute("select 1", &[]).await;
                }
            }
            3 => {
                let many = "select n from generate_series(1, 1000) as n";
                if let Ok(mut rows) = session.query_stream(many, &[]).await {
                    let _ = rows.try_next().await;
                }
            }
            4 => {
                let hurried = session.timeout(Duration::from_millis(3));
                let _ = hurried.execute("select pg_sleep(0.02)", &[]).await;
            }
            5 => {
                let mut reply = session.execute("select pg_sleep(0.005)", &[]);
                let _ = polled(&mut reply, 1).await;
            }
            _ => {}
        }
    }

    /// Drops the session while statements are under way: those submitted still run, in its state.
    async fn leave_at_work(&mut self, session: Session, kept: &Kept) {
        if *kept != Kept::Other {
            let replies = [1, 2, 3].map(|_| session.execute("select 1", &[]));
            drop(session);
            return drop(replies);
        }
        let units = self.begin_each("insert in flight as its session is left", 3);
        let ask = |n: &i64| session.query_one(INSERT, &[n, &true, &true]);
        let replies: Vec<_> = units.iter().map(|unit| ask(&unit.numbers.start)).collect();
        drop(session);
        for (mut unit, reply) in units.into_iter().zip(replies) {
            let result: Result<_, Error> = reply.await;
            unit.claim(&result);
            let n = unit.numbers.start;
            result.iter().for_each(|row| self.hold_number("a session", n, row));
            if self.random.one_in(100) {
                unit.say(Claim::of(&result));
            }
            self.end(unit);
        }
    }
}

/// A row that is only ever meant for a temporary table.
const NOWHERE: i64 = -(1 << 40);
