//! A connection to PostgreSQL: its login, its statements, and the requests that are on their way.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use onetrip_engine::pool::Load;
use onetrip_engine::{CancelEnd, Connection, Time, Token};
use onetrip_postgres::Postgres as Protocol;
use onetrip_postgres::message::{CancelRequest, Secret, TransactionStatus};
use onetrip_postgres::startup::{NONCE_LEN, SecretKey, Startup};

use crate::completion::{Completions, close, kind};
use crate::settings::{Invalid, Settings};

mod begin;
mod login;
mod outputs;
pub(crate) mod request;
mod statements;
mod submitting;

use begin::Begin;
use login::Login;
use statements::{Number, Statements};

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
    hold_begin: bool,
    /// A BEGIN that was answered and not sent.
    held: Option<Begin>,
    /// The first statements of transactions whose BEGIN is on its way, in order.
    led: VecDeque<u32>,
    /// Why the BEGIN of this first statement failed.
    refused: Option<(u32, Bytes)>,
    /// Requests on their way after which the status may be another one.
    changing: usize,
    /// When it was asked something while it was idle, or has sent something last.
    since: Time,
    room: usize,
    process_id: i32,
    secret_key: SecretKey,
    closed: bool,
}

/// What a request on its way is to the statement that it names.
#[derive(Debug, Default)]
struct Use {
    statement: Number,
    /// Its Parse was answered.
    parsed: bool,
    /// A name that the server is to forget with it.
    close: Option<String>,
    /// After it the status may be another one.
    changes: bool,
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

/// The token of a BEGIN that was held: no host has it.
const BEGIN: Token = Token(u32::MAX as u64);

/// Tokens are small numbers, used again: a table is kept by them.
pub(crate) const TOKEN_MAX: u32 = 1 << 20;

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
        let room = limits.in_flight_max.saturating_add(limits.queue_max);
        let mut connection = Postgres {
            login: None,
            engine: Connection::new(now, Protocol::new(TransactionStatus::Idle), limits),
            statements: Statements::new(threshold, max),
            uses: Vec::new(),
            gathered: None,
            pieces: settings.as_ref().is_some_and(|it| it.pieces),
            hold_begin: settings.as_ref().is_some_and(|it| it.hold_begin),
            held: None,
            led: VecDeque::new(),
            refused: None,
            changing: 0,
            since: now,
            room,
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
        self.since = now;
        self.engine.handle_bytes(now, input);
        self.settle(to);
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
        self.flush(now, to);
        self.engine.terminate(now);
        self.settle(to);
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

    /// The transaction status that the server told last, as the letter of ReadyForQuery; behind a BEGIN
    /// that was answered here, the one that it will tell.
    pub(crate) fn status(&self) -> u8 {
        if self.held.is_some() {
            return b'T';
        }
        match self.engine.protocol().status() {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        }
    }

    pub(crate) fn load(&self) -> Load {
        let unanswered = self.engine.in_flight() + self.engine.queued();
        Load {
            unanswered,
            unanswered_bytes: self.engine.in_flight_bytes() + self.engine.queued_bytes(),
            since: self.since,
            room: self.room.saturating_sub(unanswered),
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    pub(crate) fn queued(&self) -> usize {
        self.engine.queued()
    }
}
