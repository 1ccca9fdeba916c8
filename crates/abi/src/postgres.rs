//! A connection to PostgreSQL: its login, its statements, and the requests that are on their way.

use bytes::{BufMut, Bytes, BytesMut};
use onetrip_engine::{
    CancelEnd, CloseReason, Connection, End, Failure, Outcome, Output, Request, SubmitError,
    SyncPoint, Ticket, Time, Token,
};
use onetrip_postgres::message::{
    CancelRequest, EncodeError, SYNC, Secret, TransactionStatus, error_response, tag::backend,
};
use onetrip_postgres::startup::{NONCE_LEN, Ready, SecretKey, Startup, StartupError};
use onetrip_postgres::{Event, Expect, Postgres as Protocol};

use crate::completion::{Completions, close, close_code, end_code, event, kind};
use crate::export::flag;
use crate::settings::{Invalid, Settings};

pub(crate) mod request;
mod statements;

use request::{Submission, expect, expect_simple};
use statements::{NameTaken, Number, Statements, Way};

/// One connection, from its first byte to its last.
#[derive(Debug)]
pub(crate) struct Postgres {
    /// Until the first ReadyForQuery.
    login: Option<Login>,
    engine: Connection<Protocol>,
    statements: Statements,
    /// What is known of the requests on their way, by token.
    uses: Vec<Use>,
    /// What has come of a long message, where the host does not take pieces.
    gathered: Option<(Token, BytesMut)>,
    pieces: bool,
    process_id: i32,
    secret_key: SecretKey,
    closed: bool,
}

#[derive(Debug)]
struct Login {
    startup: Startup,
    /// What is to be sent of it.
    out: BytesMut,
}

/// What a request on its way is to the statement that it names.
#[derive(Debug, Default)]
struct Use {
    statement: Number,
    /// Its Parse was answered.
    parsed: bool,
    /// A name that the server is to forget with it.
    close: Option<String>,
    is_live: bool,
}

/// Why a request was not taken. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Closed,
    Full,
    /// It is no request: lengths, flags, a NUL, a token that is on its way or above the limit.
    Malformed,
    NameTaken,
}

/// Tokens are small numbers, used again: a table is kept by them.
pub(crate) const TOKEN_MAX: u32 = 1 << 20;

/// Memory that is taken at once for a message that a server announces; for more it has to send some first.
const GATHER_AHEAD_MAX: usize = 1 << 20;

impl Postgres {
    pub(crate) fn new(
        now: Time,
        settings: &[u8],
        nonce: [u8; NONCE_LEN],
        to: &mut Completions,
    ) -> Postgres {
        let (settings, invalid) = match Settings::read(settings) {
            Ok(settings) => (Some(settings), None),
            Err(invalid) => (None, Some(invalid)),
        };
        let limits = settings.as_ref().map(|it| it.limits.clone()).unwrap_or_default();
        let (threshold, max) =
            settings.as_ref().map_or((0, 0), |it| (it.prepare_threshold, it.statements_max));
        let mut connection = Postgres {
            login: None,
            engine: Connection::new(now, Protocol::new(TransactionStatus::Idle), limits),
            statements: Statements::new(threshold, max),
            uses: Vec::new(),
            gathered: None,
            pieces: settings.as_ref().is_some_and(|it| it.pieces),
            process_id: 0,
            secret_key: SecretKey::default(),
            closed: false,
        };
        let startup = match settings {
            Some(settings) => Startup::new(settings.startup, nonce).map_err(|it| it.to_string()),
            None => Err(invalid.unwrap_or_default()),
        };
        match startup {
            Ok(startup) => connection.login = Some(Login::new(startup)),
            Err(invalid) => connection.refuse_login(invalid, to),
        }
        connection
    }

    fn refuse_login(&mut self, why: Invalid, to: &mut Completions) {
        self.end(close::LOGIN, Bytes::from(why), to);
    }

    /// The connection has ended for a reason that the engine does not know.
    fn end(&mut self, reason: u32, block: Bytes, to: &mut Completions) {
        if !std::mem::replace(&mut self.closed, true) {
            to.push(kind::CLOSED, 0, (reason, 0), block);
        }
        self.login = None;
        self.engine.handle_closed();
        self.settle(to);
    }

    // --- bytes ---

    pub(crate) fn receive(&mut self, now: Time, input: &mut BytesMut, to: &mut Completions) {
        if self.login.is_some() && !self.log_in(input, to) {
            return;
        }
        self.engine.handle_bytes(now, input);
        self.settle(to);
    }

    /// Goes on with the login. Returns whether the session has begun.
    fn log_in(&mut self, input: &mut BytesMut, to: &mut Completions) -> bool {
        let Some(login) = &mut self.login else { return true };
        let result = login.startup.handle_bytes(input);
        login.take_output();
        match result {
            Ok(None) => false,
            Ok(Some(ready)) => {
                self.login = None;
                self.ready(ready, to);
                true
            }
            Err(error) => {
                self.fail_login(error, to);
                false
            }
        }
    }

    fn fail_login(&mut self, error: StartupError, to: &mut Completions) {
        let mut block = BytesMut::new();
        let reason = match &error {
            StartupError::Server(error) if error.encode_error(&mut block).is_ok() => close::SERVER,
            _ => {
                block = BytesMut::from(error.to_string().as_bytes());
                close::LOGIN
            }
        };
        self.end(reason, block.freeze(), to);
    }

    fn ready(&mut self, ready: Ready, to: &mut Completions) {
        (self.process_id, self.secret_key) = (ready.process_id, ready.secret_key);
        let mut settings = BytesMut::new();
        for text in ready.parameters.iter().flat_map(|(name, value)| [name, value]) {
            settings.put_slice(text.as_bytes());
            settings.put_u8(0);
        }
        to.push(kind::READY, 0, (self.process_id.cast_unsigned(), 0), settings.freeze());
        for notice in ready.notices {
            let mut block = BytesMut::new();
            if notice.encode_notice(&mut block).is_ok() {
                to.push(kind::EVENT, 0, (event::NOTICE, 0), block.freeze());
            }
        }
    }

    /// What is to be sent: of the login as long as that lasts, though requests may wait behind it.
    pub(crate) fn transmit(&self) -> &[u8] {
        match &self.login {
            Some(login) => &login.out,
            None => self.engine.transmit(),
        }
    }

    pub(crate) fn written(&mut self, now: Time, bytes: usize, to: &mut Completions) {
        match &mut self.login {
            Some(login) => login.written(bytes),
            None => {
                self.engine.handle_written(now, bytes.min(self.engine.transmit().len()));
                self.settle(to);
            }
        }
    }

    pub(crate) fn time(&mut self, now: Time, to: &mut Completions) {
        self.engine.handle_time(now);
        self.settle(to);
    }

    pub(crate) fn deadline(&self) -> Time {
        self.engine.poll_deadline().unwrap_or(Time::NEVER)
    }

    pub(crate) fn peer_closed(&mut self, to: &mut Completions) {
        match &mut self.login {
            Some(login) => {
                let why = login.startup.handle_closed().to_string();
                self.end(close::LOGIN, Bytes::from(why), to);
            }
            None => {
                self.engine.handle_closed();
                self.settle(to);
            }
        }
    }

    pub(crate) fn terminate(&mut self, now: Time, to: &mut Completions) {
        self.engine.terminate(now);
        self.settle(to);
    }

    // --- requests ---

    /// Takes a request. What it is answered comes under its token.
    pub(crate) fn submit(
        &mut self,
        now: Time,
        token: u32,
        submission: Submission<'_>,
        deadline: Time,
        to: &mut Completions,
    ) -> Result<Ticket, Refused> {
        self.check(token)?;
        let result = match submission.has(flag::SIMPLE) {
            true => self.submit_simple(now, token, submission, deadline),
            false => self.submit_statement(now, token, submission, deadline),
        };
        self.settle(to);
        result
    }

    fn submit_simple(
        &mut self,
        now: Time,
        token: u32,
        submission: Submission<'_>,
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        let traits = self.statements.traits(submission.text);
        let request = Request {
            deadline,
            in_order: true,
            ..Request::isolated(Token(token.into()), expect_simple(traits))
        };
        let ticket =
            self.engine.submit(now, request, |out| submission.write_simple(traits, out))?;
        self.begin(token, 0, None);
        Ok(ticket)
    }

    fn submit_statement(
        &mut self,
        now: Time,
        token: u32,
        submission: Submission<'_>,
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        if !self.engine.is_open() {
            return Err(Refused::Closed);
        }
        let (way, traits) = self.way(&submission)?;
        let close = match way {
            Way::Prepare { close: true, .. } => None,
            _ => self.statements.take_close(),
        };
        let is_member = submission.has(flag::MEMBER);
        let request = Request {
            sync: if is_member { SyncPoint::Member } else { SyncPoint::Own },
            deadline,
            again: !is_member && matches!(way, Way::Named { .. }),
            in_order: true,
            ..Request::isolated(Token(token.into()), expect(&way, close.is_some(), traits))
        };
        let number = match way {
            Way::Unnamed => 0,
            Way::Prepare { number, .. } | Way::Named { number, .. } => number,
        };
        self.statements.began(number);
        let (engine, statements) = (&mut self.engine, &self.statements);
        let submitted = engine.submit(now, request, |out| {
            submission.write(&way, statements.name(number), close.as_deref(), out)
        });
        match submitted {
            Ok(ticket) => {
                self.begin(token, number, close);
                Ok(ticket)
            }
            Err(error) => {
                close.into_iter().for_each(|name| self.statements.give_close_back(name));
                self.statements.ended(
                    self.engine.protocol_mut(),
                    number,
                    matches!(way, Way::Prepare { .. }),
                );
                Err(error.into())
            }
        }
    }

    fn way(
        &mut self,
        submission: &Submission<'_>,
    ) -> Result<(Way, onetrip_postgres::sql::Traits), Refused> {
        let protocol = self.engine.protocol_mut();
        let text = submission.text;
        if !submission.name.is_empty() {
            let way = self.statements.named(protocol, submission.name, text)?;
            return way.map_err(|NameTaken| Refused::NameTaken);
        }
        if submission.has(flag::UNPREPARED) {
            return Ok((Way::Unnamed, self.statements.traits(text)));
        }
        Ok(self.statements.counted(protocol, text)?)
    }

    /// Ends a segment of members.
    pub(crate) fn sync(
        &mut self,
        now: Time,
        token: u32,
        to: &mut Completions,
    ) -> Result<Ticket, Refused> {
        self.check(token)?;
        let request = Request {
            sync: SyncPoint::Only,
            in_order: true,
            ..Request::isolated(Token(token.into()), Expect::sync())
        };
        let submitted = self.engine.submit(now, request, |out| {
            out.put_slice(&SYNC);
            Ok::<(), EncodeError>(())
        });
        if submitted.is_ok() {
            self.begin(token, 0, None);
        }
        self.settle(to);
        Ok(submitted?)
    }

    /// Whether a token can be given to a request.
    fn check(&self, token: u32) -> Result<(), Refused> {
        let is_live = self.uses.get(token as usize).is_some_and(|it| it.is_live);
        match token == 0 || token > TOKEN_MAX || is_live {
            true => Err(Refused::Malformed),
            false => Ok(()),
        }
    }

    fn begin(&mut self, token: u32, statement: Number, close: Option<String>) {
        let index = token as usize;
        if self.uses.len() <= index {
            self.uses.resize_with(index + 1, Use::default);
        }
        self.uses[index] = Use { statement, parsed: false, close, is_live: true };
    }

    pub(crate) fn cancel(&mut self, now: Time, ticket: Ticket, to: &mut Completions) -> bool {
        let taken_back = self.engine.cancel(now, ticket);
        self.settle(to);
        taken_back
    }

    // --- cancelling ---

    /// Asks for a request to be cancelled at the server, if that harms no other.
    pub(crate) fn want_cancel(&mut self, now: Time, token: u32, to: &mut Completions) {
        let _ = self.engine.want_cancel(now, Token(token.into()));
        self.settle(to);
    }

    /// The cancel is about to be sent, unless this says that it is not to be.
    pub(crate) fn begin_cancel(&mut self, now: Time, to: &mut Completions) -> bool {
        let goes = self.engine.begin_cancel(now);
        self.settle(to);
        goes
    }

    pub(crate) fn cancel_ended(&mut self, now: Time, end: CancelEnd, to: &mut Completions) {
        self.engine.handle_cancel_end(now, end);
        self.settle(to);
    }

    /// What is sent alone on a connection of its own to cancel; empty where the server gave no key.
    pub(crate) fn cancel_message(&self, out: &mut BytesMut) {
        let request = CancelRequest {
            process_id: self.process_id,
            secret_key: Secret(self.secret_key.as_bytes()),
        };
        let _ = request.encode(out);
    }

    /// The transaction status that the server told last, as the letter of ReadyForQuery.
    pub(crate) fn status(&self) -> u8 {
        match self.engine.protocol().status() {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    pub(crate) fn queued(&self) -> usize {
        self.engine.queued()
    }

    // --- outputs ---

    fn settle(&mut self, to: &mut Completions) {
        while let Some(output) = self.engine.poll_output() {
            self.take(output, to);
        }
        if self.engine.protocol_mut().take_statements_lost() {
            self.statements.lost();
        }
        while let Some(number) = self.statements.take_forgotten() {
            to.push(kind::FORGOTTEN, 0, (number, 0), Bytes::new());
        }
    }

    fn take(&mut self, output: Output<Event>, to: &mut Completions) {
        match output {
            Output::Data { token, block } => {
                let token = token.0 as u32;
                let statement = self.note(token, &block);
                to.push(kind::DATA, token, (statement, 0), block);
            }
            Output::Piece { token, block, left } if self.pieces => {
                let token = token.0 as u32;
                let statement = self.note(token, &[]);
                to.push(kind::PIECE, token, (statement, left as u32), block);
            }
            Output::Piece { token, block, left } => self.gather(token, block, left, to),
            Output::Ended { token, block, end } => self.ended(token.0 as u32, block, end, to),
            Output::Restarted { token } => {
                self.gathered = None;
                to.push(kind::RESTARTED, token.0 as u32, (0, 0), Bytes::new());
            }
            Output::Event { event, block } => {
                let which = match event {
                    Event::Notice => event::NOTICE,
                    Event::Notification => event::NOTIFICATION,
                    Event::ParameterStatus => event::PARAMETER_STATUS,
                };
                to.push(kind::EVENT, 0, (which, 0), block);
            }
            Output::Full => to.push(kind::FULL, 0, (0, 0), Bytes::new()),
            Output::Drained => to.push(kind::DRAINED, 0, (0, 0), Bytes::new()),
            Output::Cancel => to.push(kind::CANCEL, 0, (0, 0), Bytes::new()),
            Output::NotCancelled { token } => {
                to.push(kind::NOT_CANCELLED, token.0 as u32, (0, 0), Bytes::new());
            }
            Output::Astray => to.push(kind::ASTRAY, 0, (0, 0), Bytes::new()),
            Output::Closed(reason) => self.note_closed(reason, to),
            // No groups are opened here, and nobody waits for room.
            Output::Granted { .. } | Output::Room { .. } => {}
        }
    }

    /// Puts a long message together. Another one begins only when the last has come, or its request has ended.
    fn gather(&mut self, token: Token, block: Bytes, left: usize, to: &mut Completions) {
        let (_, mut message) = match self.gathered.take().filter(|(of, _)| *of == token) {
            Some(begun) => begun,
            None => (token, BytesMut::with_capacity(block.len() + left.min(GATHER_AHEAD_MAX))),
        };
        message.put_slice(&block);
        if left > 0 {
            self.gathered = Some((token, message));
            return;
        }
        let token = token.0 as u32;
        let statement = self.note(token, &[]);
        to.push(kind::DATA, token, (statement, 0), message.freeze());
    }

    fn note_closed(&mut self, reason: CloseReason, to: &mut Completions) {
        if !std::mem::replace(&mut self.closed, true) {
            let (reason, block) = close_code(reason);
            to.push(kind::CLOSED, 0, (reason, 0), block);
        }
    }

    /// Looks at a part of a reply for what it says of its statement; returns that.
    fn note(&mut self, token: u32, block: &[u8]) -> Number {
        let Some(used) = self.uses.get_mut(token as usize) else { return 0 };
        if used.statement != 0 && !used.parsed && shows_parsed(block) {
            used.parsed = true;
            self.statements.parsed(used.statement);
        }
        used.statement
    }

    fn ended(&mut self, token: u32, block: Bytes, end: End, to: &mut Completions) {
        if !matches!(end, End::Failed(_)) {
            self.note(token, &block);
        }
        if self.gathered.as_ref().is_some_and(|(of, _)| of.0 == u64::from(token)) {
            self.gathered = None;
        }
        let used = self.uses.get_mut(token as usize).map(std::mem::take).unwrap_or_default();
        let number = used.statement;
        if let End::Failed(Failure { outcome, .. }) = end {
            if shows_stale(&block) {
                self.statements.stale(number);
            }
            if outcome == Outcome::NotSent {
                used.close.into_iter().for_each(|name| self.statements.give_close_back(name));
            }
        }
        to.push(kind::END, token, (number, end_code(end)), block);
        if number != 0 {
            self.statements.ended(self.engine.protocol_mut(), number, !used.parsed);
        }
    }
}

impl Login {
    fn new(startup: Startup) -> Login {
        let mut login = Login { startup, out: BytesMut::new() };
        login.take_output();
        login
    }

    fn take_output(&mut self) {
        while let Some(bytes) = self.startup.transmit() {
            self.out.put_slice(&bytes);
        }
    }

    fn written(&mut self, bytes: usize) {
        let _ = self.out.split_to(bytes.min(self.out.len()));
    }
}

impl From<SubmitError<EncodeError>> for Refused {
    fn from(error: SubmitError<EncodeError>) -> Refused {
        match error {
            SubmitError::Closed => Refused::Closed,
            SubmitError::QueueFull => Refused::Full,
            SubmitError::NotGranted | SubmitError::Encode(_) => Refused::Malformed,
        }
    }
}

impl From<EncodeError> for Refused {
    fn from(_: EncodeError) -> Refused {
        Refused::Malformed
    }
}

/// Whether a ParseComplete stands in front, or behind a CloseComplete.
fn shows_parsed(block: &[u8]) -> bool {
    /// Of a message without a body.
    const LEN: usize = 5;
    let tag = block.first().copied();
    let tag = if tag == Some(backend::CLOSE_COMPLETE) { block.get(LEN).copied() } else { tag };
    tag == Some(backend::PARSE_COMPLETE)
}

/// Whether an error says that the server does not have the statement, or that its plan can't be used any
/// more (RevalidateCachedQuery in src/backend/utils/cache/plancache.c).
fn shows_stale(block: &[u8]) -> bool {
    use error_response::field;
    let Some(body) = block.get(5..) else { return false };
    let Ok(error) = onetrip_postgres::message::ErrorResponse::decode(body) else { return false };
    match error.fields.value(field::CODE) {
        Some(b"26000") => true,
        Some(b"0A000") => error.fields.value(field::ROUTINE) == Some(b"RevalidateCachedQuery"),
        _ => false,
    }
}
