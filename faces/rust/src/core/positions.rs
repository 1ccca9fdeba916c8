//! The positions of what was written on a connection, and the guards in front of reads on it.

use onetrip_engine::{Request, SyncPoint, Time};
use onetrip_postgres::Expect;
use onetrip_postgres::client::replicas::Guarded;

use super::Core;
use crate::Error;
use crate::executor::write_texts;
use crate::guard::Guard;
use crate::statements::Scope;
use bytes::BytesMut;
use onetrip_engine::Token;

impl Core {
    /// Tells the client what has become known of positions, before any caller is told of a reply;
    /// and asks what could not be asked in the flight itself.
    pub(super) fn settle_positions(&mut self, now: Time) {
        while let Some((guard, guarded)) = self.replies.guards.pop() {
            let is_news = match guarded {
                Guarded::Passed(replayed) => {
                    let is_direct = self.engine.protocol().is_direct();
                    self.proof.handle_passed(&guard.position, replayed, is_direct)
                }
                Guarded::Behind(_) | Guarded::Failed => true,
            };
            if is_news {
                guard.ended(self.context.now(), guarded);
            }
        }
        let Some(newest) = self.context.newest.clone() else { return };
        if self.engine.is_idle() && !self.pipelines.any_work() {
            let before = self.engine.in_flight();
            self.engine.end_flight(now);
            if self.engine.in_flight() != before {
                self.notify();
            }
        }
        let protocol = self.engine.protocol_mut();
        let (position, is_uncertain) = (protocol.take_position(), protocol.is_uncertain());
        let is_closed = self.engine.is_closed();
        let is_lost = is_closed && is_uncertain;
        if position.is_none() && is_uncertain == self.is_uncertain && !is_lost {
            return;
        }
        let mut newest = newest.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((position, losses)) = position {
            newest.handle_position(position, losses);
        }
        // An end is told once.
        if is_lost && !self.is_lost_told {
            self.is_lost_told = true;
            if !self.is_uncertain {
                newest.handle_uncertain(true);
            }
            newest.handle_lost();
            self.is_uncertain = false;
        } else if !is_closed && is_uncertain != self.is_uncertain {
            newest.handle_uncertain(is_uncertain);
            self.is_uncertain = is_uncertain;
        } else if is_closed && self.is_uncertain && !is_uncertain {
            newest.handle_uncertain(false);
            self.is_uncertain = false;
        }
        self.engine.protocol_mut().mark_positions(newest.losses());
    }

    /// Writes the guard in front of a read. Returns its request, whose end is told to the guard.
    pub(crate) fn write_guard(
        &mut self,
        guard: &Guard,
        out: &mut BytesMut,
    ) -> Result<(Request<Expect>, usize), Error> {
        let start = out.len();
        let (text, texts) = self.proof.guard(&guard.position);
        let bound = guard.statement(text);
        let mut values = BytesMut::new();
        write_texts(&mut values, &bound.metadata, &texts)?;
        let expect = Expect::sync().bind().execute();
        let (expect, statement) = self.assemble(expect, &bound, &values, Scope::Fixed, out)?;
        let token: Token = self.replies.add();
        if let Some(entry) = self.replies.entry(token) {
            (entry.statement, entry.guard) = (statement, Some(guard.clone()));
        }
        let request = Request::isolated(token, expect);
        // The read behind it depends on it.
        let request = Request { sync: SyncPoint::Member, pinned: true, ..request };
        Ok((request, out.len() - start))
    }
}
