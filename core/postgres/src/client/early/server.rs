//! What comes from the server.

use bytes::{Buf, BytesMut};

use super::flight::{Effect, Segment};
use super::judge::{FAILED, IDLE, IN_TRANSACTION};
use super::told::{Answer, Kind, Told};
use super::{Early, Key, OUT_MAX, Phase, WHOLE_MAX, answers};
use crate::client::connect::Refusal;
use crate::message::error_response::field;
use crate::message::tag::backend;
use crate::message::{
    BackendKeyData, CommandComplete, ErrorResponse, Header, ParameterStatus, Query, max_len,
};

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
            let header = self.server.header();
            let is_incomplete = self.server.input.len() < Header::LEN;
            if !self.may_come(tag) || header.map_or(!is_incomplete, is_too_long) {
                return self.end(PROTOCOL_VIOLATION, NO_POSTGRES);
            }
            let Some(header) = header else { return };
            if (is_looked_into(tag) || self.phase == Phase::Login)
                && header.message_len() <= WHOLE_MAX
                && !self.server.has_whole(header)
            {
                return;
            }
            self.take(header);
        }
    }

    fn may_come(&self, tag: u8) -> bool {
        match self.phase {
            Phase::Login => OF_LOGIN.contains(&tag),
            _ => max_len(tag).is_some(),
        }
    }

    fn take(&mut self, header: Header) {
        if self.phase == Phase::Login && self.server.has_whole(header) {
            self.note_login(header);
        }
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

    /// What the server says of itself.
    fn note_login(&mut self, header: Header) {
        let body = self.server.body(header);
        match header.tag {
            backend::PARAMETER_STATUS => {
                if let Ok(it) = ParameterStatus::decode(body) {
                    self.session.note(it.name, it.value);
                }
            }
            backend::BACKEND_KEY_DATA => {
                if let Ok(it) = BackendKeyData::decode(body) {
                    let secret = it.secret_key.0.into();
                    self.key = Some(Key { process_id: it.process_id, secret });
                }
            }
            _ => {}
        }
    }

    /// Ends the login if it is not what is wanted.
    fn is_refused(&mut self) -> bool {
        let refusal = match self.session.fits(self.target) {
            Some(true) => return false,
            Some(false) => Refusal::Target,
            None => Refusal::TargetUnknown,
        };
        self.is_unfit = true;
        self.end(CANNOT_CONNECT_NOW, &format!("onetrip sidecar: the server{}", refusal.text()));
        true
    }

    fn pass_to_program(&mut self, header: Header) {
        self.server.passing = header.message_len();
    }

    fn swallow(&mut self, header: Header) {
        if !self.server.has_whole(header) {
            return self.end(PROTOCOL_VIOLATION, OTHER_ANSWER);
        }
        self.server.input.advance(header.message_len());
    }

    /// Any other message: the answer to what was told, or to what the program waits for.
    fn answer(&mut self, header: Header) {
        if self.flight.front().is_some_and(|it| it.is_own) {
            return self.own_answer(header);
        }
        let Some(front) = self.flight.front().filter(|it| !it.told.is_empty() && !it.is_skipped)
        else {
            self.note_fetched(header);
            self.note_named(header);
            return self.pass_to_program(header);
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

    /// A statement was prepared or closed.
    fn note_named(&mut self, header: Header) {
        if ![backend::PARSE_COMPLETE, backend::CLOSE_COMPLETE].contains(&header.tag) {
            return;
        }
        if let Some(named) = self.flight.front().and_then(|it| it.named.pop_front()) {
            self.names.take(named);
        }
    }

    /// What a FETCH brings: its columns, and how many rows.
    fn note_fetched(&mut self, header: Header) {
        let Some(front) = self.flight.front() else { return };
        let whole = self.server.input.get(..header.message_len());
        let whole = whole.filter(|it| it.len() <= COLUMNS_MAX);
        match (&front.effect, header.tag, whole) {
            (Effect::Fetch { .. }, backend::ROW_DESCRIPTION, Some(whole)) => {
                front.fetched.0 = whole.into();
            }
            (Effect::Fetch { .. }, backend::COMMAND_COMPLETE, Some(whole)) => {
                let complete = CommandComplete::decode(&whole[Header::LEN..]);
                front.fetched.1 = complete.ok().and_then(|it| it.rows());
            }
            _ => {}
        }
    }

    fn own_answer(&mut self, header: Header) {
        let has_begun =
            header.tag == backend::COMMAND_COMPLETE && self.server.body(header) == b"BEGIN\0";
        if let Some(front) = self.flight.front() {
            front.has_begun |= has_begun;
        }
        self.swallow(header);
    }

    fn error(&mut self, header: Header) {
        // Nothing may be told behind it.
        self.is_settled |= is_fatal(self.server.body_so_far(header));
        let Some(front) = self.flight.front() else { return self.pass_to_program(header) };
        front.has_failed = true;
        // What follows is skipped up to a Sync.
        front.is_copying = false;
        if front.is_own {
            return self.swallow(header);
        }
        if front.is_alone {
            return self.refuse_alone(header);
        }
        if front.told.is_empty() || front.is_skipped {
            return self.pass_to_program(header);
        }
        front.is_skipped = true;
        front.needs_sync = front.is_single;
        let is_use = front.is_use;
        let mut told = std::mem::take(&mut front.told);
        front.is_lost = told.iter().any(|it| it.kind.is_structure());
        let Some(first) = told.pop_front() else { return };
        let is_written = self.server.has_whole(header) && {
            let body = self.server.body(header);
            let of = first.sql().filter(|_| !is_use);
            answers::with_context(&mut self.program.output, body, &first.context(), of)
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

    /// What was told alone is refused. It will be once more, in front of the statement that the
    /// program has said meanwhile: that is how the server skips it.
    fn refuse_alone(&mut self, header: Header) {
        let told = self.flight.front().map(|it| std::mem::take(&mut it.told)).unwrap_or_default();
        for mut told in told.into_iter().map(Told::anew) {
            told.is_refused = true;
            self.held.push(told);
        }
        match is_fatal(self.server.body(header)) {
            true => self.pass_to_program(header),
            false => self.swallow(header),
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
        let &[status] = self.server.body(header) else {
            return self.end(PROTOCOL_VIOLATION, NO_POSTGRES);
        };
        self.swallow(header);
        if self.phase == Phase::Login && self.is_refused() {
            return;
        }
        let was_login = std::mem::replace(&mut self.phase, Phase::Session) == Phase::Login;
        let Some(front) = self.flight.pop().filter(|_| !was_login) else {
            self.view.set(status);
            return answers::ready(&mut self.program.output, status);
        };
        if !front.told.is_empty() {
            return self.end(PROTOCOL_VIOLATION, OTHER_ANSWER);
        }
        if front.is_alone {
            return self.view.set(status);
        }
        if front.is_own && (status != FAILED || !front.has_begun) {
            return self.end(CONNECTION_FAILURE, LOST);
        }
        let is_lost = front.is_lost || (front.is_skipped && status != FAILED);
        if is_lost && self.view.status == IN_TRANSACTION {
            return self.fail_transaction(status);
        }
        let fetched = self.take_effect(front, status);
        self.view.set(status);
        if let Some((cursor, columns)) = fetched {
            self.view.exhaust(&cursor, columns);
        }
        answers::ready(&mut self.program.output, status);
    }

    /// The program believes in a transaction, or in savepoints, that are not there. It gets a
    /// transaction that has failed and has no savepoints: with those of the real one, ROLLBACK TO
    /// might lead to another of the same name.
    fn fail_transaction(&mut self, status: u8) {
        let sql = if status == IDLE { FAILS.to_owned() } else { format!("ROLLBACK; {FAILS}") };
        // Encoding can't fail: the text holds no NUL and is short.
        let _ = Query { sql: &sql }.encode(&mut self.server.output);
        self.flight.push(Segment::own());
    }

    /// Returns the cursor that has no more rows, if it is that.
    fn take_effect(&mut self, segment: Segment, status: u8) -> Option<(Box<str>, BytesMut)> {
        if segment.has_failed {
            match segment.effect {
                Effect::Unknown => self.view.forget(),
                // It may have done so before it failed.
                Effect::Forget => self.names.lose(),
                _ => {}
            }
            return None;
        }
        match segment.effect {
            Effect::Nothing => {}
            Effect::Unknown => self.view.forget(),
            Effect::Deallocate(name) => self.names.forget(name.as_bytes()),
            Effect::Forget => {
                self.view.forget();
                self.names.forget_all();
            }
            Effect::Savepoint(name) if status == IN_TRANSACTION => self.view.add_savepoint(name),
            Effect::Savepoint(_) => {}
            Effect::Release(name) => self.view.back_to(&name, true),
            Effect::RollbackTo(name) => self.view.back_to(&name, false),
            Effect::Cursor { name, is_held } if is_held || status == IN_TRANSACTION => {
                self.view.add_cursor(name, status == IDLE);
            }
            Effect::Cursor { .. } => {}
            Effect::Fetch { rows, cursor } => {
                let (columns, count) = segment.fetched;
                let is_last = count? < rows.into() && !columns.is_empty();
                return is_last.then_some((cursor, columns));
            }
        }
        None
    }
}

/// Begins a transaction and fails within it. A standby and a read-only server take it too.
const FAILS: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; RELEASE SAVEPOINT onetrip_sidecar_lost";

const PROTOCOL_VIOLATION: &str = "08P01";
/// What programs try again.
const CANNOT_CONNECT_NOW: &str = "57P03";
const CONNECTION_FAILURE: &str = "08006";

const NO_POSTGRES: &str = "onetrip sidecar: the server does not speak PostgreSQL's protocol";
const OTHER_ANSWER: &str = "onetrip sidecar: the server gave another answer than PostgreSQL does";
const LOST: &str = "onetrip sidecar: the transaction was lost, and the server made no new one";

/// The tags of what a server may say up to the first ReadyForQuery.
pub const OF_LOGIN: [u8; 7] = [
    backend::AUTHENTICATION,
    backend::NEGOTIATE_PROTOCOL_VERSION,
    backend::ERROR_RESPONSE,
    backend::NOTICE_RESPONSE,
    backend::PARAMETER_STATUS,
    backend::BACKEND_KEY_DATA,
    backend::READY_FOR_QUERY,
];

/// Whether an error ends the session.
fn is_fatal(body: &[u8]) -> bool {
    let Ok(error) = ErrorResponse::decode(body) else { return false };
    let severity = error.fields.value(field::SEVERITY_NONLOCALIZED);
    matches!(severity.or_else(|| error.fields.value(field::SEVERITY)), Some(b"FATAL" | b"PANIC"))
}

fn is_too_long(header: Header) -> bool {
    max_len(header.tag).is_none_or(|max| header.len > max)
}

/// Bytes that describe the columns of a cursor, to be kept.
const COLUMNS_MAX: usize = 4 << 10;

/// Messages that are not passed on in parts.
fn is_looked_into(tag: u8) -> bool {
    [
        backend::READY_FOR_QUERY,
        backend::ERROR_RESPONSE,
        backend::COMMAND_COMPLETE,
        backend::ROW_DESCRIPTION,
    ]
    .contains(&tag)
}
