//! The position in the log of what was written on a connection, and the guards in front of reads on
//! a replica: how they are asked for, and told to the host.

use bytes::{Bytes, BytesMut};
use onetrip_engine::pool::TextKey;
use onetrip_engine::{End, Request, SyncPoint, Ticket, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::position::Position;
use onetrip_postgres::client::replicas::Guarded;
use onetrip_postgres::client::statements::{Seen, fault_of};
use onetrip_postgres::client::transaction::pending::Treatment;
use onetrip_postgres::message::error_response::field;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{DataRow, ErrorResponse, Header};

use super::positions::{GUARDS, Guard};
use super::request::{Submission, Types};
use super::submitting::{BEHIND_GUARD, enter};
use super::{Postgres, Refused};
use crate::completion::{Completions, kind, uncertain};
use crate::flag;

impl Postgres {
    /// Tells the host what has become known of positions, in front of the ends of requests that it
    /// is told next. What could not be asked in the flight itself is asked once nothing is in
    /// flight.
    pub(super) fn tell_positions(&mut self, to: &mut Completions) {
        if self.engine.is_idle() && self.block.is_none() && self.delayed.is_empty() {
            self.engine.end_flight(self.clock);
        }
        let is_closed = self.engine.is_closed();
        let protocol = self.engine.protocol_mut();
        let (position, is_uncertain) = (protocol.take_position(), protocol.is_uncertain());
        if let Some((position, mark)) = position {
            let text = Bytes::from(position.to_string());
            to.push(kind::POSITION, 0, (0, mark as u32), text);
        }
        let known = &mut self.positions;
        let mut tell = |what| to.push(kind::UNCERTAIN, 0, (what, 0), Bytes::new());
        if is_closed && is_uncertain {
            if !std::mem::replace(&mut known.is_lost_told, true) {
                if !known.is_uncertain {
                    tell(uncertain::YES);
                }
                tell(uncertain::LOST);
            }
        } else if is_uncertain != known.is_uncertain {
            known.is_uncertain = is_uncertain;
            tell(if is_uncertain { uncertain::YES } else { uncertain::NO });
        }
    }

    pub(crate) fn watch_positions(&mut self) {
        self.engine.protocol_mut().watch_positions();
    }

    /// Questions for the position that are sent from now on have this mark.
    pub(crate) fn mark_positions(&mut self, mark: u32) {
        self.engine.protocol_mut().mark_positions(mark.into());
    }

    /// Takes a read that must show this position, and puts a guard in front of it unless it is known
    /// that none is needed.
    pub(crate) fn submit_guarded(
        &mut self,
        now: Time,
        (token, key): (u32, TextKey),
        (submission, position): (Submission<'_>, &Position),
        deadline: Time,
        to: &mut Completions,
    ) -> Result<Ticket, Refused> {
        if self.positions.proof.covers(position) {
            return self.submit(now, (token, key), submission, deadline, to);
        }
        self.check(token)?;
        let allowed = flag::BINARY | flag::UNPREPARED | flag::REPEATABLE | flag::ELSEWHERE;
        let is_plain = submission.flags & !allowed == 0
            && submission.name.is_empty()
            && submission.portal.name.is_empty();
        let is_between = !self.segment_open && self.block.is_none() && self.delayed.is_empty();
        if !is_plain || !is_between || self.pending_begin.is_some() {
            return Err(Refused::Malformed);
        }
        self.arrives(now);
        let result = self.send_guard(now, token, position, submission.size_max(0));
        let result = result.and_then(|()| {
            let behind = Submission { flags: submission.flags | BEHIND_GUARD, ..submission };
            let sent = self.send_statement(now, token, behind, deadline, Treatment::Plain);
            if sent.is_err() {
                // Nothing else may follow in its place.
                self.submit_sync(now, Token::DISCARD, Treatment::Plain)?;
            }
            sent
        });
        if result.is_ok() {
            self.note_taken(token, key, (None, false), now);
        }
        self.settle(to);
        result
    }

    /// Sends a guard, if there is room for it and for the read behind it.
    fn send_guard(
        &mut self,
        now: Time,
        token: u32,
        position: &Position,
        read_len: usize,
    ) -> Result<(), Refused> {
        let (text, parameters) = self.positions.guard(position);
        let way = self.statements.guard(self.engine.protocol_mut(), text)?;
        let guard = Submission {
            flags: flag::MEMBER,
            text: text.sql(),
            types: Types { id: 0, oids: text.types(), are_learned: false },
            parameters: &parameters,
            ..Submission::default()
        };
        let size = guard.size_max(0);
        if !self.engine.has_room(2, size + read_len) {
            return Err(if self.engine.is_open() { Refused::Full } else { Refused::Closed });
        }
        let expect = way.expect(Expect::run(1)).leaves_nothing();
        let request = Request {
            sync: SyncPoint::Member,
            pinned: true,
            ..Request::isolated(Token(GUARDS | u64::from(token)), expect.into())
        };
        enter(&mut self.engine, now, request, size, &mut |out| {
            guard.write(&way, false, None, out)
        })?;
        self.own_requests += 1;
        let (statement, position) = (way.used(), *position);
        let (seen, reply) = (Seen::default(), BytesMut::new());
        self.positions.guards.push_back(Guard { token, position, statement, seen, reply });
        Ok(())
    }

    /// A part of the reply to a guard.
    pub(super) fn guard_came(&mut self, token: Token, block: &[u8]) {
        let guards = &mut self.positions.guards;
        if let Some(guard) = guards.iter_mut().find(|it| it.token == token.0 as u32) {
            guard.seen.look(block);
            guard.reply.extend_from_slice(block);
        }
    }

    /// A guard has ended.
    pub(super) fn guard_ended(
        &mut self,
        token: Token,
        block: &Bytes,
        end: End,
        to: &mut Completions,
    ) {
        let is_failed = matches!(end, End::Failed(_));
        let guards = &mut self.positions.guards;
        let at = guards.iter().position(|it| it.token == token.0 as u32);
        let Some(mut guard) = at.and_then(|at| guards.remove(at)) else { return };
        self.own_requests -= 1;
        if !is_failed {
            guard.seen.look(block);
        }
        if let Some(statement) = &guard.statement {
            let body = block.get(Header::LEN..).unwrap_or_default();
            let fault = is_failed.then(|| fault_of(body));
            statement.ended(&guard.seen, fault);
        }
        let guarded = match is_failed {
            true => judge(block),
            false if guard.reply.is_empty() => Guarded::with_row(replayed(block)),
            false => {
                guard.reply.extend_from_slice(block);
                Guarded::with_row(replayed(&guard.reply))
            }
        };
        let (kind, told) = match guarded {
            Guarded::Passed(told) => (kind::GUARD_PASSED, told),
            Guarded::Behind(told) => (kind::GUARD_BEHIND, told),
            Guarded::Failed => (kind::GUARD_FAILED, None),
        };
        if let Guarded::Passed(told) = guarded {
            let is_direct = self.engine.protocol().is_direct();
            if !self.positions.passed(&guard.position, told, is_direct) {
                return;
            }
        }
        let told = told.unwrap_or(0);
        to.push(kind, guard.token, ((told >> 32) as u32, told as u32), Bytes::new());
    }
}

/// How far the server has replayed, as its row says.
fn replayed(mut reply: &[u8]) -> Option<&str> {
    while let Some((head, _)) = reply.split_first_chunk::<{ Header::LEN }>() {
        let len = 1 + u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if head[0] == backend::DATA_ROW {
            let row = DataRow::decode(reply.get(Header::LEN..len)?).ok()?;
            return str::from_utf8(row.values.clone().next()??).ok();
        }
        reply = reply.get(len..)?;
    }
    None
}

/// What the error of a guard says; an empty block is no error of the server.
fn judge(block: &[u8]) -> Guarded {
    let error = block.get(Header::LEN..).and_then(|body| ErrorResponse::decode(body).ok());
    let Some(error) = error else { return Guarded::Failed };
    let text = |name| error.fields.value(name).and_then(|it| str::from_utf8(it).ok());
    Guarded::with_error(text(field::CODE).unwrap_or_default(), text(field::MESSAGE).unwrap_or(""))
}
