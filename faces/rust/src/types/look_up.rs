//! Looking types up by itself: a reply whose columns are of types that are not known yet waits
//! until the server has described them.
//!
//! The question goes over the connection that the reply came from: another one might not be free
//! before this caller goes on. Where a pipeline that is not finished alone may send there, the
//! question goes between its statements, since its owner may be the one that waits here.

use std::task::{Context, Poll, Waker};

use onetrip_engine::{Request, SyncPoint, Ticket, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::types::catalog::{expect, question};
use onetrip_postgres::client::types::look_up::{Tries, Wait, found};
use onetrip_postgres::client::types::resolve::resolve;

use super::TypeCache;
use super::introspection::is_built_in;
use super::learning::descriptions;
use crate::Error;
use crate::core::Core;
use crate::reply::{FromReply, MALFORMED};
use crate::rows::Rows;

impl Core {
    /// Resolves when nothing more is to be expected of these types, or the deadline of whoever
    /// waits for them has come: see what is known then.
    pub(crate) fn poll_types(
        &mut self,
        now: Time,
        missing: &[u32],
        tries: &mut Tries,
        deadline: Time,
        cx: &Context<'_>,
    ) -> Poll<()> {
        let waker = cx.waker();
        match self.look_ups.wait(missing, tries, deadline, waker, Waker::will_wake) {
            Wait::Shared => return Poll::Pending,
            Wait::Over => return Poll::Ready(()),
            Wait::Ask => {}
        }
        let Some(sent) = self.ask_for_types(now, missing, deadline) else {
            return Poll::Ready(());
        };
        self.look_ups.asked(sent, missing, deadline, waker.clone());
        Poll::Pending
    }

    fn ask_for_types(
        &mut self,
        now: Time,
        oids: &[u32],
        deadline: Time,
    ) -> Option<(Token, Option<Ticket>)> {
        let token = self.replies.add();
        let request = Request { deadline, ..Request::isolated(token, expect()) };
        let sent = if self.pipelines.is_sender_open() {
            self.submit_between(now, request, oids).map(|_| None)
        } else {
            let sent = question(oids, true)
                .is_ok_and(|bytes| self.submit_one(now, request, &bytes, false).is_ok());
            sent.then(|| self.replies.entry(token).and_then(|entry| entry.ticket))
        };
        if sent.is_none() {
            self.replies.remove(token);
        }
        Some((token, sent?))
    }

    /// Puts a request between those of the pipeline that alone may send: inside the segment that is
    /// open on the wire, or in front of the next one. Not where the window is closed, since what
    /// opens it may be the reading of replies by the one who waits.
    fn submit_between(
        &mut self,
        now: Time,
        request: Request<Expect>,
        oids: &[u32],
    ) -> Option<Ticket> {
        let (group, mid_segment) =
            self.pipelines.sender_group().filter(|_| self.engine.group_has_room())?;
        let sync = if mid_segment { SyncPoint::Member } else { SyncPoint::Own };
        let bytes = question(oids, !mid_segment).ok()?;
        let request = Request { group: Some(group), sync, ..request };
        let was_idle = self.engine.in_flight() == 0 && self.engine.transmit().is_empty();
        let ticket = self.engine.submit(now, request, |out| {
            out.extend_from_slice(&bytes);
            Ok::<(), std::convert::Infallible>(())
        });
        self.engine.flush(now, group);
        self.wrote(now, was_idle);
        ticket.ok()
    }

    /// A pipeline was granted the right to send: questions that are still queued would wait for its
    /// owner.
    pub(crate) fn take_look_ups_back(&mut self, now: Time) {
        for ticket in self.look_ups.queued() {
            self.engine.cancel(now, ticket);
        }
    }

    /// A request ended: if it was such a question, learns from the answer.
    pub(crate) fn look_up_ended(&mut self, now: Time, token: Token) {
        let Some(waiting) = self.look_ups.ended(token) else { return };
        let taken = self.replies.take(token);
        if let Some((group, _)) = self.pipelines.sender_group() {
            self.engine.handle_consumed(now, group, taken.blocks.len());
        }
        if taken.result.is_ok() {
            match Rows::read(None, taken.blocks, false) {
                // What can't be read is not learned.
                Ok(rows) => _ = self.types.learn_found(&rows),
                Err(_) => self.engine.handle_violation(MALFORMED),
            }
        }
        self.wakers.extend(waiting);
    }

    /// Wakes those who have waited for types long enough.
    pub(crate) fn expire_look_ups(&mut self, now: Time) {
        self.wakers.extend(self.look_ups.expire(now));
    }
}

impl TypeCache {
    /// Learns what the server knows.
    fn learn_found(&self, rows: &Rows) -> Result<(), Error> {
        self.remember(&found(resolve(descriptions(rows)?, is_built_in)));
        Ok(())
    }
}
