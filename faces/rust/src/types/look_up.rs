//! Looks types up automatically: a reply whose columns have unknown types waits until the server
//! has described the types.
//!
//! The query goes over the connection of the reply: another one might not be free before this
//! caller goes on. If an unfinished pipeline has the exclusive right to send there, the query goes
//! between its statements, since the pipeline's owner may be the caller that waits here.

use std::task::{Context, Poll, Waker};

use onetrip_engine::{Request, SyncPoint, Ticket, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::types::catalog::{expect, question};
use onetrip_postgres::client::types::look_up::{Tries, Unanswered, Wait, found, unanswered};
use onetrip_postgres::client::types::resolve::resolve;

use super::TypeCache;
use super::introspection::is_built_in;
use super::learning::descriptions;
use crate::Error;
use crate::core::Core;
use crate::reply::{FromReply, MALFORMED};
use crate::rows::Rows;

impl Core {
    /// Resolves when no more answers are expected for these types, or when the caller's deadline
    /// has passed. Then look at what is known.
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

    /// Submits a query between the requests of the pipeline with the exclusive right to send: in
    /// the open segment, or in front of the next one. Not if the window is closed, since it may
    /// open only once the waiting caller has read replies.
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

    /// A pipeline got the exclusive right to send: takes back queries that are still queued, since
    /// they would wait for the pipeline's owner.
    pub(crate) fn take_look_ups_back(&mut self, now: Time) {
        for ticket in self.look_ups.queued() {
            self.engine.cancel(now, ticket);
        }
    }

    /// A request ended: if it was a query for types, learns from the answer.
    pub(crate) fn look_up_ended(&mut self, now: Time, token: Token) {
        if !self.look_ups.has(token) {
            return;
        }
        let taken = self.replies.take(token);
        if let Some((group, _)) = self.pipelines.sender_group() {
            self.engine.handle_consumed(now, group, taken.blocks.len());
        }
        match taken.result {
            Ok(_) => match Rows::read(None, taken.blocks, false) {
                // Rows that can't be read teach nothing.
                Ok(rows) => _ = self.types.learn_found(&rows),
                Err(_) => self.engine.handle_violation(MALFORMED),
            },
            // The others may end by what is their caller's or their connection's own.
            Err(error) if error.sqlstate().is_some() => {
                if unanswered(error.sqlstate()) == Unanswered::Lost {
                    self.look_ups.failed(token, error);
                }
            }
            Err(_) => {}
        }
        self.wakers.extend(self.look_ups.ended(token).into_iter().flatten());
    }

    /// Wakes callers whose deadline for the types has passed.
    pub(crate) fn expire_look_ups(&mut self, now: Time) {
        self.wakers.extend(self.look_ups.expire(now));
    }
}

impl TypeCache {
    /// Learns the types in the rows.
    fn learn_found(&self, rows: &Rows) -> Result<(), Error> {
        self.remember(&found(resolve(descriptions(rows)?, is_built_in)));
        Ok(())
    }
}
