//! What comes from the program.

use std::ops::Range;
use std::time::Duration;

use bytes::Buf;
use onetrip_engine::Time;

use super::flight::{Effect, Segment};
use super::judge::{FAILED, IDLE};
use super::names::{NAME_MAX, name_at, parsed, statement_of};
use super::told::{Kind, Told};
use super::{Asked, Early, OUT_MAX, Phase, WHOLE_MAX, answers};
use crate::message::tag::{backend, frontend};
use crate::message::{Header, STARTUP_LEN_MAX, Target, cancel_request, ssl_request};
use crate::sql::{Control, classify, control, declared};

/// The type of a message, and where it stands.
type Part = (u8, Range<usize>);

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
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
    pub(super) fn read_program(&mut self, now: Time) {
        while self.phase != Phase::Over && self.server.output.len() < OUT_MAX {
            if self.program.passing > 0 {
                if !self.pass_on() {
                    return;
                }
                continue;
            }
            let goes_on = match self.phase {
                Phase::Beginning => self.begin(),
                Phase::Login => self.log_in(),
                Phase::Session => self.step(now),
                Phase::Raw => {
                    let input = self.program.input.split();
                    self.server.output.extend_from_slice(&input);
                    false
                }
                Phase::Over => false,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Passes on what is there of a message. Returns whether it was all.
    fn pass_on(&mut self) -> bool {
        let len = self.program.passing.min(self.program.input.len());
        self.server.output.extend_from_slice(&self.program.input[..len]);
        self.program.input.advance(len);
        self.program.passing -= len;
        let is_whole = self.program.passing == 0;
        if is_whole {
            self.sync_if_needed();
        }
        is_whole
    }

    /// Passes on the message at the front.
    fn pass(&mut self, header: Header) -> bool {
        self.program.passing = header.message_len();
        true
    }

    /// The first packet: a length without a type.
    fn begin(&mut self) -> bool {
        let Some(&[a, b, c, d, e, f, g, h]) = self.program.input.first_chunk() else {
            // TLS that begins without asking is known by its first byte.
            let is_other = self.program.input.first().is_some_and(|byte| *byte != 0);
            if is_other {
                self.refuse();
            }
            return false;
        };
        let len = u32::from_be_bytes([a, b, c, d]);
        if !(8..=STARTUP_LEN_MAX).contains(&len) {
            self.refuse();
            return false;
        }
        let code = u32::from_be_bytes([e, f, g, h]);
        if code == ssl_request::CODE || code == ssl_request::GSSENC_CODE {
            self.program.input.advance(8);
            self.program.output.extend_from_slice(b"N");
            return true;
        }
        if self.program.input.len() < len as usize {
            return false;
        }
        if code == cancel_request::CODE {
            self.asked = Asked::Cancel;
            self.phase = Phase::Raw;
            return true;
        }
        const REPLICATION: &[u8] = b"\0replication\0";
        let packet = &self.program.input[7..len as usize];
        self.is_settled |= packet.windows(REPLICATION.len()).any(|it| it == REPLICATION);
        self.asked = Asked::Session;
        self.phase = Phase::Login;
        self.program.passing = len as usize;
        self.flight.push(Segment::single(Effect::Nothing));
        true
    }

    /// What came is not PostgreSQL. A server ends such a connection without a word.
    fn refuse(&mut self) {
        self.asked = Asked::Garbage;
        self.phase = Phase::Over;
    }

    fn log_in(&mut self) -> bool {
        match self.program.header() {
            Some(header) => self.pass(header),
            None => self.give_up_if_broken(),
        }
    }

    /// Bytes that can't be a message pass as they are, and the server says what it thinks of them.
    fn give_up_if_broken(&mut self) -> bool {
        let is_broken = self.program.input.len() >= Header::LEN;
        if is_broken {
            self.send_held(None);
            self.phase = Phase::Raw;
        }
        is_broken
    }

    fn step(&mut self, now: Time) -> bool {
        if self.is_blocked() {
            return false;
        }
        let Some(header) = self.program.header() else { return self.give_up_if_broken() };
        if self.flight.open().is_some() {
            return self.go_on(header);
        }
        match self.tell(header, now) {
            Step::Told => true,
            Step::Wait => false,
            Step::Pass => self.start(header),
        }
    }

    /// Whether more may be held, behind which nothing of the program has come.
    fn may_tell(&self) -> bool {
        let is_last = self.held.last().is_some_and(|it| it.kind == Kind::Prepare);
        let len: usize = self.held.iter().map(Told::memory).sum();
        !self.is_settled && !is_last && self.is_quiet() && len < HELD_MAX
    }

    fn tell(&mut self, header: Header, now: Time) -> Step {
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
        if !self.held.iter().any(|it| it.kind == Kind::Begin) {
            return false;
        }
        self.held.retain(|it| !it.is_of_transaction());
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
        let out = &mut self.program.output;
        match statement {
            Control::Nothing => {
                answers::empty(out, backend::EMPTY_QUERY_RESPONSE);
                answers::ready(out, status);
            }
            Control::SelectOne => answers::one(out, status),
            _ => return false,
        }
        self.saved.tell(Kind::Ping);
        true
    }

    /// A cursor has no more rows behind its last one.
    fn tell_fetch(&mut self, statement: &Control) -> bool {
        let Control::Fetch { cursor, .. } = statement else { return false };
        let Some(columns) = self.view.columns_of(cursor) else { return false };
        self.program.output.extend_from_slice(columns);
        self.saved.tell(Kind::Fetch);
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
        let is_free = name.len() <= NAME_MAX && !self.names.is_known(name);
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
        let (mut told, mut out) = (Vec::new(), bytes::BytesMut::new());
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

    /// A message outside of a segment, which is not told.
    fn start(&mut self, header: Header) -> bool {
        match header.tag {
            frontend::TERMINATE => {
                self.held.clear();
                self.pass(header)
            }
            // Data of a COPY by a simple query.
            frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL => self.pass(header),
            frontend::FLUSH if self.held.is_empty() => self.pass(header),
            frontend::QUERY | frontend::FUNCTION_CALL => {
                let is_short = header.message_len() <= WHOLE_MAX;
                if is_short && !self.program.has_whole(header) {
                    return false;
                }
                let effect = if is_short { self.effect(header) } else { Effect::Unknown };
                self.names.forget(b"");
                if effect == Effect::Unknown && !is_short {
                    self.names.forget_all();
                }
                self.send_held(None);
                self.add(Segment::single(effect));
                self.pass(header)
            }
            frontend::SYNC
            | frontend::PARSE
            | frontend::BIND
            | frontend::DESCRIBE
            | frontend::EXECUTE
            | frontend::CLOSE
            | frontend::FLUSH => {
                if !self.has_names(header) {
                    return false;
                }
                let uses = statement_of(header.tag, self.program.body_so_far(header));
                let uses = uses.map(<[u8]>::to_vec);
                self.send_held(uses.as_deref());
                let makes = self.leaving.back().and_then(|it| it.makes.as_deref());
                let is_use = makes.is_some() && makes == uses.as_deref();
                self.add(Segment::open(is_use));
                self.go_on(header)
            }
            _ => {
                self.send_held(None);
                self.phase = Phase::Raw;
                true
            }
        }
    }

    /// Whether the names at the front of a message have come, if they matter.
    fn has_names(&self, header: Header) -> bool {
        let matters = matches!(header.tag, frontend::BIND | frontend::DESCRIBE);
        let len = header.message_len().min(2 * NAME_MAX + 16);
        !matters || !self.names.owes_any() || self.program.input.len() >= len
    }

    /// A message within a segment.
    fn go_on(&mut self, header: Header) -> bool {
        let is_looked_into = matches!(header.tag, frontend::PARSE | frontend::CLOSE);
        let is_short = header.message_len() <= WHOLE_MAX;
        if is_looked_into && is_short && !self.program.has_whole(header) {
            return false;
        }
        match header.tag {
            frontend::PARSE => self.note_parse(header, is_short),
            frontend::CLOSE => {
                match self.program.body(header).split_first() {
                    Some((b'S', name)) => {
                        let name = name_at(name, 0).unwrap_or_default().to_vec();
                        self.names.forget(&name);
                    }
                    // It may be a cursor.
                    Some((_, name)) if name != [0] => self.view.forget(),
                    _ => {}
                }
            }
            frontend::COPY_DONE | frontend::COPY_FAIL => {
                if let Some(open) = self.flight.open() {
                    open.is_copying = false;
                }
            }
            frontend::SYNC => {
                let is_copying = self.flight.open().is_some_and(|it| it.is_copying);
                // The server takes no notice of it, unless the COPY has failed meanwhile.
                self.is_settled |= is_copying;
                if !is_copying {
                    self.end_segment();
                }
            }
            // Behind an error in front of it, it would get no answer of its own.
            frontend::QUERY | frontend::FUNCTION_CALL => {
                self.is_settled = true;
                self.names.forget_all();
                self.end_segment();
            }
            _ if !is_of_segment(header.tag) => {
                self.phase = Phase::Raw;
                return true;
            }
            _ => {}
        }
        self.pass(header)
    }

    fn note_parse(&mut self, header: Header, is_short: bool) {
        let Some((name, sql)) = parsed(&self.program.input, header.message_len()) else { return };
        let name: Box<[u8]> = name.into();
        let sql = std::str::from_utf8(sql).ok().filter(|_| is_short);
        let is_known = sql.is_some_and(|it| !classify(it).transaction_control());
        self.names.forget(&name);
        if let Some(open) = self.flight.open() {
            if open.prepares.len() < PREPARES_MAX {
                open.prepares.push(name);
            }
            if !is_known {
                open.effect = Effect::Unknown;
            } else if let Some((name, is_held)) = sql.and_then(declared) {
                open.effect = Effect::Cursor { name, is_held };
            }
        }
    }

    /// What a simple query does to what is remembered.
    fn effect(&mut self, header: Header) -> Effect {
        let body = self.program.body(header);
        let Some(sql) = name_at(body, 0).and_then(|it| std::str::from_utf8(it).ok()) else {
            self.names.forget_all();
            return Effect::Unknown;
        };
        match control(sql) {
            Some(Control::Savepoint(name)) => return Effect::Savepoint(name),
            Some(Control::Release(name)) => return Effect::Release(name),
            Some(Control::RollbackTo(name)) => return Effect::RollbackTo(name),
            Some(Control::Fetch { rows, cursor }) => return Effect::Fetch { rows, cursor },
            Some(Control::Deallocate(name)) => {
                self.names.forget(name.as_bytes());
                return Effect::Nothing;
            }
            Some(Control::Begin { .. } | Control::Commit | Control::Rollback) => {
                return Effect::Nothing;
            }
            _ => {}
        }
        let traits = classify(sql);
        if traits.transaction_control() {
            return Effect::Unknown;
        }
        if traits.session_state() {
            let forgets = |word: &str| {
                sql.as_bytes()
                    .windows(word.len())
                    .any(|it| it.eq_ignore_ascii_case(word.as_bytes()))
            };
            if forgets("deallocate") || forgets("discard") {
                self.names.forget_all();
            }
            return match declared(sql).filter(|_| !traits.several()) {
                Some((name, is_held)) => Effect::Cursor { name, is_held },
                None if forgets("close") || forgets("discard") => Effect::Unknown,
                None => Effect::Nothing,
            };
        }
        Effect::Nothing
    }

    fn add(&mut self, mut segment: Segment) {
        segment.told = std::mem::take(&mut self.leaving);
        if !self.flight.push(segment) {
            self.view.forget();
        }
    }

    fn end_segment(&mut self) {
        if !self.flight.end() {
            self.view.forget();
        }
    }

    /// Sends what is held, and a statement that is used next and owed. It is confirmed with the
    /// segment that is added next.
    pub(super) fn send_held(&mut self, uses: Option<&[u8]>) {
        self.view.go_on();
        let owed = uses.and_then(|it| self.names.pay(it));
        self.leaving = self.held.drain(..).chain(owed).collect();
        for told in &self.leaving {
            self.server.output.extend_from_slice(&told.messages);
        }
    }

    /// Sends a Sync behind a simple query that was skipped.
    pub(super) fn sync_if_needed(&mut self) {
        if let Some(last) = self.flight.last().filter(|it| it.needs_sync) {
            last.needs_sync = false;
            self.server.output.extend_from_slice(&crate::message::SYNC);
        }
    }
}

/// Messages of a segment that is told.
const MESSAGES_MAX: usize = 32;

/// Statements of one segment whose names are learned.
const PREPARES_MAX: usize = 8;

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

fn is_of_segment(tag: u8) -> bool {
    [
        frontend::BIND,
        frontend::DESCRIBE,
        frontend::EXECUTE,
        frontend::FLUSH,
        frontend::COPY_DATA,
        frontend::TERMINATE,
    ]
    .contains(&tag)
}
