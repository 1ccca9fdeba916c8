//! What comes from the program.

use bytes::Buf;
use onetrip_engine::Time;

use super::flight::{Effect, Segment};
use super::names::{NAME_MAX, Named, has_word, marks, name_at, parsed, statement_of};
use super::tell::Step;
use super::told::Kind;
use super::{Asked, Early, OUT_MAX, Phase, WHOLE_MAX};
use crate::message::tag::frontend;
use crate::message::{Header, STARTUP_LEN_MAX, cancel_request, ssl_request};
use crate::sql::{Control, classify, control, declared};

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
            self.give_up();
        }
        is_broken
    }

    /// From now on bytes pass as they are. Answers to what was told could not be told from others, so
    /// if some are awaited, this says what the server would.
    fn give_up(&mut self) {
        if self.held.is_empty() && !self.flight.awaits_told() {
            self.phase = Phase::Raw;
            return;
        }
        let tag = self.program.input.first().copied().unwrap_or_default();
        self.end("08P01", &format!("invalid frontend message type {tag}"));
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

    /// Whether what is held has to be confirmed before this is sent: outside a transaction Parse
    /// takes a snapshot, which nothing but a use of the statement may share with it. BEGIN with an
    /// isolation level would be refused behind it.
    fn must_be_alone(&self, header: Header) -> bool {
        let Some(last) = self.held.last().filter(|it| !it.is_refused) else { return false };
        let uses = statement_of(header.tag, self.program.body_so_far(header));
        let is_outside = self.view.is_idle() && header.tag != frontend::TERMINATE;
        is_outside && last.makes.is_some() && uses != last.makes.as_deref()
    }

    /// Sends what is held with a Sync of its own.
    fn send_alone(&mut self) {
        self.send_held(None);
        self.server.output.extend_from_slice(&crate::message::SYNC);
        let told = std::mem::take(&mut self.leaving);
        self.flight.push(Segment::alone(told));
        self.saved.untell(Kind::Prepare);
    }

    /// A message outside of a segment, which is not told.
    fn start(&mut self, header: Header) -> bool {
        if !self.has_names(header) {
            return false;
        }
        if self.must_be_alone(header) {
            self.send_alone();
            return false;
        }
        match header.tag {
            frontend::TERMINATE => {
                self.held.clear();
                if self.is_lent {
                    self.has_left = true;
                    self.program.input.clear();
                    return false;
                }
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
                self.is_marked |= !is_short || header.tag == frontend::FUNCTION_CALL;
                let effect = if is_short { self.effect(header) } else { Effect::Unknown };
                self.names.forget(b"");
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
                let uses = statement_of(header.tag, self.program.body_so_far(header));
                let uses = uses.map(<[u8]>::to_vec);
                self.send_held(uses.as_deref());
                let makes = self.leaving.back().and_then(|it| it.makes.as_deref());
                let is_use = makes.is_some() && makes == uses.as_deref();
                self.add(Segment::open(is_use));
                self.go_on(header)
            }
            _ => {
                self.give_up();
                true
            }
        }
    }

    /// Whether the names at the front of a message have come, if they matter.
    fn has_names(&self, header: Header) -> bool {
        let matters = matches!(header.tag, frontend::BIND | frontend::DESCRIBE);
        let len = header.message_len().min(2 * NAME_MAX + 16);
        let matters = matters && (self.names.owes_any() || !self.held.is_empty());
        !matters || self.program.input.len() >= len
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
            frontend::CLOSE => self.note_close(header),
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
                self.end_segment();
            }
            _ if !is_of_segment(header.tag) => {
                self.give_up();
                return true;
            }
            _ => {}
        }
        self.pass(header)
    }

    fn note_close(&mut self, header: Header) {
        let Some((kind, name)) = self.program.body(header).split_first() else { return };
        let name = name_at(name, 0).unwrap_or_default();
        let is_statement = *kind == b'S';
        let named = Named::Close(if is_statement { name.into() } else { Box::default() });
        // It may be a cursor.
        if !is_statement && !name.is_empty() {
            self.view.forget();
        }
        self.note(named);
    }

    fn note_parse(&mut self, header: Header, is_short: bool) {
        let Some((name, sql)) = parsed(&self.program.input, header.message_len()) else {
            self.is_marked = true;
            return self.names.lose();
        };
        let name: Box<[u8]> = name.into();
        let sql = std::str::from_utf8(sql).ok().filter(|_| is_short);
        self.is_marked |= sql.is_none_or(marks);
        let effect = match (sql, sql.and_then(control)) {
            (_, Some(Control::Deallocate(name))) => Effect::Deallocate(name),
            (_, Some(Control::ForgetStatements)) => Effect::Forget,
            (Some(sql), _) if classify(sql).transaction_control() => Effect::Unknown,
            (Some(sql), _) => {
                if classify(sql).session_state() {
                    self.names.lose_by(sql);
                }
                let declared = declared(sql);
                declared.map_or(Effect::Nothing, |(name, is_held)| Effect::Cursor { name, is_held })
            }
            (None, _) => Effect::Unknown,
        };
        if let Some(open) = self.flight.open() {
            open.effect = match std::mem::take(&mut open.effect) {
                Effect::Nothing => effect,
                // Of two nothing is known.
                before if effect == Effect::Nothing => before,
                _ => Effect::Unknown,
            };
        }
        // Whatever becomes of it, there is no other one.
        if name.is_empty() {
            self.names.forget(b"");
        }
        self.note(Named::Parse(name));
    }

    /// Notes what the server is going to do with a name, in the order of its answers.
    fn note(&mut self, named: Named) {
        match self.flight.open().filter(|it| it.named.len() < NAMED_MAX) {
            Some(open) => open.named.push_back(named),
            None => self.names.lose(),
        }
    }

    /// What a simple query does to what is remembered.
    fn effect(&mut self, header: Header) -> Effect {
        let body = self.program.body(header);
        let Some(sql) = name_at(body, 0).and_then(|it| std::str::from_utf8(it).ok()) else {
            self.is_marked = true;
            return Effect::Unknown;
        };
        self.is_marked |= marks(sql);
        match control(sql) {
            Some(Control::Savepoint(name)) => return Effect::Savepoint(name),
            Some(Control::Release(name)) => return Effect::Release(name),
            Some(Control::RollbackTo(name)) => return Effect::RollbackTo(name),
            Some(Control::Fetch { rows, cursor }) => return Effect::Fetch { rows, cursor },
            Some(Control::Deallocate(name)) => return Effect::Deallocate(name),
            Some(Control::ForgetStatements) => return Effect::Forget,
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
            self.names.lose_by(sql);
            let has = |word| has_word(sql, word);
            return match declared(sql).filter(|_| !traits.several()) {
                Some((name, is_held)) => Effect::Cursor { name, is_held },
                None if has("close") || has("discard") => Effect::Unknown,
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

/// Names of one segment that are followed.
const NAMED_MAX: usize = 16;

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
