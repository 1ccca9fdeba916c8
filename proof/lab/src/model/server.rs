//! One session: bytes in, bytes out.

use std::collections::HashMap;
use std::fmt;

use bytes::{Buf, BytesMut};
use onetrip_postgres::message::{
    FrontendMessage, Header, NotificationResponse, ParameterStatus, ReadyForQuery, ServerError,
    TransactionStatus, frame, frontend_max_len,
};

use super::copy::Copying;
use super::extended::{Portal, Prepared};
use super::reply::{self, code};
use super::startup::Startup;
use super::transaction::Transaction;
use super::{Config, Log, Noise, Schema};

/// Replies are buffered until a Sync, a Flush, an error or a notice, or until there are this many
/// bytes: PqSendBuffer in src/backend/libpq/pqcomm.c.
pub const SEND_BUFFER_LEN: usize = 8192;

/// One session of the model server, without I/O.
///
/// - What happened: [`handle_bytes`](Self::handle_bytes), [`handle_written`](Self::handle_written),
///   [`handle_closed`](Self::handle_closed).
/// - A cancel, which comes from elsewhere: [`cancel`](Self::cancel),
///   [`forget_cancel`](Self::forget_cancel).
/// - Commands that no client gives: [`shut_down`](Self::shut_down), [`garble`](Self::garble),
///   [`lose_statements`](Self::lose_statements), [`make_stale`](Self::make_stale).
/// - Drain: [`transmit`](Self::transmit).
///
/// Like a real server it does one thing at a time: while it has bytes to write it reads none, so a
/// client that does not read while it writes waits for ever. To reproduce this, a host hands it
/// bytes only when [`wants_bytes`](Self::wants_bytes) says so.
pub struct Server {
    pub(super) config: Config,
    pub(super) log: Log,
    pub(super) phase: Phase,
    pub(super) input: BytesMut,
    /// Buffered replies.
    held: BytesMut,
    /// Replies on their way to the socket. While there are any, nothing else is done.
    output: BytesMut,
    /// Whether the client has closed its side.
    ended: bool,
    /// Whether nothing came since the last ReadyForQuery.
    idle: bool,
    /// Whether an error was sent, so that everything up to the next Sync is skipped.
    pub(super) skipping: bool,
    /// Whether a cancel is pending: it ends the next statement that runs.
    cancelled: bool,
    pub(super) transaction: Transaction,
    pub(super) statements: HashMap<String, Prepared>,
    pub(super) portals: HashMap<String, Portal>,
    /// The COPY whose data comes.
    pub(super) copying: Option<Copying>,
    /// Behind a pooler, the server of this transaction.
    pub(super) pooled: Option<usize>,
}

/// The phase of a session.
pub(super) enum Phase {
    Startup(Startup),
    Ready,
    Closed,
}

impl Server {
    /// A session that waits for the first packet.
    pub fn new(config: Config, log: Log) -> Server {
        Server {
            pooled: config.schema.as_ref().and_then(Schema::next_server),
            config,
            log,
            phase: Phase::Startup(Startup::default()),
            input: BytesMut::new(),
            held: BytesMut::new(),
            output: BytesMut::new(),
            ended: false,
            idle: true,
            skipping: false,
            cancelled: false,
            transaction: Transaction::new(),
            statements: HashMap::new(),
            portals: HashMap::new(),
            copying: None,
        }
    }

    /// A session whose client was told that it is ready.
    pub fn ready(config: Config, log: Log) -> Server {
        Server { phase: Phase::Ready, ..Server::new(config, log) }
    }

    // --- getters ---

    /// What became of every statement.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Whether it reads now.
    pub fn wants_bytes(&self) -> bool {
        self.output.is_empty() && !self.ended && !self.is_closed()
    }

    /// Whether the session is over. What [`transmit`](Self::transmit) shows is still to be written.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Whether the startup is over.
    pub fn is_started(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// Whether nothing came since the last ReadyForQuery, not even a part of a message.
    pub fn is_idle(&self) -> bool {
        self.idle && self.input.is_empty() && self.output.is_empty()
    }

    /// How many bytes it buffers: an incomplete message, and replies.
    pub fn buffered(&self) -> usize {
        self.input.len() + self.held.len() + self.output.len()
    }

    // --- what happened ---

    /// Bytes from the client.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        if !self.is_closed() {
            self.input.extend_from_slice(bytes);
            self.run();
        }
    }

    /// This many bytes of [`transmit`](Self::transmit) were taken.
    pub fn handle_written(&mut self, bytes: usize) {
        self.output.advance(bytes);
        self.run();
    }

    /// The client has closed its side. Messages that it sent before are still processed.
    pub fn handle_closed(&mut self) {
        self.ended = true;
        self.run();
    }

    /// A cancel request arrives. It fails the next message whose work can be undone, as if it had
    /// arrived during that work. A real server also looks for interrupts only while it processes a
    /// message (`DoingCommandRead` in src/backend/tcop/postgres.c).
    pub fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// Whether a cancel has hit nothing so far.
    pub fn is_to_be_cancelled(&self) -> bool {
        self.cancelled
    }

    /// Drops a pending cancel. Returns whether one was pending.
    pub fn forget_cancel(&mut self) -> bool {
        !std::mem::take(&mut self.cancelled)
    }

    // --- commands ---

    /// An administrator ends the session, at once.
    pub fn shut_down(&mut self) {
        self.fatal(code::SHUTDOWN, None);
    }

    /// Writes bytes that no server would, behind the replies so far.
    pub fn garble(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        self.flush();
    }

    /// Drops all prepared statements, as DISCARD ALL does. A real session does so only while it
    /// [is idle](Self::is_idle), or because a statement says so.
    pub fn lose_statements(&mut self) {
        self.statements.clear();
    }

    /// The plans of all prepared statements go stale, as after ALTER TABLE.
    pub fn make_stale(&mut self) {
        self.statements.values_mut().for_each(|statement| statement.stale = true);
    }

    // --- drain ---

    /// The bytes to write next.
    pub fn transmit(&self) -> &[u8] {
        &self.output
    }

    // --- writing ---

    /// Appends a message to the replies.
    pub(super) fn put(&mut self, write: impl FnOnce(&mut BytesMut)) {
        self.put_noise();
        self.put_quietly(write);
    }

    pub(super) fn put_quietly(&mut self, write: impl FnOnce(&mut BytesMut)) {
        write(&mut self.held);
        let full = self.held.len() / SEND_BUFFER_LEN * SEND_BUFFER_LEN;
        if full > 0 {
            let full = self.held.split_to(full);
            self.output.unsplit(full);
        }
    }

    pub(super) fn put_bytes(&mut self, message: &[u8]) {
        self.put(|out| out.extend_from_slice(message));
    }

    pub(super) fn put_ready(&mut self) {
        let ready = ReadyForQuery { status: self.transaction.block };
        self.put(|out| ready.encode(out));
        self.flush();
        self.idle = true;
    }

    /// Moves all buffered replies to the output. Errors and notices do so too
    /// (send_message_to_frontend in elog.c).
    pub(super) fn flush(&mut self) {
        let held = self.held.split();
        self.output.unsplit(held);
    }

    pub(super) fn put_error(&mut self, error: &ServerError) {
        self.put(|out| error.encode_error(out).expect("there is no NUL in it"));
        self.flush();
    }

    pub(super) fn put_notice(&mut self, severity: &str, code: &str, op: Option<u64>) {
        let notice = reply::error(severity, code, op);
        self.put_quietly(|out| notice.encode_notice(out).expect("there is no NUL in it"));
        self.flush();
    }

    /// Sends the error, and ends the session.
    pub(super) fn fatal(&mut self, code: &str, op: Option<u64>) {
        if self.is_closed() {
            return;
        }
        self.transaction.roll_back(&self.log);
        let error = reply::error("FATAL", code, op);
        self.put_quietly(|out| error.encode_error(out).expect("there is no NUL in it"));
        self.flush();
        self.phase = Phase::Closed;
    }

    /// The client broke the protocol.
    pub(super) fn violation(&mut self, what: impl fmt::Display) {
        self.log.violation(what.to_string());
        self.fatal(code::PROTOCOL, None);
    }

    fn put_noise(&mut self) {
        let Phase::Ready = self.phase else { return };
        let Some(Noise { rng, one_in }) = &mut self.config.noise else { return };
        if !rng.one_in(*one_in) {
            return;
        }
        match rng.below(3) {
            0 => self.put_notice("NOTICE", "00000", None),
            1 => self.put_quietly(|out| {
                let message = NotificationResponse { process_id: 1, channel: "c", payload: "p" };
                message.encode(out).expect("there is no NUL in it");
            }),
            _ => self.put_quietly(|out| {
                let message = ParameterStatus { name: "application_name", value: "noise" };
                message.encode(out).expect("there is no NUL in it");
            }),
        }
    }

    // --- reading ---

    /// Processes the input until there are bytes to write.
    fn run(&mut self) {
        while self.output.is_empty() && !self.is_closed() {
            let went_on = match self.phase {
                Phase::Startup(_) => self.start_up(),
                Phase::Ready => self.next_message(),
                Phase::Closed => false,
            };
            if !went_on {
                break;
            }
        }
        if self.ended && self.output.is_empty() && !self.is_closed() {
            self.transaction.roll_back(&self.log);
            self.phase = Phase::Closed;
        }
    }

    /// Processes one message. Returns false if none is complete.
    fn next_message(&mut self) -> bool {
        let len = match frame(&self.input, frontend_max_len) {
            Ok(None) => return false,
            Ok(Some(frame)) => frame.message_len(),
            Err(violation) => {
                self.violation(violation);
                return true;
            }
        };
        let message = self.input.split_to(len).freeze();
        let frame =
            onetrip_postgres::message::Frame { tag: message[0], body: &message[Header::LEN..] };
        match FrontendMessage::decode(frame) {
            Ok(message) => self.take(message),
            Err(violation) => self.violation(violation),
        }
        true
    }

    fn take(&mut self, message: FrontendMessage<'_>) {
        use FrontendMessage as M;
        self.idle = false;
        let is_of_copy = matches!(message, M::CopyData(_) | M::CopyDone | M::CopyFail(_));
        if self.copying.is_some() && !(is_of_copy || matches!(message, M::Flush | M::Sync)) {
            return self.violation("a message in the middle of a COPY");
        }
        match message {
            M::Flush | M::Sync if self.copying.is_some() => {}
            M::Parse(parse) => self.parse(parse),
            M::Bind(bind) => self.bind(bind),
            M::Describe(describe) => self.describe(describe.target),
            M::Execute(execute) => self.execute(execute),
            M::Close(close) => self.close(close.target),
            M::Sync => self.sync(),
            M::Flush => {
                self.log.flush();
                self.flush();
            }
            M::Query(query) => self.query(query.sql),
            M::Terminate => {
                self.log.goodbye();
                self.transaction.roll_back(&self.log);
                self.phase = Phase::Closed;
                if !self.input.is_empty() {
                    self.log.violation("bytes behind Terminate".to_owned());
                }
            }
            // Outside a COPY these are left over from one that failed. A real server drops them
            // too.
            M::CopyData(data) => self.copy_data(data.data),
            M::CopyDone => self.end_copy(true),
            M::CopyFail(_) => self.end_copy(false),
            M::Password(_) => self.violation("a password that was not asked for"),
        }
    }

    /// Takes the pending cancel for the statement that runs now. Returns whether there was one.
    pub(super) fn is_hit(&mut self) -> bool {
        std::mem::take(&mut self.cancelled)
    }

    /// Whether the session is in no explicit transaction.
    pub(super) fn is_outside_block(&self) -> bool {
        self.transaction.block == TransactionStatus::Idle
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("closed", &self.is_closed())
            .field("input", &self.input.len())
            .field("held", &self.held.len())
            .field("output", &self.output.len())
            .field("skipping", &self.skipping)
            .field("transaction", &self.transaction)
            .finish_non_exhaustive()
    }
}
