//! Looking types up by itself: a reply whose columns are of types that are not known yet waits
//! until the server has described them.
//!
//! The question goes over the connection that the reply came from: another one might not be free
//! before this caller goes on. Where a pipeline that is not finished alone may send there, the
//! question goes between its statements, since its owner may be the one that waits here. The answer
//! is read by the connection, and not by a caller that may stop polling; so all who wait for the
//! same types on one connection share a question, and none waits for another caller.

use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use onetrip_engine::{Request, SyncPoint, Ticket, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::message::{Describe, Formats, SYNC, Target, bind, execute, parse};
use postgres_types::{ToSql, Type};

use super::TypeCache;
use super::introspection::INTROSPECTION_SQL;
use crate::Error;
use crate::core::Core;
use crate::params::BindError;
use crate::reply::{FromReply, MALFORMED};
use crate::rows::Rows;

/// A question for types that is on its way.
#[derive(Debug)]
pub(crate) struct LookUp {
    token: Token,
    oids: Vec<u32>,
    /// Who waits for the answer, and until when.
    waiting: Vec<(Time, Waker)>,
    /// How to take it back while it is queued.
    ticket: Option<Ticket>,
}

/// A question may have to be put again, behind a pipeline that got the right to send first. Each
/// time it is nearer to the front, and without an answer the types stay known by number.
const TRIES_MAX: u8 = 4;

impl Core {
    /// Resolves when nothing more is to be expected of these types, or the deadline of whoever
    /// waits for them has come: see what is known then.
    pub(crate) fn poll_types(
        &mut self,
        now: Time,
        missing: &[u32],
        tries: &mut u8,
        deadline: Time,
        cx: &Context<'_>,
    ) -> Poll<()> {
        let mut asked = self.look_ups.iter_mut();
        if let Some(other) = asked.find(|it| it.oids.iter().any(|oid| missing.contains(oid))) {
            // One task may wait for several replies, and is woken for the first that is late.
            match other.waiting.iter_mut().find(|(_, waker)| waker.will_wake(cx.waker())) {
                Some((first, _)) => *first = deadline.min(*first),
                None => other.waiting.push((deadline, cx.waker().clone())),
            }
            return Poll::Pending;
        }
        if *tries == TRIES_MAX || missing.is_empty() {
            return Poll::Ready(());
        }
        *tries += 1;
        match self.ask_for_types(now, missing, deadline) {
            Some((token, ticket)) => {
                let (oids, waiting) = (missing.to_vec(), vec![(deadline, cx.waker().clone())]);
                self.look_ups.push(LookUp { token, oids, waiting, ticket });
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }

    fn ask_for_types(
        &mut self,
        now: Time,
        oids: &[u32],
        deadline: Time,
    ) -> Option<(Token, Option<Ticket>)> {
        let mut bytes = question(oids).ok()?;
        let expect = Expect::sync().parse().bind().describe_portal().execute().leaves_nothing();
        let token = self.replies.add();
        let request = Request { deadline, ..Request::isolated(token, expect) };
        if self.pipelines.is_sender_open() {
            let ticket = self.submit_between(now, request, bytes);
            if ticket.is_none() {
                self.replies.remove(token);
            }
            return ticket.map(|_| (token, None));
        }
        bytes.extend_from_slice(&SYNC);
        if self.submit_one(now, request, &bytes, false).is_err() {
            self.replies.remove(token);
            return None;
        }
        Some((token, self.replies.entry(token).and_then(|entry| entry.ticket)))
    }

    /// Puts a request between those of the pipeline that alone may send: inside the segment that is
    /// open on the wire, or in front of the next one. Not where the window is closed, since what
    /// opens it may be the reading of replies by the one who waits.
    fn submit_between(
        &mut self,
        now: Time,
        request: Request<Expect>,
        mut bytes: BytesMut,
    ) -> Option<Ticket> {
        let (group, mid_segment) =
            self.pipelines.sender_group().filter(|_| self.engine.group_has_room())?;
        let sync = if mid_segment { SyncPoint::Member } else { SyncPoint::Own };
        if !mid_segment {
            bytes.extend_from_slice(&SYNC);
        }
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
        let tickets: Vec<Ticket> = self.look_ups.iter().filter_map(|it| it.ticket).collect();
        for ticket in tickets {
            self.engine.cancel(now, ticket);
        }
    }

    /// A request ended: if it was such a question, learns from the answer.
    pub(crate) fn look_up_ended(&mut self, now: Time, token: Token) {
        let Some(place) = self.look_ups.iter().position(|it| it.token == token) else { return };
        let look_up = self.look_ups.swap_remove(place);
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
        self.wakers.extend(look_up.waiting.into_iter().map(|(_, waker)| waker));
    }

    /// When the first of those who wait for types is late. The question itself may have a later
    /// deadline, which is that of whoever put it.
    pub(crate) fn look_up_deadline(&self) -> Time {
        let waiting = self.look_ups.iter().flat_map(|look_up| &look_up.waiting);
        waiting.map(|(deadline, _)| *deadline).min().unwrap_or(Time::NEVER)
    }

    /// Wakes those who have waited for types long enough.
    pub(crate) fn expire_look_ups(&mut self, now: Time) {
        for look_up in &mut self.look_ups {
            let late = look_up.waiting.extract_if(.., |(deadline, _)| *deadline <= now);
            self.wakers.extend(late.map(|(_, waker)| waker));
        }
    }
}

/// The statement that asks for types, without its Sync.
fn question(oids: &[u32]) -> Result<BytesMut, Error> {
    let mut out = BytesMut::new();
    let encoded = || {
        parse::write(&mut out, "", INTROSPECTION_SQL, &[Type::OID_ARRAY.oid()])?;
        let value = |_: usize, out: &mut BytesMut| {
            // Numbers of four bytes: nothing about them can't be encoded.
            let _ = oids.to_sql(&Type::OID_ARRAY, out);
            Ok::<_, BindError>(bind::IsNull::No)
        };
        bind::write(&mut out, "", "", Formats::AllBinary, 1, value, Formats::AllBinary)?;
        Describe { target: Target::Portal("") }.encode(&mut out)?;
        Ok::<(), BindError>(())
    };
    let mut encoded = encoded;
    encoded().map_err(Error::from)?;
    out.extend_from_slice(&execute::UNNAMED_ALL);
    Ok(out)
}

impl TypeCache {
    /// Learns what the server knows. A number that it does not know may be that of a type which
    /// this transaction can't see, so it is not remembered as none.
    fn learn_found(&self, rows: &Rows) -> Result<(), Error> {
        let mut learned = super::introspection::resolve(&super::introspection::descriptions(rows)?);
        learned.retain(|it| it.type_ != crate::oids::type_of(it.type_.oid()));
        self.remember(learned);
        Ok(())
    }
}
