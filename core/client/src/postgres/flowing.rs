//! COPY, and replies that the host takes as they arrive.

use bytes::{Bytes, BytesMut};
use onetrip_engine::{End, Failure, Feed, Ticket, Time, Token};
use onetrip_postgres::client::copy::{self, Direction, NoRoom};
use onetrip_postgres::client::stream::{self, Rest};

use super::flow::{Copying, Part};
use super::request::Submission;
use super::submitting::enter;
use super::{Postgres, Refused};
use crate::completion::{Completions, close, kind};

impl Postgres {
    /// Submits a COPY FROM STDIN. The first of its data is in the place of parameters.
    pub(super) fn send_copy(
        &mut self,
        now: Time,
        token: u32,
        submission: &Submission<'_>,
    ) -> Result<Ticket, Refused> {
        let traits = self.statements.traits(submission.text);
        // The server would not skip its data if a BEGIN that is held failed.
        let waits = self.pending_begin.is_some() || !self.delayed.is_empty();
        if !Direction::In.is_of(traits) || waits {
            return Err(Refused::Malformed);
        }
        let expect = Direction::In.expect().of_traits(traits).into();
        let request = stream::request(Token(token.into()), expect, Feed::Messages, false);
        let write = &mut |out: &mut BytesMut| submission.write_copy(out);
        let ticket = enter(&mut self.engine, now, request, submission.size_max(0), write)?;
        self.flow.copying.push(Copying { token, ticket, data_ended: false, waits: false });
        self.begin(token, None, None, false, false);
        Ok(ticket)
    }

    /// Hands over more data of a COPY. False if it is not accepted now: `FEED` says when it will
    /// be, unless the COPY ends first. Refused if there is no memory for it.
    pub(crate) fn feed(
        &mut self,
        now: Time,
        token: u32,
        part: Part<'_>,
        to: &mut Completions,
    ) -> Result<bool, Refused> {
        let Some(copying) = self.flow.copying.iter_mut().find(|it| it.token == token) else {
            return Ok(false);
        };
        let (engine, id) = (&mut self.engine, Token(token.into()));
        let taken = match part {
            Part::Data(data) => {
                copy::feed(engine, now, id, data).map_err(|NoRoom| Refused::NoMemory)?
            }
            Part::Done => copy::finish(engine, now, id),
            Part::Failed(reason) => {
                copy::fail(engine, now, id, Some(copying.ticket), reason);
                true
            }
        };
        copying.data_ended |= taken && matches!(part, Part::Done);
        copying.waits = !taken;
        self.settle(to);
        Ok(taken)
    }

    /// The host has consumed `bytes` bytes of a stream.
    pub(crate) fn taken(&mut self, bytes: usize, to: &mut Completions) {
        self.engine.handle_taken(bytes);
        self.settle(to);
    }

    /// The host stops taking a stream.
    pub(crate) fn leave(&mut self, now: Time, token: u32, rest: Rest, to: &mut Completions) {
        if self.uses.get(token as usize).is_some_and(|used| used.metered) {
            self.flow.left.push((token, rest));
            self.engine.handle_taken(self.engine.untaken_bytes());
            let status = self.engine.protocol().status();
            rest.begin(&mut self.engine, now, Token(token.into()), status);
        }
        self.settle(to);
    }

    /// Whether this part of a reply belongs to a stream that was left. Its bytes are then counted
    /// and dropped.
    pub(super) fn is_left(&mut self, token: Token, bytes: usize, to: &mut Completions) -> bool {
        let of_it = |it: &&mut (u32, Rest)| u64::from(it.0) == token.0;
        let Some((_, rest)) = self.flow.left.iter_mut().find(of_it) else { return false };
        let closes = rest.came(bytes);
        self.engine.handle_taken(bytes);
        if closes {
            self.flow.left.clear();
            let why =
                Bytes::from_static(b"a caller stopped taking a stream with too much of it unread");
            self.end(close::UNUSABLE, why, to);
        }
        true
    }

    /// A request has ended. Returns the end that the host is told.
    pub(super) fn flow_ended(&mut self, token: u32, end: End) -> End {
        if self.uses.get(token as usize).is_some_and(|used| used.metered) {
            // Another caller may use the connection from now on.
            self.engine.handle_taken(self.engine.untaken_bytes());
            self.flow.left.retain(|(left, _)| *left != token);
        }
        let at = self.flow.copying.iter().position(|it| it.token == token);
        let copying = at.map(|at| self.flow.copying.remove(at));
        match (end, copying) {
            (End::Failed(Failure { outcome, cause }), Some(Copying { data_ended, .. })) => {
                End::Failed(Failure { outcome: copy::outcome(outcome, data_ended), cause })
            }
            _ => end,
        }
    }

    /// Tells the host which COPY accepts data again, and whether to read.
    pub(super) fn tell_flow(&mut self, to: &mut Completions) {
        let engine = &self.engine;
        for copying in self.flow.copying.iter_mut().filter(|it| it.waits) {
            if !engine.can_feed(Token(copying.token.into())) {
                continue;
            }
            copying.waits = false;
            to.push(kind::FEED, copying.token, (0, 0), Bytes::new());
        }
        let reads = self.engine.wants_bytes();
        if reads != self.flow.reads {
            self.flow.reads = reads;
            to.push(kind::READ, 0, (reads.into(), 0), Bytes::new());
        }
    }
}
