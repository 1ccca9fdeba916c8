//! What comes from the server.

use bytes::Buf;

use super::flight::{Effect, Segment};
use super::judge::{FAILED, IDLE, IN_TRANSACTION};
use super::told::{Answer, Kind, Told};
use super::{Early, OUT_MAX, Phase, WHOLE_MAX, answers};
use crate::message::tag::backend;
use crate::message::{Header, Query, max_len};

impl Early {
    pub(super) fn read_server(&mut self) {
        while self.phase != Phase::Over && self.program.output.len() < OUT_MAX {
            if self.server.passing > 0 {
                let len = self.server.passing.min(self.server.input.len());
                self.program.output.extend_from_slice(&self.server.input[..len]);
                self.server.input.advance(len);
                self.server.passing -= len;
                if self.server.passing > 0 {
                    return;
                }
                continue;
            }
            if self.phase == Phase::Raw {
                let input = self.server.input.split();
                self.program.output.extend_from_slice(&input);
                return;
            }
            let Some(&tag) = self.server.input.first() else { return };
            if max_len(tag).is_none() {
                return self.end(PROTOCOL_VIOLATION, NO_POSTGRES);
            }
            let Some(header) = self.server.header() else {
                if self.server.input.len() >= Header::LEN {
                    self.end(PROTOCOL_VIOLATION, NO_POSTGRES);
                }
                return;
            };
            if is_looked_into(tag)
                && header.message_len() <= WHOLE_MAX
                && !self.server.has_whole(header)
            {
                return;
            }
            self.take(header);
        }
    }

    fn take(&mut self, header: Header) {
        match header.tag {
            backend::READY_FOR_QUERY => self.ready(header),
            backend::ERROR_RESPONSE => self.error(header),
            backend::NOTICE_RESPONSE
            | backend::NOTIFICATION_RESPONSE
            | backend::PARAMETER_STATUS => self.pass_to_program(header),
            backend::COPY_IN_RESPONSE => {
                self.copy_in();
                self.answer(header);
            }
            backend::COPY_BOTH_RESPONSE => {
                self.is_settled = true;
                self.answer(header);
            }
            _ => self.answer(header),
        }
    }

    fn pass_to_program(&mut self, header: Header) {
        self.server.passing = header.message_len();
    }

    fn swallow(&mut self, header: Header) {
        self.server.input.advance(header.message_len());
    }

    /// Any other message: the answer to what was told, or to what the program waits for.
    fn answer(&mut self, header: Header) {
        let is_own = self.flight.front().is_some_and(|it| it.is_own);
        let Some(front) = self.flight.front().filter(|it| !it.told.is_empty() && !it.is_skipped)
        else {
            return if is_own { self.swallow(header) } else { self.pass_to_program(header) };
        };
        let answer = front.told.front_mut().map_or(Answer::Other, |it| it.answered(header.tag));
        match answer {
            Answer::Partly => {}
            Answer::Wholly => {
                front.told.pop_front();
            }
            Answer::Other => return self.end(PROTOCOL_VIOLATION, OTHER_ANSWER),
        }
        self.swallow(header);
    }

    fn error(&mut self, header: Header) {
        let Some(front) = self.flight.front() else { return self.pass_to_program(header) };
        front.has_failed = true;
        // What follows is skipped up to a Sync.
        front.is_copying = false;
        if front.is_own {
            return self.swallow(header);
        }
        if front.told.is_empty() || front.is_skipped {
            return self.pass_to_program(header);
        }
        front.is_skipped = true;
        front.needs_sync = front.is_single;
        let mut told = std::mem::take(&mut front.told);
        let Some(first) = told.pop_front() else { return };
        let is_written = self.server.has_whole(header) && {
            let body = self.server.body(header);
            answers::with_context(&mut self.program.output, body, &first.context())
        };
        if is_written {
            self.swallow(header);
        } else {
            self.pass_to_program(header);
        }
        self.saved.refute(first.kind);
        self.refute(first);
        told.into_iter().for_each(|it| self.refute(it));
        if self.program.passing == 0 {
            self.sync_if_needed();
        }
    }

    /// The server has not done it. What does not belong to the transaction is still owed.
    fn refute(&mut self, told: Told) {
        match told.kind {
            Kind::Prepare => self.names.owe(told),
            _ if told.is_owed() => self.held.push(told.anew()),
            _ => {}
        }
    }

    /// The server reads data now, and so the Sync that may have been sent means nothing to it.
    fn copy_in(&mut self) {
        let is_alone = self.flight.is_single();
        let Some(front) = self.flight.front().filter(|it| !it.is_single) else { return };
        if is_alone {
            front.has_ended = false;
            front.is_copying = true;
        } else {
            self.is_settled = true;
        }
    }

    fn ready(&mut self, header: Header) {
        let status = self.server.body(header).first().copied().unwrap_or(IDLE);
        self.swallow(header);
        let was_login = std::mem::replace(&mut self.phase, Phase::Session) == Phase::Login;
        let Some(front) = self.flight.pop().filter(|_| !was_login) else {
            self.view.set(status);
            return answers::ready(&mut self.program.output, status);
        };
        if !front.told.is_empty() {
            return self.end(PROTOCOL_VIOLATION, OTHER_ANSWER);
        }
        if front.is_own && status != FAILED {
            return self.end(CONNECTION_FAILURE, LOST);
        }
        if front.is_skipped && self.view.status == IN_TRANSACTION && status != FAILED {
            return self.fail_transaction();
        }
        self.take_effect(front, status);
        self.view.set(status);
        answers::ready(&mut self.program.output, status);
    }

    /// The program believes in a transaction that is not there. It gets one that has failed.
    fn fail_transaction(&mut self) {
        // Encoding can't fail: the text holds no NUL and is short.
        let _ = Query { sql: FAILS }.encode(&mut self.server.output);
        self.flight.push(Segment::own());
    }

    fn take_effect(&mut self, segment: Segment, status: u8) {
        if segment.has_failed {
            if segment.effect == Effect::Unknown {
                self.view.forget();
            }
            return;
        }
        segment.prepares.into_iter().for_each(|name| self.names.learn(name));
        match segment.effect {
            Effect::Nothing => {}
            Effect::Unknown => self.view.forget(),
            Effect::Savepoint(name) if status == IN_TRANSACTION => self.view.add_savepoint(name),
            Effect::Savepoint(_) => {}
            Effect::Release(name) => self.view.back_to(&name, true),
            Effect::RollbackTo(name) => self.view.back_to(&name, false),
            Effect::Cursor { name, is_held } if is_held || status == IN_TRANSACTION => {
                self.view.add_cursor(name, status == IDLE);
            }
            Effect::Cursor { .. } => {}
        }
    }
}

/// Begins a transaction and fails within it. A standby and a read-only server take it too.
const FAILS: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; RELEASE SAVEPOINT onetrip_sidecar_lost";

const PROTOCOL_VIOLATION: &str = "08P01";
const CONNECTION_FAILURE: &str = "08006";

const NO_POSTGRES: &str = "onetrip sidecar: the server does not speak PostgreSQL's protocol";
const OTHER_ANSWER: &str = "onetrip sidecar: the server gave another answer than PostgreSQL does";
const LOST: &str = "onetrip sidecar: the transaction was lost, and the server made no new one";

/// Messages that are not passed on in parts.
fn is_looked_into(tag: u8) -> bool {
    [backend::READY_FOR_QUERY, backend::ERROR_RESPONSE, backend::COMMAND_COMPLETE].contains(&tag)
}
