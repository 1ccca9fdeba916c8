//! Which request each server message answers, as a table.
//!
//! The rules (PostgreSQL documentation, "Message Flow"; exec_*_message in
//! src/backend/tcop/postgres.c):
//!
//! 1. The messages of a request are answered in the order in which they were sent, by the messages
//!    in `Expect::take`. Any number of rows may come before the end of an Execute.
//! 2. An ErrorResponse takes the place of the rest of the reply. The server then skips everything
//!    up to the next Sync, which it answers with ReadyForQuery.
//! 3. A simple query is answered by any number of results and errors, and one ReadyForQuery.
//! 4. NoticeResponse, NotificationResponse and ParameterStatus can come between any two messages,
//!    and belong to no request.
//! 5. Between CopyOutResponse and CopyDone any number of copy data messages come. A COPY whose data
//!    the client sends is answered by CopyInResponse only. If the COPY has failed, the server
//!    ignores the rest of its data.
//! 6. An ErrorResponse of severity FATAL or PANIC is the last message of the session.
//!
//! Any other message is a violation. So is a body whose lengths don't fit. Rows and copy data are
//! checked by their reader, which reports a violation by `handle_violation`.

mod ownership;
mod positions;

use bytes::{BufMut, Bytes, BytesMut};
use onetrip_engine::{Outcome, Protocol, Step, Violation};

use crate::bodies::is_well_formed;
use crate::client::connect::TargetSessionAttrs;
use crate::client::position::Position;
use crate::message::tag::backend;
use crate::message::{
    ErrorResponse, Header, ReadyForQuery, TransactionStatus, error_response::field, execute,
    max_len,
};
use crate::outdated::{is_of_an_older_plan, may_be_outdated, means_stale};
use crate::sql::Traits;
use crate::startup::{PARAMETERS_MAX, is_utf8};
pub use ownership::NOT_RESET;
use ownership::{Own, Ownership, USUAL_ANSWERS};
use positions::Positions;

/// The state of a PostgreSQL session that spans requests; the engine's [`Protocol`].
#[derive(Debug)]
pub struct Postgres {
    status: TransactionStatus,
    session_changed: bool,
    statements_lost: bool,
    /// The server gave up waiting for a synchronous standby, since the last ReadyForQuery.
    unconfirmed: bool,
    /// What the host wants of the server.
    target: TargetSessionAttrs,
    /// What the server has reported since the login.
    is_standby: bool,
    is_read_only: bool,
    /// The server refused to write (25006), and nothing shows that its user wanted that.
    refused_to_write: bool,
    /// Functions of the session go on by plans for other types.
    is_outdated: bool,
    /// The connection serves reads of a replica; and the server has been promoted.
    is_replica: bool,
    is_promoted: bool,
    /// Its time zone is UTC.
    is_utc: bool,
    /// The server reads and writes texts in another encoding than UTF-8.
    is_foreign: bool,
    /// How often the session got another owner.
    sessions: u64,
    /// Bytes still to come of a message that is handed over in pieces.
    piece_left: usize,
    /// Prepared statements by number, each with the bytes that prepare it anew if the server lost
    /// it.
    statements: Vec<Option<Bytes>>,
    ownership: Ownership,
    positions: Positions,
    /// The names of the settings that the server has reported. There are so few that a linear
    /// search will do.
    parameters: Vec<Box<[u8]>>,
}

/// The number of a registered prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementId(u32);

/// Whether a statement that is prepared under a name stays prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// It does: the server finds it whenever it is used.
    Kept,
    /// It stays for the segment that prepares it. More is not known yet.
    Unknown,
    /// It stays for the segment that prepares it. After that the name may be unknown, or another
    /// client's statement: a pooler changes servers under the session, or may do so.
    Lost,
}

/// A message that belongs to no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// NoticeResponse
    Notice,
    /// NotificationResponse
    Notification,
    /// A NotificationResponse to the session's previous user, because it came before the reset was
    /// complete. The protocol has to say so, since the caller sees both only after the read that
    /// brought them.
    StaleNotification,
    /// ParameterStatus
    ParameterStatus,
}

impl Postgres {
    /// A session with the status of its first ReadyForQuery.
    pub fn new(status: TransactionStatus) -> Postgres {
        Postgres {
            status,
            session_changed: false,
            statements_lost: false,
            unconfirmed: false,
            target: TargetSessionAttrs::Any,
            is_standby: false,
            is_read_only: false,
            refused_to_write: false,
            is_outdated: false,
            is_replica: false,
            is_promoted: false,
            is_utc: false,
            is_foreign: false,
            sessions: 0,
            piece_left: 0,
            statements: Vec::new(),
            ownership: Ownership::new(),
            positions: Positions::default(),
            parameters: Vec::new(),
        }
    }

    /// Sets the server's process number from the login (0 if none came), and a random number that
    /// makes this connection's statement names unique. Without a process number, no name is relied
    /// on beyond its segment.
    pub fn identify(&mut self, process_id: i32, unique: u64) {
        self.ownership.identify(process_id, unique);
    }

    /// What the server has reported during the login.
    pub fn greeted(&mut self, settings: &[(String, String)]) {
        let zone = settings.iter().find(|(name, _)| name == "TimeZone");
        self.is_utc = zone.is_some_and(|(_, value)| is_utc(value.as_bytes()));
    }

    /// What the server has to be. Where that is a server that takes writes, and this one does not
    /// any more, the connection takes no new work: see [`Protocol::is_leaving`].
    pub fn target(&mut self, target: TargetSessionAttrs) {
        self.target = target;
    }

    /// The connection serves reads of a replica. Once that is promoted it takes no new work: see
    /// [`Protocol::is_leaving`].
    pub fn serve_as_replica(&mut self) {
        self.is_replica = true;
    }

    /// The host will send requests ahead of the answers to others, on a connection that is neither
    /// shared nor lent by the host. A probe of what is on the other end is sent with the first of
    /// them. (On a shared connection, the probe is sent when the first request goes ahead.) If that
    /// is a pooler not known to keep such requests apart, from then on one segment is sent at a
    /// time.
    pub fn send_ahead(&mut self) {
        self.ownership.send_ahead();
    }

    /// From now on all callers share the session. If a tag or the transaction status shows that one
    /// of them changed it, the connection ends: see [`Step::Unusable`].
    pub fn share(&mut self) {
        self.sessions += 1;
        self.ownership.share();
    }

    /// From now on one caller has the session to itself, until [`take_back`](Self::take_back).
    pub fn lend(&mut self) {
        self.sessions += 1;
        self.ownership.lend();
    }

    /// A number that differs for each owner of the session: what one has set is reset before the
    /// next one runs anything.
    pub fn session(&self) -> u64 {
        self.sessions
    }

    /// Whether the server has said that its time zone is UTC.
    pub fn is_utc(&self) -> bool {
        self.is_utc
    }

    /// Whether all callers share the session.
    pub fn is_shared(&self) -> bool {
        self.ownership.is_shared()
    }

    /// Whether one caller has the session to itself.
    pub fn is_lent(&self) -> bool {
        self.ownership.is_lent()
    }

    /// The caller that had the session to itself has gone, and nothing is in flight. Returns
    /// whether a reset is owed. If so, it is sent in front of the next request, and nothing sent
    /// behind it runs unless the reset succeeded.
    pub fn take_back(&mut self) -> bool {
        let changed = std::mem::take(&mut self.session_changed);
        self.ownership.take_back(self.status, changed)
    }

    /// Something ran on the session that the engine has not seen.
    pub fn touch(&mut self) {
        self.ownership.touch();
    }

    /// The caller that has the session to itself has reset it as it is to be, and that was answered.
    pub fn vouch(&mut self) {
        self.session_changed = false;
        self.ownership.vouch();
    }

    /// Whether a reset must still be sent.
    pub fn is_reset_owed(&self) -> bool {
        self.ownership.is_reset_owed()
    }

    /// Whether a reset must still be sent or answered. Notifications that come until then belong to
    /// the previous user.
    pub fn is_resetting(&self) -> bool {
        self.ownership.is_resetting()
    }

    /// Whether a statement that is prepared under a name stays prepared. If that is not known yet,
    /// the next flight finds it out.
    pub fn names(&mut self) -> Names {
        self.ownership.names()
    }

    /// The transaction status of the last ReadyForQuery.
    pub fn status(&self) -> TransactionStatus {
        self.status
    }

    /// Whether a command tag showed that the state of the session was changed: a SET, a LISTEN, a
    /// PREPARE and so on. On a shared connection that must not happen.
    pub fn session_changed(&self) -> bool {
        self.session_changed
    }

    /// Whether a command tag has shown since the last call that the session lost all its prepared
    /// statements. A tag comes only if the command succeeded.
    pub fn take_statements_lost(&mut self) -> bool {
        std::mem::take(&mut self.statements_lost)
    }

    /// From now on the position of what is written is asked for, behind each flight that may have
    /// written ([`Protocol::owes_behind`]).
    pub fn watch_positions(&mut self) {
        self.positions.watch();
    }

    /// Whether writes were acknowledged whose position is not known yet, or never will be.
    pub fn is_uncertain(&self) -> bool {
        self.positions.is_uncertain()
    }

    /// The position that the last answer told, once, with the mark that the host had set when it
    /// was asked for. It covers everything that was acknowledged before the question was sent.
    pub fn take_position(&mut self) -> Option<(Position, u64)> {
        self.positions.take()
    }

    /// Marks the questions from now on.
    pub fn mark_positions(&mut self, mark: u64) {
        self.positions.set_mark(mark);
    }

    /// Whether the other end is the server itself, and no pooler in between.
    pub fn is_direct(&self) -> bool {
        self.ownership.is_direct()
    }

    /// Registers a prepared statement, so that it can be prepared again if the server lost it
    /// (DISCARD ALL) or its plan became stale. `heal` holds the messages that prepare it anew:
    /// Close, since its name may still be taken; Parse; and Describe, since its columns may have
    /// changed.
    pub fn register(&mut self, heal: Bytes) -> StatementId {
        let free = self.statements.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.statements.push(None);
            self.statements.len() - 1
        });
        self.statements[index] = Some(heal);
        StatementId(index as u32)
    }

    /// Forgets a prepared statement.
    pub fn unregister(&mut self, id: StatementId) {
        if let Some(statement) = self.statements.get_mut(id.0 as usize) {
            *statement = None;
        }
    }

    fn error(
        &mut self,
        body: &[u8],
        len: usize,
        head: Option<&mut Expect>,
    ) -> Result<Step<Event>, Violation> {
        let error = ErrorResponse::decode(body).map_err(|_| Violation("a malformed error"))?;
        let severity = error
            .fields
            .value(field::SEVERITY_NONLOCALIZED)
            .or_else(|| error.fields.value(field::SEVERITY));
        if matches!(severity, Some(b"FATAL" | b"PANIC")) {
            return Ok(Step::Fatal(len));
        }
        let Some(head) = head else { return Err(Violation("an error that answers nothing")) };
        // Of a session of one's own it is not known whether its user set it read only.
        let code = error.fields.value(field::CODE);
        self.is_outdated |= is_of_an_older_plan(code, error.fields.value(field::ROUTINE));
        self.refused_to_write |=
            code == Some(b"25006") && !(self.session_changed && self.ownership.is_lent());
        if head.failed {
            return Err(Violation("a second error for one request"));
        }
        let cancelled = code == Some(b"57014");
        if cancelled && (head.resets || head.own == Own::Reset) {
            self.ownership.reset_was_cancelled();
        }
        if head.guard > 0 {
            head.failed = true;
            return Ok(Step::Skipped(len));
        }
        // An error of the statement at the end says nothing of the first.
        let never_started = head.first() == BIND
            && head.last == head.last_sent
            && !head.guarded
            && head.statement.is_some()
            && self.status == TransactionStatus::Idle
            && never_started(&error, head.healed);
        // Replies come in order, so an error in place of that to Parse or Bind shows that Execute
        // has not begun.
        let has_begun = !matches!(head.first(), PARSE | BIND);
        head.failed = true;
        if head.isolated {
            return Ok(Step::Part(len));
        }
        let outcome = match head.partial_effects && has_begun {
            true => Outcome::Unknown,
            false => Outcome::Rejected,
        };
        Ok(Step::Failed { len, outcome, never_started, cancelled })
    }

    /// Takes an answer to the reset that a request has taken along. It is complete once all of it
    /// was answered: its own COMMIT has ended its transaction.
    #[cold]
    fn take_reset(
        &mut self,
        tag: u8,
        body: &[u8],
        len: usize,
        head: &mut Expect,
    ) -> Result<Step<Event>, Violation> {
        if head.failed {
            return Err(Violation("a reply behind an error, before the Sync was answered"));
        }
        let is_usual = match (tag, head.guard) {
            (backend::CLOSE_COMPLETE, USUAL_ANSWERS) | (backend::PARSE_COMPLETE, 1) => true,
            (_, USUAL_ANSWERS | 0 | 1) => false,
            (backend::BIND_COMPLETE, at) => at % 2 == 1,
            (backend::COMMAND_COMPLETE, at) => at % 2 == 0,
            (backend::DATA_ROW, at) if at % 2 == 0 => {
                self.ownership.learn(Own::Reset, body);
                return Ok(Step::Own(len));
            }
            _ => false,
        };
        if !is_usual {
            return Err(Violation("a reply out of order"));
        }
        Ok(self.took_of_reset(1, len, head))
    }

    /// A command tag says that the session is another now.
    fn changes(&mut self, body: &[u8], head: &Expect) {
        let is_own = head.own != Own::No || head.resets;
        self.session_changed |= !(head.transaction_local || is_own);
        if body == b"PREPARE\0" {
            self.ownership.has_prepared();
        }
        if body.ends_with(b" ALL\0") {
            self.statements_lost = true;
            self.ownership.statements_lost();
            self.positions.statements_lost();
        }
    }

    /// See [`ownership::usual_part`].
    #[inline]
    fn usual_of_reset(&mut self, input: &[u8], head: &mut Expect) -> Option<Step<Event>> {
        let (len, answers) = ownership::usual_part(input, head.guard).filter(|_| !head.failed)?;
        Some(self.took_of_reset(answers, len, head))
    }

    /// So many answers to the reset were read.
    fn took_of_reset(&mut self, answers: u8, len: usize, head: &mut Expect) -> Step<Event> {
        head.guard -= answers;
        if head.guard == 0 {
            head.resets = false;
            self.ownership.answered(Own::Reset, false);
        }
        Step::Own(len)
    }

    /// The server reports a setting. Hosts keep them by name, so their number is limited.
    fn parameter(&mut self, body: &[u8], len: usize) -> Result<Step<Event>, Violation> {
        let mut texts = body.split(|byte| *byte == 0);
        let (name, value) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
        match name {
            b"in_hot_standby" => {
                self.is_standby = value == b"on";
                self.is_promoted = !self.is_standby;
            }
            b"default_transaction_read_only" => self.is_read_only = value == b"on",
            b"TimeZone" => self.is_utc = is_utc(value),
            b"client_encoding" => {
                self.is_foreign = !std::str::from_utf8(value).is_ok_and(is_utf8);
            }
            _ => {}
        }
        if !self.parameters.iter().any(|known| **known == *name) {
            if self.parameters.len() >= PARAMETERS_MAX {
                return Err(Violation("more settings than a server has"));
            }
            self.parameters.push(name.into());
        }
        Ok(Step::Event(len, Event::ParameterStatus))
    }

    /// Whether a question for the position may be asked now: no transaction is open behind what was
    /// sent. Behind a reset it waits.
    #[cold]
    fn may_ask(&self, idle: bool) -> bool {
        let is_outside = self.ownership.is_shared()
            || self.positions.is_outside()
            || idle && self.status == TransactionStatus::Idle;
        is_outside && !self.ownership.is_resetting() && self.ownership.unusable().is_none()
    }

    /// An incomplete message. A long one is handed over in pieces, and refused at once if no
    /// request expects it.
    fn incomplete(
        &mut self,
        tag: u8,
        here: usize,
        len: usize,
        head: Option<&mut Expect>,
    ) -> Result<Step<Event>, Violation> {
        let comes_in_pieces = matches!(tag, backend::DATA_ROW | backend::COPY_DATA);
        if len <= WHOLE_LEN_MAX || !(comes_in_pieces || tag == backend::FUNCTION_CALL_RESPONSE) {
            return Ok(Step::Need(len));
        }
        if !head.is_some_and(|head| head.takes_rows(tag)) {
            return Err(Violation("a long message that was not asked for"));
        }
        self.piece_left = len;
        Ok(self.next_piece(here))
    }

    fn next_piece(&mut self, here: usize) -> Step<Event> {
        let len = here.min(self.piece_left);
        if len == 0 {
            return Step::Need(1);
        }
        self.piece_left -= len;
        Step::Piece { len, left: self.piece_left }
    }

    fn ready(
        &mut self,
        body: &[u8],
        len: usize,
        head: Option<&mut Expect>,
    ) -> Result<Step<Event>, Violation> {
        let ready = ReadyForQuery::decode(body).map_err(|_| Violation("a malformed status"))?;
        let Some(head) = head else {
            return Err(Violation("a ReadyForQuery that answers nothing"));
        };
        let unanswered = head.guarded || head.guard > 0 || head.pending & !SIMPLE != 0;
        if unanswered && !head.failed {
            return Err(Violation("a ReadyForQuery in front of a reply"));
        }
        self.status = ready.status;
        let is_outside = self.status == TransactionStatus::Idle;
        self.positions.ready(head.written, is_outside);
        // The segment that took a reset along is over, and the reset was not answered to its end.
        if self.ownership.is_along() {
            self.ownership.answered(Own::Reset, true);
        }
        if head.own == Own::Position {
            self.positions.answered(head.failed, is_outside);
        } else if head.own != Own::No {
            // An error behind the last answer belongs to none of the answers, so the answered
            // result stands.
            self.ownership.answered(head.own, head.failed && head.pending != 0);
        }
        self.ownership.check_shared(self.status, self.session_changed);
        if self.is_foreign {
            self.ownership.is_foreign();
        }
        Ok(match std::mem::take(&mut self.unconfirmed) {
            // Each row of the run is answered by itself, and those in front of it stand.
            true if head.isolated => Step::Unusable(NOT_REPLICATED),
            true => Step::Unconfirmed(len),
            false if head.isolated && head.goes_on() => Step::Part(len),
            false => Step::Settled(len),
        })
    }
}

/// A row, or a piece of a COPY, that is longer than this is handed over in pieces, unless all of it
/// was read at once. So no row of 1 GiB has to be kept in memory, whether it is passed on or
/// dropped. It is the most that the client reads at once.
pub const WHOLE_LEN_MAX: usize = 128 << 10;

impl Protocol for Postgres {
    type Expect = Expect;
    type Event = Event;
    const SYNC: &'static [u8] = &crate::message::SYNC;
    const FLUSH: &'static [u8] = &crate::message::FLUSH;
    const TERMINATE: &'static [u8] = &crate::message::TERMINATE;

    fn step(
        &mut self,
        input: &[u8],
        mut head: Option<&mut Expect>,
    ) -> Result<Step<Event>, Violation> {
        if self.piece_left > 0 {
            return Ok(self.next_piece(input.len()));
        }
        if let Some(why) = self.ownership.unusable() {
            return Ok(Step::Unusable(why));
        }
        if let Some(head) = head.as_deref_mut().filter(|head| head.resets)
            && let Some(step) = self.usual_of_reset(input, head)
        {
            return Ok(step);
        }
        let Some(&tag) = input.first() else { return Ok(Step::Need(Header::LEN)) };
        let Some(len_max) = max_len(tag) else { return Err(Violation("an unknown message")) };
        let Ok(header) = Header::peek(input) else { return Err(Violation("an impossible length")) };
        let Some(header) = header else { return Ok(Step::Need(Header::LEN)) };
        if header.len > len_max {
            return Err(Violation("a message longer than its type allows"));
        }
        let len = header.message_len();
        let Some(body) = input.get(Header::LEN..len) else {
            return self.incomplete(tag, input.len(), len, head);
        };
        if !is_well_formed(tag, body) {
            return Err(Violation("a malformed message"));
        }
        match tag {
            backend::NOTICE_RESPONSE => {
                self.unconfirmed |= head.is_some() && is_not_replicated(body);
                Ok(Step::Event(len, Event::Notice))
            }
            backend::NOTIFICATION_RESPONSE => {
                let event = match self.ownership.is_resetting() {
                    true => Event::StaleNotification,
                    false => Event::Notification,
                };
                Ok(Step::Event(len, event))
            }
            backend::PARAMETER_STATUS => self.parameter(body, len),
            backend::ERROR_RESPONSE => self.error(body, len, head),
            backend::READY_FOR_QUERY => self.ready(body, len, head),
            _ => {
                let Some(head) = head else {
                    return Err(Violation("a reply that answers nothing"));
                };
                if tag == backend::COMMAND_COMPLETE && changes_session(body) {
                    self.changes(body, head);
                }
                if head.own != Own::No && tag == backend::DATA_ROW {
                    match head.own {
                        Own::Position => {
                            let is_direct = self.ownership.is_direct();
                            self.positions.learn(body, is_direct);
                        }
                        own => self.ownership.learn(own, body),
                    }
                }
                if head.resets {
                    return self.take_reset(tag, body, len, head);
                }
                head.take(tag, input, len)
            }
        }
    }

    fn skip(&mut self, expect: &mut Expect) {
        expect.failed = true;
    }

    fn heal(&mut self, expect: &mut Expect, out: &mut BytesMut) {
        let Some(StatementId(index)) = expect.statement else { return };
        if let Some(Some(heal)) = self.statements.get(index as usize) {
            out.put_slice(heal);
            expect.pending |= CLOSE | PARSE | DESCRIBE_PARAMETERS | DESCRIBE_ROWS;
            expect.healed = true;
        }
        expect.sent = expect.pending;
        expect.failed = false;
    }

    fn write_failing(&self, out: &mut BytesMut) -> Option<Expect> {
        out.extend_from_slice(&execute::failing());
        Some(Expect::sync().execute())
    }

    fn heal_len(&self, expect: &Expect) -> usize {
        let Some(StatementId(index)) = expect.statement else { return 0 };
        let heal = self.statements.get(index as usize);
        heal.and_then(Option::as_ref).map_or(0, |heal| heal.len())
    }

    /// A request that prepares its statement may have done so the first time.
    fn renew(&mut self, expect: &mut Expect, out: &mut BytesMut) {
        let prepares = expect.pending & PARSE != 0 && !expect.renews;
        let Some(StatementId(index)) = expect.statement.filter(|_| prepares) else { return };
        let Some(Some(heal)) = self.statements.get(index as usize) else { return };
        // Its first message is the Close.
        let header = Header::peek(heal).ok().flatten();
        if let Some(close) = header.and_then(|header| heal.get(..header.message_len())) {
            out.put_slice(close);
            (expect.renews, expect.renewing) = (true, true);
        }
    }

    fn restart(&mut self, expect: &mut Expect) {
        expect.pending = expect.sent;
        (expect.more, expect.last) = (expect.more_sent, expect.last_sent);
        (expect.failed, expect.guard, expect.renewing) = (false, 0, expect.renews);
        expect.resets = false;
    }

    #[inline]
    fn owes(&self, idle: bool) -> bool {
        self.ownership.owes(idle, self.status)
    }

    fn write_owed(&mut self, out: &mut BytesMut) -> Option<Expect> {
        let resets = self.is_reset_owed();
        let expect = self.ownership.write(self.status, out);
        if resets {
            self.session_changed = false;
        }
        Some(expect)
    }

    #[inline]
    fn owes_behind(&self, idle: bool) -> bool {
        self.positions.owes() && self.may_ask(idle)
    }

    fn write_behind(&mut self, out: &mut BytesMut) -> Option<Expect> {
        let keeps_names = self.ownership.keeps_names();
        Some(self.positions.write(keeps_names, self.ownership.unique(), out))
    }

    #[inline]
    fn one_segment(&self) -> bool {
        self.ownership.one_segment()
    }

    #[inline]
    fn takes_owed_along(&self, expect: &Expect) -> bool {
        self.ownership.goes_along(expect, self.status)
    }

    #[inline]
    fn may_begin(&self, expect: &Expect) -> bool {
        self.ownership.may_begin(expect, self.status)
    }

    #[inline]
    fn begin(&mut self, expect: &mut Expect, begins: bool, out: &mut BytesMut) {
        let runs = expect.pending & (EXECUTE | SIMPLE) != 0;
        let touches = !expect.leaves_nothing && runs;
        let may_write = runs && (touches || expect.commits);
        expect.written = self.positions.sending(may_write, expect.commits);
        if expect.temporary {
            self.ownership.has_temporary();
        }
        if begins && self.ownership.is_reset_owed() && self.takes_owed_along(expect) {
            self.session_changed = false;
            expect.resets = true;
            (expect.guard, expect.more_sent) = (self.ownership.send_along(out), expect.more);
            self.ownership.begin(touches, false, out);
        } else if self.ownership.begin(touches, begins, out) {
            (expect.guard, expect.more_sent) = (GUARD_ANSWERS, expect.more);
        }
    }

    fn begin_len(&self) -> usize {
        OWED_LEN_MAX
    }

    /// A standby, or a primary that is being taken out of service, answers reads as before. A
    /// connection that is to write leaves it. One whose session keeps plans of an older schema is of no
    /// use to others.
    fn is_leaving(&self) -> bool {
        // Whoever has the session may have set that, and the reset takes it back.
        let is_own = self.ownership.is_lent() || self.is_resetting();
        match self.target {
            _ if self.is_outdated => true,
            _ if self.is_replica => self.is_promoted,
            TargetSessionAttrs::Primary => self.refused_to_write || self.is_standby,
            TargetSessionAttrs::ReadWrite => {
                self.refused_to_write || self.is_standby || self.is_read_only && !is_own
            }
            _ => false,
        }
    }

    /// The error of a reset that was taken along says nothing of the request.
    fn reason_to_skip(&mut self, error: Bytes) -> Bytes {
        match self.ownership.is_along() {
            true => self.ownership.guard_is_missing(),
            false => error,
        }
    }

    fn is_skipped(&self, expect: &Expect) -> bool {
        expect.guard > 0 && self.ownership.is_guard_gone()
    }
}

/// The Describe of a statement without parameters and columns is answered by two messages.
const GUARD_ANSWERS: u8 = 2;

/// The longest request of the protocol's own is the reset that prepares its statements.
const OWED_LEN_MAX: usize = 1280;

/// The part of the reply to one request that is still to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    /// The messages that were sent and are unanswered, as bits. They are answered from the lowest
    /// bit up.
    pending: u8,
    /// `pending` as it was when the request was sent, to send it again.
    sent: u8,
    failed: bool,
    /// Its statement was prepared anew in front of it.
    healed: bool,
    partial_effects: bool,
    transaction_local: bool,
    /// A Describe of a portal without rows is in front of everything else, and unanswered.
    guarded: bool,
    /// How many answers to what [`Postgres`] itself put in front are still to come.
    guard: u8,
    /// That is a reset.
    resets: bool,
    /// The request begins with a Close of the statement that it prepares, since it was sent before;
    /// and that is unanswered.
    renews: bool,
    renewing: bool,
    /// Each Execute of a run has a Sync of its own.
    isolated: bool,
    /// The request can leave nothing behind in its session.
    leaves_nothing: bool,
    /// The request makes something temporary.
    temporary: bool,
    /// The names in later texts may mean other things behind it.
    renames: bool,
    /// The request ends the transaction, if one is open.
    commits: bool,
    /// The number of the last request, up to this one, that may have written.
    written: u32,
    /// Which request of the protocol's own this is, if any.
    own: Own,
    /// The messages that follow again as often as `more` says, and those that follow once at the
    /// end.
    again: u8,
    last: u8,
    /// `last` as it was when the request was sent.
    last_sent: u8,
    copy: Copying,
    statement: Option<StatementId>,
    /// How often `again` follows.
    more: u32,
    /// `more` as it was when the request was sent.
    more_sent: u32,
}

/// The progress of a COPY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Copying {
    /// There is none.
    #[default]
    Not,
    /// The text asks for a COPY FROM STDIN.
    In,
    /// The text asks for a COPY TO STDOUT.
    Out,
    /// The server sends copy data.
    OutData,
    /// The data of the client is being sent, or the server has sent all of its own.
    Begun,
}

const CLOSE: u8 = 1;
const PARSE: u8 = 1 << 1;
const DESCRIBE_PARAMETERS: u8 = 1 << 2;
/// The second half of the answer to the Describe of a statement.
const DESCRIBE_ROWS: u8 = 1 << 3;
const BIND: u8 = 1 << 4;
const DESCRIBE_PORTAL: u8 = 1 << 5;
const EXECUTE: u8 = 1 << 6;
const SIMPLE: u8 = 1 << 7;

impl Expect {
    /// Only a Sync.
    pub const fn sync() -> Expect {
        Expect {
            pending: 0,
            sent: 0,
            failed: false,
            healed: false,
            partial_effects: false,
            transaction_local: false,
            guarded: false,
            guard: 0,
            resets: false,
            renews: false,
            renewing: false,
            isolated: false,
            leaves_nothing: false,
            temporary: false,
            renames: false,
            commits: false,
            written: 0,
            own: Own::No,
            again: BIND | EXECUTE,
            last: 0,
            last_sent: 0,
            copy: Copying::Not,
            statement: None,
            more: 0,
            more_sent: 0,
        }
    }

    /// A run: a Bind and an Execute, this many times, at least once. It is one request, and the
    /// first error ends it.
    pub const fn run(times: u32) -> Expect {
        let more = times.saturating_sub(1);
        Expect { more, more_sent: more, ..Expect::sync().bind().execute() }
    }

    /// A request of the protocol's own with this many statements.
    const fn own(own: Own, statements: u32) -> Expect {
        let again = PARSE | BIND | EXECUTE;
        Expect { own, again, more: statements - 1, ..Expect::sync().parse().bind().execute() }
    }

    /// The same, of statements that are prepared.
    const fn own_run(own: Own, statements: u32) -> Expect {
        Expect { own, more: statements - 1, ..Expect::sync().bind().execute() }
    }

    const fn then(self, last: u8) -> Expect {
        Expect { last, last_sent: last, ..self }
    }

    /// Adds a Parse, or a Close, at the end.
    const fn then_parse(self) -> Expect {
        self.then(PARSE)
    }

    const fn then_close(self) -> Expect {
        self.then(CLOSE)
    }

    /// Adds a statement at the end: Parse, Bind and Execute.
    pub const fn then_statement(self) -> Expect {
        self.then(PARSE | BIND | EXECUTE)
    }

    /// Whether it is only a Sync.
    fn is_sync(&self) -> bool {
        self.pending == 0 && !self.guarded
    }

    /// Whether the server can skip all of it behind a guard that fails.
    fn can_be_guarded(&self) -> bool {
        self.pending & SIMPLE == 0 && self.copy == Copying::Not && !self.isolated
    }

    /// A run with a Sync behind each Execute. An error is then a part of the reply: after it comes
    /// the next ReadyForQuery, and the next Bind is answered.
    pub const fn isolated_run(times: u32) -> Expect {
        Expect { isolated: true, ..Expect::run(times) }
    }

    /// An isolated run with a Parse in front of each Bind.
    pub const fn isolated_run_of_texts(times: u32) -> Expect {
        Expect { again: PARSE | BIND | EXECUTE, ..Expect::isolated_run(times).parse() }
    }

    /// A simple query.
    pub const fn simple() -> Expect {
        Expect::sync().and(SIMPLE)
    }

    const fn and(mut self, pending: u8) -> Expect {
        self.pending |= pending;
        self.sent = self.pending;
        self
    }

    /// A simple query that is a COPY FROM STDIN.
    pub const fn copy_in() -> Expect {
        Expect { copy: Copying::In, ..Expect::simple() }
    }

    /// A simple query that is a COPY TO STDOUT.
    pub const fn copy_out() -> Expect {
        Expect { copy: Copying::Out, ..Expect::simple() }
    }

    /// Adds a Close in front of everything.
    pub const fn close(self) -> Expect {
        self.and(CLOSE)
    }

    /// Adds a Parse.
    pub const fn parse(self) -> Expect {
        self.and(PARSE)
    }

    /// Adds a Describe of a statement.
    pub const fn describe_statement(self) -> Expect {
        self.and(DESCRIBE_PARAMETERS | DESCRIBE_ROWS)
    }

    /// Adds a Describe of a portal that returns no rows, in front of everything. If there is no
    /// such portal, the server skips the whole request. Not for a request that may be sent again.
    pub const fn guarded(mut self) -> Expect {
        self.guarded = true;
        self
    }

    /// Adds a Bind.
    pub const fn bind(self) -> Expect {
        self.and(BIND)
    }

    /// Adds a Describe of the portal.
    pub const fn describe_portal(self) -> Expect {
        self.and(DESCRIBE_PORTAL)
    }

    /// Adds an Execute.
    pub const fn execute(self) -> Expect {
        self.and(EXECUTE)
    }

    /// Sets the registered statement that the Bind names.
    pub const fn of_statement(mut self, statement: StatementId) -> Expect {
        self.statement = Some(statement);
        self
    }

    /// Sets what the text of its statement shows, as far as it matters for the reply and for what
    /// the request may leave behind.
    pub fn of_traits(self, traits: Traits) -> Expect {
        let expect = if traits.partial_effects() { self.partial_effects() } else { self };
        // ReadyForQuery reports an open transaction, so its tag need not.
        let local =
            traits.transaction_local() || traits.transaction_control() || traits.savepoint();
        let expect = if local { expect.transaction_local() } else { expect };
        let (temporary, renames) = (traits.temporary(), traits.renames());
        let expect = Expect { temporary, renames, ..expect };
        if traits.leaves_nothing() { expect.leaves_nothing() } else { expect }
    }

    /// Marks a request whose error does not prove that it had no effect: CALL, several statements
    /// in one text, a statement that can't run inside a transaction.
    pub const fn partial_effects(mut self) -> Expect {
        self.partial_effects = true;
        self
    }

    /// Marks a request whose tag may be that of a SET although its effect ends with its
    /// transaction: SET LOCAL.
    pub const fn transaction_local(mut self) -> Expect {
        self.transaction_local = true;
        self
    }

    /// Whether the names in later texts of its session may mean other things behind it.
    pub fn renames(&self) -> bool {
        self.renames
    }

    /// Marks a request that can leave nothing behind in its session: see
    /// [`Traits::leaves_nothing`](crate::sql::Traits::leaves_nothing).
    pub const fn leaves_nothing(mut self) -> Expect {
        self.leaves_nothing = true;
        self
    }

    /// Marks a COMMIT, behind which no transaction is open whatever is answered.
    pub const fn commits(mut self) -> Expect {
        self.commits = true;
        self
    }

    /// Whether its error does not prove that it had no effect.
    pub const fn has_partial_effects(&self) -> bool {
        self.partial_effects
    }

    /// The message that the next part of the reply must answer.
    fn first(&self) -> u8 {
        self.pending & self.pending.wrapping_neg()
    }

    /// Whether rows, or copy data, may come now.
    fn takes_rows(&self, tag: u8) -> bool {
        !(self.failed || self.guarded || self.guard > 0)
            && match tag {
                backend::DATA_ROW => matches!(self.first(), EXECUTE | SIMPLE),
                _ => tag == backend::COPY_DATA && self.copy == Copying::OutData,
            }
    }

    /// Takes a message of a COPY.
    fn take_copy(&mut self, tag: u8, input: &[u8], len: usize) -> Result<Step<Event>, Violation> {
        self.copy = match (tag, self.copy) {
            (backend::COPY_IN_RESPONSE, Copying::In) | (backend::COPY_DONE, Copying::OutData) => {
                Copying::Begun
            }
            (backend::COPY_OUT_RESPONSE, Copying::Out) => Copying::OutData,
            (backend::COPY_DATA, Copying::OutData) => {
                return Ok(Step::Part(run_len(backend::COPY_DATA, input, len)));
            }
            _ => return Err(Violation("a COPY that was not asked for")),
        };
        Ok(Step::Part(len))
    }

    /// The table: which message answers what, and what is pending after it.
    #[inline]
    fn take(&mut self, tag: u8, input: &[u8], len: usize) -> Result<Step<Event>, Violation> {
        const OUT_OF_ORDER: Violation = Violation("a reply out of order");
        if self.failed {
            return Err(Violation("a reply behind an error, before the Sync was answered"));
        }
        if self.guard > 0 {
            self.guard -= 1;
            return match (tag, self.guard) {
                (backend::PARAMETER_DESCRIPTION, 1) | (backend::NO_DATA, 0) => Ok(Step::Own(len)),
                _ => Err(OUT_OF_ORDER),
            };
        }
        if self.renewing {
            self.renewing = false;
            return match tag {
                backend::CLOSE_COMPLETE => Ok(Step::Own(len)),
                _ => Err(OUT_OF_ORDER),
            };
        }
        if self.guarded {
            self.guarded = false;
            return match tag {
                backend::NO_DATA => Ok(Step::Part(len)),
                _ => Err(OUT_OF_ORDER),
            };
        }
        let is_run = self.more > 0 && !self.isolated && self.own == Own::No;
        if tag == backend::BIND_COMPLETE && is_run {
            let len = self.take_pairs(input);
            if len > 0 {
                return Ok(Step::Part(len));
            }
        }
        if self.copy == Copying::OutData && tag == backend::COMMAND_COMPLETE {
            return Err(OUT_OF_ORDER);
        }
        match (tag, self.first()) {
            (backend::DATA_ROW, EXECUTE | SIMPLE) => {
                return Ok(Step::Part(run_len(backend::DATA_ROW, input, len)));
            }
            (backend::CLOSE_COMPLETE, CLOSE)
            | (backend::PARSE_COMPLETE, PARSE)
            | (backend::PARAMETER_DESCRIPTION, DESCRIBE_PARAMETERS)
            | (backend::ROW_DESCRIPTION | backend::NO_DATA, DESCRIBE_ROWS | DESCRIBE_PORTAL)
            | (backend::BIND_COMPLETE, BIND)
            | (
                backend::COMMAND_COMPLETE
                | backend::EMPTY_QUERY_RESPONSE
                | backend::PORTAL_SUSPENDED,
                EXECUTE,
            ) => self.pending &= self.pending - 1,
            (
                backend::ROW_DESCRIPTION
                | backend::COMMAND_COMPLETE
                | backend::EMPTY_QUERY_RESPONSE,
                SIMPLE,
            ) => return Ok(Step::Part(len)),
            (
                backend::COPY_IN_RESPONSE
                | backend::COPY_OUT_RESPONSE
                | backend::COPY_BOTH_RESPONSE
                | backend::COPY_DATA
                | backend::COPY_DONE,
                _,
            ) => return self.take_copy(tag, input, len),
            _ => return Err(OUT_OF_ORDER),
        }
        let is_part = self.pending != 0 || !self.isolated && self.goes_on();
        Ok(if is_part { Step::Part(len) } else { Step::Complete(len) })
    }

    /// Goes on to the messages that follow again, or once at the end. False if there are none.
    fn goes_on(&mut self) -> bool {
        if self.more == 0 {
            self.pending = std::mem::take(&mut self.last);
            return self.pending != 0;
        }
        self.more -= 1;
        self.pending = self.again;
        self.failed = false;
        true
    }

    /// Takes the usual answers of a run: whole pairs of BindComplete and CommandComplete at the
    /// front of `input`, except for the last pair of the run. Returns their length.
    fn take_pairs(&mut self, input: &[u8]) -> usize {
        let mut end = 0;
        while self.pending == BIND | EXECUTE
            && self.more > 0
            && let Some(len) = pair_len(&input[end..])
        {
            end += len;
            self.more -= 1;
        }
        end
    }
}

/// The length of a BindComplete and the CommandComplete behind it, if both are whole and the
/// command, such as an INSERT or UPDATE, leaves the session as it is.
#[inline]
fn pair_len(input: &[u8]) -> Option<usize> {
    const FRONT: [u8; 6] = [backend::BIND_COMPLETE, 0, 0, 0, 4, backend::COMMAND_COMPLETE];
    let rest = input.strip_prefix(&FRONT)?;
    let len = u32::from_be_bytes(*rest.first_chunk()?) as usize;
    // A length out of bounds is left to the regular step, which refuses it.
    let is_usual = (4..TAG_LEN_MAX).contains(&len);
    let body = if is_usual { rest.get(4..len)? } else { return None };
    (!changes_session(body)).then_some(FRONT.len() + len)
}

/// More bytes than any command tag of PostgreSQL has, with two numbers
/// (src/include/tcop/cmdtaglist.h).
const TAG_LEN_MAX: usize = 128;

/// The length of the run of whole messages of this type, rows or copy data, at the front of
/// `input`. The first has the length `len`. A row is only framed until its reader decodes it.
#[inline(always)]
fn run_len(tag: u8, input: &[u8], len: usize) -> usize {
    let mut end = len;
    while let Some(&[next, a, b, c, d]) = input[end..].first_chunk() {
        if next != tag {
            break;
        }
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        // A length out of bounds is left to the next step, which refuses it.
        if !(4..=1 << 30).contains(&len) || input.len() - end <= len {
            break;
        }
        end += 1 + len;
    }
    end
}

/// Why a commit that the server confirmed may be lost, in words that begin a line.
pub const NOT_REPLICATED: &str =
    "the server committed, but no longer waited for a synchronous standby to confirm it";

/// Whether a notice says that the wait for a synchronous standby was cut short
/// (SyncRepWaitForLSN in src/backend/replication/syncrep.c). Its text is translated and its code is
/// that of any warning, or 57P01; the name of the routine is neither.
fn is_not_replicated(body: &[u8]) -> bool {
    ErrorResponse::decode(body).is_ok_and(|notice| {
        notice.fields.value(field::ROUTINE) == Some(b"SyncRepWaitForLSN".as_slice())
    })
}

/// Whether the error, which came in front of BindComplete, says that a prepared statement did not
/// even start for a reason that is gone once it is prepared anew. An error that only may come from an
/// outdated Parse is looked at once: `healed` says whether there was a new one.
fn never_started(error: &ErrorResponse<'_>, healed: bool) -> bool {
    let (code, routine) = (error.fields.value(field::CODE), error.fields.value(field::ROUTINE));
    means_stale(code, routine) || !healed && may_be_outdated(code, routine)
}

/// Whether a time zone is UTC, by its usual names: `UTC`, `Etc/UTC`, and the same of `GMT`.
fn is_utc(zone: &[u8]) -> bool {
    zone.ends_with(b"UTC") || zone.ends_with(b"GMT")
}

/// Whether this is the command tag of a statement that changes the state of its session
/// (src/include/tcop/cmdtaglist.h).
fn changes_session(body: &[u8]) -> bool {
    let tag = body.strip_suffix(&[0]).unwrap_or(body);
    match tag.first() {
        Some(b'S') => matches!(tag, b"SET" | b"START TRANSACTION" | b"SAVEPOINT"),
        Some(b'B') => tag == b"BEGIN",
        Some(b'L') => matches!(tag, b"LISTEN" | b"LOAD"),
        Some(b'U') => tag == b"UNLISTEN",
        Some(b'R') => tag == b"RESET",
        Some(b'P') => tag == b"PREPARE",
        Some(b'D') => {
            tag == b"DECLARE CURSOR"
                || tag.starts_with(b"DISCARD")
                || tag.starts_with(b"DEALLOCATE")
        }
        _ => false,
    }
}
