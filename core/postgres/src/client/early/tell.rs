//! What the program says and need not wait for.

use std::ops::Range;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use onetrip_engine::Time;

use super::judge::{FAILED, IDLE};
use super::names::{name_at, parsed};
use super::told::{Kind, Told};
use super::{Early, WHOLE_MAX, answers};
use crate::message::tag::{backend, frontend};
use crate::message::{Header, Target};
use crate::sql::{Control, control};

/// The type of a message, and where it stands.
type Part = (u8, Range<usize>);

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It was answered.
    Told,
    /// More of it has to come.
    Wait,
    /// It goes to the server.
    Pass,
}

/// The longest statement that is told, but for a Parse.
const TEXT_MAX: usize = 1024;

/// Bytes that are held at most.
const HELD_MAX: usize = 8 << 10;

/// How long a server that was heard counts as being there, for a program that asks.
const FRESH: Duration = Duration::from_secs(1);

/// How long it counts so for a program that begins something: some take an error of BEGIN for a
/// connection that was lost while it was idle, and try again on another one.
const FRESH_TO_BEGIN: Duration = Duration::from_secs(10);

impl Early {
    /// Whether more may be held, behind which nothing of the program has come.
    fn may_tell(&self) -> bool {
        let is_last = self.held.last().is_some_and(|it| it.kind == Kind::Prepare);
        let len: usize = self.held.iter().map(Told::memory).sum();
        !self.is_settled && !is_last && self.is_quiet() && len < HELD_MAX
    }

    pub(super) fn tell(&mut self, header: Header, now: Time) -> Step {
        if !self.may_tell() {
            return Step::Pass;
        }
        match header.tag {
            frontend::QUERY => self.tell_query(header, now),
            frontend::PARSE | frontend::CLOSE => self.tell_segment(now),
            _ => Step::Pass,
        }
    }

    fn tell_query(&mut self, header: Header, now: Time) -> Step {
        if header.message_len() > TEXT_MAX {
            return Step::Pass;
        }
        if !self.program.has_whole(header) {
            return Step::Wait;
        }
        // Whoever sends more already does not wait for this.
        if self.program.input.len() > header.message_len() {
            return Step::Pass;
        }
        let body = self.program.body(header);
        let sql = name_at(body, 0).filter(|it| it.len() + 1 == body.len());
        let Some(sql) = sql.and_then(|it| std::str::from_utf8(it).ok()) else { return Step::Pass };
        let Some(statement) = control(sql) else { return Step::Pass };
        if self.is_stale(&statement, now) {
            return Step::Pass;
        }
        let sql = sql.to_owned();
        let was_told = self.tell_nothing(&statement)
            || self.tell_ping(&statement, now)
            || self.tell_fetch(&statement)
            || self.tell_control(&statement, &sql);
        if !was_told {
            return Step::Pass;
        }
        self.program.input.advance(header.message_len());
        Step::Told
    }

    /// A transaction would begin, and the server was not heard for long.
    fn is_stale(&self, statement: &Control, now: Time) -> bool {
        matches!(statement, Control::Begin { .. }) && now.since(self.heard) > FRESH_TO_BEGIN
    }

    /// The end of a transaction of which the server knows nothing.
    fn tell_nothing(&mut self, statement: &Control) -> bool {
        let command = match statement {
            Control::Commit => "COMMIT",
            Control::Rollback => "ROLLBACK",
            _ => return false,
        };
        // A setting stays behind COMMIT.
        let stays = |it: &Told| it.kind == Kind::Set && *statement == Control::Commit;
        if !self.held.iter().any(|it| it.kind == Kind::Begin) || self.held.iter().any(stays) {
            return false;
        }
        self.held.retain(|it| !it.is_of_transaction());
        self.close_unnamed();
        self.view.set(IDLE);
        self.saved.tell(Kind::Nothing);
        answers::completed(&mut self.program.output, command, IDLE);
        true
    }

    fn tell_ping(&mut self, statement: &Control, now: Time) -> bool {
        let is_fresh = now.since(self.heard) <= FRESH;
        if !self.words.ping() || !is_fresh || self.view.status == FAILED {
            return false;
        }
        let status = self.view.status;
        let is_first = self.held.iter().any(|it| it.kind == Kind::Begin);
        let out = &mut self.program.output;
        match statement {
            Control::Nothing => {
                answers::empty(out, backend::EMPTY_QUERY_RESPONSE);
                answers::ready(out, status);
            }
            // Behind it the server refuses SET TRANSACTION.
            Control::SelectOne if !is_first => answers::one(out, status),
            _ => return false,
        }
        self.saved.tell(Kind::Ping);
        self.close_unnamed();
        true
    }

    /// A simple query that the server never gets would have closed the unnamed statement.
    fn close_unnamed(&mut self) {
        self.names.forget(b"");
        if !self.held.last().is_some_and(Told::closes_unnamed) {
            self.held.extend(Told::of_nothing());
        }
    }

    /// A cursor has no more rows behind its last one.
    fn tell_fetch(&mut self, statement: &Control) -> bool {
        let Control::Fetch { cursor, .. } = statement else { return false };
        let Some(columns) = self.view.columns_of(cursor) else { return false };
        self.program.output.extend_from_slice(columns);
        self.saved.tell(Kind::Fetch);
        self.close_unnamed();
        answers::completed(&mut self.program.output, "FETCH 0", self.view.status);
        true
    }

    fn tell_control(&mut self, statement: &Control, sql: &str) -> bool {
        let mut view = self.view.clone();
        let Some((kind, command)) = view.tell(statement, self.words, &self.names) else {
            return false;
        };
        let told = match statement {
            Control::Deallocate(name) => Told::of_close(kind, Target::Statement(name), sql),
            Control::Close(name) => Told::of_close(kind, Target::Portal(name), sql),
            _ => Told::of_query(kind, sql),
        };
        let Some(told) = told else { return false };
        if let Control::Deallocate(name) = statement {
            self.names.forget(name.as_bytes());
        }
        // A simple query leaves no unnamed statement.
        self.names.forget(b"");
        self.view = view;
        self.held.push(told);
        self.saved.tell(kind);
        answers::completed(&mut self.program.output, command, self.view.status);
        true
    }

    /// A segment of the extended protocol that is told as a whole: one Parse, Closes, or statements
    /// that control a transaction.
    fn tell_segment(&mut self, now: Time) -> Step {
        let input = &self.program.input;
        let mut messages = Vec::new();
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let Ok(header) = Header::peek(rest) else { return Step::Pass };
            let (Some(header), true) = (header, messages.len() < MESSAGES_MAX) else {
                return if messages.len() < MESSAGES_MAX { Step::Wait } else { Step::Pass };
            };
            if !may_be_told(&messages, header.tag) || at + header.message_len() > WHOLE_MAX {
                return Step::Pass;
            }
            if rest.len() < header.message_len() {
                return Step::Wait;
            }
            messages.push((header.tag, at..at + header.message_len()));
            at += header.message_len();
            if header.tag == frontend::SYNC {
                break;
            }
        }
        if input.len() > at {
            return Step::Pass;
        }
        let tags: Vec<u8> = messages.iter().map(|it| it.0).collect();
        let was_told = match tags[..] {
            [frontend::PARSE, _] => self.tell_parse(messages[0].1.end),
            [frontend::CLOSE, ..] => self.tell_closes(&messages),
            _ => self.tell_controls(&messages, now),
        };
        if !was_told {
            return Step::Pass;
        }
        answers::ready(&mut self.program.output, self.view.status);
        self.program.input.advance(at);
        Step::Told
    }

    fn tell_parse(&mut self, len: usize) -> bool {
        let Some((name, sql)) = parsed(&self.program.input, len) else { return false };
        let is_free = self.names.is_free(name);
        let is_failed = self.view.status == FAILED;
        if is_failed || !is_free || !self.names.has_room(len) {
            return false;
        }
        let told = Told::of_parse(name, sql, &self.program.input[..len]);
        let name: Box<[u8]> = name.into();
        self.names.forget(&name);
        self.names.learn(name);
        self.held.push(told);
        self.saved.tell(Kind::Prepare);
        answers::empty(&mut self.program.output, backend::PARSE_COMPLETE);
        true
    }

    fn tell_closes(&mut self, messages: &[Part]) -> bool {
        if self.view.status == FAILED {
            return false;
        }
        let Some(((_, sync), closes)) = messages.split_last() else { return false };
        let all = &self.program.input[..sync.start];
        let mut told = Told::of_messages(Kind::Close, "Close", all, &vec![b'3'; closes.len()]);
        let mut names: Vec<Vec<u8>> = Vec::new();
        for (_, range) in closes {
            let body = &self.program.input[range.start + Header::LEN..range.end];
            match name_at(body, 0).filter(|it| it.len() + 1 == body.len()) {
                Some([b'S', name @ ..]) => names.push(name.into()),
                // It may be a cursor.
                Some([b'P', _, ..]) => self.view.forget(),
                Some([b'P']) => {}
                _ => return false,
            }
        }
        for name in names {
            told.closes(&name);
            self.names.forget(&name);
        }
        self.held.push(told);
        self.saved.tell(Kind::Close);
        for _ in closes {
            answers::empty(&mut self.program.output, backend::CLOSE_COMPLETE);
        }
        true
    }

    /// Parse, Bind, perhaps Describe, and Execute of each statement, all without a name.
    fn tell_controls(&mut self, messages: &[Part], now: Time) -> bool {
        let Some((_, all)) = messages.split_last() else { return false };
        let mut view = self.view.clone();
        let (mut told, mut out) = (Vec::new(), BytesMut::new());
        for one in all.chunk_by(|_, next| next.0 != frontend::PARSE) {
            let whole = one[0].1.start..one[one.len() - 1].1.end;
            let Some((sql, answers)) = self.unnamed_statement(one) else { return false };
            let Some(statement) = control(sql).filter(|it| !self.is_stale(it, now)) else {
                return false;
            };
            let is_of_names = matches!(statement, Control::Deallocate(_) | Control::Close(_));
            let Some((kind, command)) =
                view.tell(&statement, self.words, &self.names).filter(|_| !is_of_names)
            else {
                return false;
            };
            let messages = &self.program.input[whole];
            told.push(Told::of_messages(kind, sql, messages, &answers));
            for tag in answers {
                match tag {
                    backend::COMMAND_COMPLETE => answers::complete(&mut out, command),
                    tag => answers::empty(&mut out, tag),
                }
            }
        }
        // One trip, however many statements it holds.
        if let Some(first) = told.first() {
            self.saved.tell(first.kind);
        }
        self.names.forget(b"");
        self.view = view;
        self.held.append(&mut told);
        self.program.output.extend_from_slice(&out);
        true
    }

    /// The text of a statement and the types of its answers.
    fn unnamed_statement(&self, one: &[Part]) -> Option<(&str, Vec<u8>)> {
        let mut sql = None;
        let mut answers = Vec::new();
        for (tag, range) in one {
            let body = &self.program.input[range.start + Header::LEN..range.end];
            let (is_right, answer) = match *tag {
                frontend::PARSE => {
                    let text = body.strip_prefix(&[0]).and_then(|it| name_at(it, 0))?;
                    sql = Some(std::str::from_utf8(text).ok()?);
                    (true, backend::PARSE_COMPLETE)
                }
                // No names, no formats, no values.
                frontend::BIND => (body.starts_with(&[0; 6]), backend::BIND_COMPLETE),
                frontend::DESCRIBE => (body == b"P\0", backend::NO_DATA),
                frontend::EXECUTE => (body.len() == 5 && body[0] == 0, backend::COMMAND_COMPLETE),
                _ => (false, 0),
            };
            is_right.then(|| answers.push(answer))?;
        }
        Some((sql?, answers))
    }
}

/// Messages of a segment that is told.
const MESSAGES_MAX: usize = 32;

/// Whether a segment with these messages may still be told if one of this type follows.
fn may_be_told(messages: &[Part], next: u8) -> bool {
    let last = messages.last().map(|it| it.0);
    match (last, next) {
        (None, frontend::PARSE | frontend::CLOSE) => true,
        (Some(frontend::CLOSE), frontend::CLOSE | frontend::SYNC) => true,
        (Some(frontend::PARSE), frontend::SYNC) => messages.len() == 1,
        (Some(frontend::PARSE), frontend::BIND) => true,
        (Some(frontend::BIND), frontend::DESCRIBE | frontend::EXECUTE) => true,
        (Some(frontend::DESCRIBE), frontend::EXECUTE) => true,
        (Some(frontend::EXECUTE), frontend::PARSE | frontend::SYNC) => true,
        _ => false,
    }
}
