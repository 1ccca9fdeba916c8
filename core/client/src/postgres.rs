//! A connection to PostgreSQL: its login, its prepared statements, and the requests in flight.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use onetrip_engine::pool::{Load, Task, Timings, Workload};
use onetrip_engine::{CancelEnd, Connection, Pace, Time, Token, Violation, Wanted};
use onetrip_postgres::client::connect::{Session, TargetSessionAttrs};
use onetrip_postgres::client::identity::Identity;
use onetrip_postgres::client::statements::{Closing, Seen};
use onetrip_postgres::client::transaction::block::LevelId;
use onetrip_postgres::client::transaction::pending::{PendingBegin, Treatment};
use onetrip_postgres::message::{CancelRequest, Secret, TransactionStatus};
use onetrip_postgres::startup::{NONCE_LEN, SecretKey, Startup};

use crate::completion::{Completions, close, kind};
use crate::protocol::Protocol;
use crate::settings::{Invalid, Settings};

mod blocks;
mod delayed;
mod flow;
mod flowing;
mod guarding;
mod login;
mod outputs;
mod positions;
mod request;
mod statements;
pub(crate) mod submitting;
mod transactions;

pub use blocks::Act;
use delayed::Delayed;
use flow::Flow;
pub use flow::Part;
use login::Login;
use positions::Positions;
pub use request::{Portal, Submission, Types};
pub use statements::SharedTexts;
use statements::Statements;

/// One connection, from its first byte to its last.
#[derive(Debug)]
pub(crate) struct Postgres {
    /// Until the first ReadyForQuery, and while the server is asked which it is.
    login: Option<Login>,
    session: Session,
    identity: Option<Identity>,
    engine: Connection<Protocol>,
    statements: Statements,
    /// What is known of the requests that have not ended, by token.
    uses: Vec<Use>,
    /// The bytes so far of a message that arrives in pieces, if the host does not take pieces.
    gathered: Option<(Token, Vec<u8>)>,
    /// The longest message that is put together, in bytes.
    message_bytes_max: usize,
    pieces: bool,
    /// All callers share the session, and none of them was promised an order.
    is_shared: bool,
    /// Whether the pool puts requests of many callers on it, none of which is tied to another.
    is_open_to_all: bool,
    hold_begin: bool,
    /// Requests are sent before the replies to earlier ones have arrived.
    sends_ahead: bool,
    /// A BEGIN that is held, unanswered or refused.
    pending_begin: Option<PendingBegin>,
    /// A transaction that the host opened with `open_block`.
    block: Option<blocks::Transaction>,
    /// How many transactions were begun.
    transactions: u64,
    /// Requests that wait for the answer to a BEGIN, and the requests behind them.
    delayed: Delayed,
    flow: Flow,
    positions: Positions,
    /// How long a caller who gave a request up waits for what becomes of the cancel.
    cancel_wait: Duration,
    /// No such wait ends earlier than this.
    given_up_until: Time,
    /// A Terminate is sent after the last reply.
    terminating: bool,
    /// The last request was a member: its segment continues with the next request.
    segment_open: bool,
    /// Requests of the host that were taken and have not ended.
    live: usize,
    /// Requests that the engine made itself, such as a BEGIN, and that have not ended.
    own_requests: usize,
    /// How many requests may wait, and how many bytes of them.
    queue_max: (usize, usize),
    /// Requests that have not ended, and after which the transaction status may differ.
    changing: usize,
    /// The last time that a request came to an idle connection, or that the peer sent bytes.
    since: Time,
    /// The time of the last call that told it.
    clock: Time,
    pace: Pace,
    /// When bytes of the login were last sent.
    login_sent: Time,
    /// How long the pool expects the requests in flight to take, if the connection is one of a
    /// pool.
    workload: Workload,
    timings: Option<Arc<Timings>>,
    process_id: i32,
    /// Makes the statement names of this connection differ from those of every other connection.
    unique: u64,
    secret_key: SecretKey,
    closed: bool,
}

/// What is known of a request that has not ended.
#[derive(Debug, Default)]
struct Use {
    statement: Option<statements::Use>,
    seen: Seen,
    /// A statement name that the server forgets with this request.
    close: Option<Closing>,
    /// The transaction status may differ after it.
    changes: bool,
    /// It is skipped if the BEGIN in front of it is refused.
    guarded: bool,
    /// A guard stands in front of it, so it is sent once.
    is_behind: bool,
    /// The host takes its reply as it arrives, and says how much it has taken.
    metered: bool,
    /// What it costs the other requests on a shared connection.
    task: Option<Task>,
    /// It shares its sync point with the other requests of its pipeline.
    is_member: bool,
    /// The savepoint level that it belongs to, if it is a statement of a transaction.
    level: Option<LevelId>,
    /// Its caller gave it up, and waits until then for what becomes of the cancel.
    given_up: Option<Time>,
    /// That moment has come, or its caller knows that it is not cancelled.
    is_late: bool,
    /// Its caller waits no longer, and wants it to go on.
    is_let_run: bool,
    is_live: bool,
}

impl Use {
    /// Until when its caller waits for what becomes of a cancel.
    fn waits_for_cancel(&self) -> Option<Time> {
        self.given_up.filter(|_| !self.is_late)
    }
}

/// Who uses a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// All callers share it, and none may change it.
    All,
    /// One caller has it alone.
    One,
    /// Its caller has gone, and nothing is in flight.
    Nobody,
    /// Its caller has run something that did not go through the engine.
    Passed,
    /// Its caller has reset it as it is to be.
    Vouched,
}

/// Why a request was refused. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The connection has ended, or takes no new requests.
    Closed,
    /// The queue is full.
    Full,
    /// It is malformed: wrong lengths or flags, a NUL in a text, or a token that is in use or too
    /// large.
    Malformed,
    /// The name stands for another text.
    NameTaken,
    /// There is no memory for it.
    NoMemory,
    /// It is longer than the server takes.
    TooLong,
}

/// The token of a BEGIN that was held. No request of the host has it.
const BEGIN: Token = Token(u32::MAX as u64);

/// The token of the sync point of that BEGIN, if it has its own.
const BEGIN_SYNC: Token = Token(u32::MAX as u64 - 1);

/// The largest token. Tokens are small numbers that are used again: they are indexes into a table.
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
        let mut limits = settings.as_ref().map(|it| it.limits.clone()).unwrap_or_default();
        let hold_begin = settings.as_ref().is_some_and(|it| it.hold_begin);
        if hold_begin && limits.in_flight_max == 1 {
            // One at a time, but a BEGIN goes with the first statement. A Flush, which is sent once
            // half of the window is full, must not part the two.
            (limits.one_segment, limits.in_flight_max) = (true, 4);
        }
        let sends_ahead = !limits.one_segment && limits.in_flight_max > 1;
        let (threshold, max) =
            settings.as_ref().map_or((0, 0), |it| (it.prepare_threshold, it.statements_max));
        let protocol = protocol_of(settings.as_ref());
        let unique = nonce.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let queue_max = (limits.queue_max, limits.queue_bytes_max);
        let mut connection = Postgres {
            login: None,
            session: Session::default(),
            identity: None,
            cancel_wait: limits.cancel_wait_max,
            engine: Connection::new(now, protocol, limits),
            statements: Statements::new(threshold, max, unique),
            unique,
            uses: Vec::new(),
            gathered: None,
            message_bytes_max: settings.as_ref().map_or(0, |it| it.message_bytes_max),
            pieces: settings.as_ref().is_some_and(|it| it.pieces),
            is_shared: false,
            is_open_to_all: false,
            hold_begin,
            sends_ahead,
            pending_begin: None,
            block: None,
            transactions: 0,
            delayed: Delayed::new(),
            flow: Flow::new(),
            positions: Positions::default(),
            given_up_until: Time::NEVER,
            terminating: false,
            segment_open: false,
            live: 0,
            own_requests: 0,
            queue_max,
            changing: 0,
            since: now,
            clock: now,
            pace: Pace::default(),
            login_sent: now,
            workload: Workload::new(Duration::MAX),
            timings: None,
            process_id: 0,
            secret_key: SecretKey::default(),
            closed: false,
        };
        let asks = settings.as_ref().is_some_and(|it| it.ask_password);
        let startup = startup_of(settings, nonce, invalid);
        match startup {
            Ok(startup) => connection.login = Some(Login::new(startup, asks)),
            Err(invalid) => connection.refuse_login(invalid, to),
        }
        connection
    }

    fn refuse_login(&mut self, why: Invalid, to: &mut Completions) {
        self.end(close::LOGIN, Bytes::from(why), to);
    }

    /// Ends the connection for a reason that the engine does not know.
    pub(crate) fn end(&mut self, reason: u32, block: Bytes, to: &mut Completions) {
        self.end_as((reason, reason == close::LOGIN), block, to);
    }

    /// The same: (reason, whether no retry can help).
    pub(super) fn end_as(
        &mut self,
        (reason, is_final): (u32, bool),
        block: Bytes,
        to: &mut Completions,
    ) {
        if !std::mem::replace(&mut self.closed, true) {
            to.push(kind::CLOSED, 0, (reason, is_final.into()), block);
        }
        self.login = None;
        self.engine.handle_closed();
        self.settle(to);
    }

    // --- bytes ---

    pub(crate) fn receive(&mut self, now: Time, input: &mut BytesMut, to: &mut Completions) {
        self.clock = now;
        if self.login.is_some() {
            let trip = now.since(self.login_sent);
            self.workload.see_trip(trip);
            self.engine.see_trip(trip);
            if !self.log_in(input, to) {
                return;
            }
        }
        self.since = now;
        self.pace.replied(now);
        self.engine.handle_bytes(now, input);
        self.settle(to);
        if !self.delayed.is_empty() {
            self.release_delayed(now, to);
        }
    }

    /// The bytes to send now. During the login these are its own bytes, even if requests wait behind
    /// it. The question for the position of what they write joins them.
    pub(crate) fn transmit(&mut self) -> &[u8] {
        if self.login.is_none() && !self.holds() {
            self.engine.end_flight(self.clock);
        }
        match &self.login {
            Some(login) => &login.out,
            None if self.holds() => &[],
            None => self.engine.transmit(),
        }
    }

    /// Whether what is unsent may wait for the next reply. What a transaction waits for may not.
    fn holds(&self) -> bool {
        self.block.is_none()
            && self.pending_begin.is_none()
            && self.delayed.is_empty()
            && self.pace.holds(self.clock, &self.engine)
    }

    pub(crate) fn written(&mut self, now: Time, bytes: usize, to: &mut Completions) {
        match &mut self.login {
            Some(login) => {
                self.login_sent = now;
                login.written(bytes);
            }
            None => {
                self.pace.written();
                self.engine.handle_written(now, bytes.min(self.engine.transmit().len()));
                if !self.engine.transmit().is_empty() {
                    self.pace.interrupted();
                }
                self.settle(to);
            }
        }
    }

    pub(crate) fn time(&mut self, now: Time, to: &mut Completions) {
        if self.holds() {
            self.engine.handle_held(now);
        }
        self.clock = now;
        self.engine.handle_time(now);
        self.expire_delayed(now, to);
        self.expire_given_up(now, to);
        self.settle(to);
    }

    pub(crate) fn deadline(&self) -> Time {
        let held = if self.holds() { self.pace.deadline() } else { Time::NEVER };
        let engine = self.engine.poll_deadline().unwrap_or(Time::NEVER);
        engine.min(self.delayed.deadline()).min(held).min(self.given_up_until)
    }

    pub(crate) fn peer_closed(&mut self, to: &mut Completions) {
        match &mut self.login {
            Some(login) => {
                let why = login.closed();
                self.end_as((close::LOGIN, false), Bytes::from(why), to);
            }
            None => {
                self.engine.handle_closed();
                self.settle(to);
            }
        }
    }

    pub(crate) fn terminate(&mut self, now: Time, to: &mut Completions) {
        self.flush(now, to);
        if self.delayed.is_empty() {
            self.engine.terminate(now);
        } else {
            self.terminating = true;
        }
        self.settle(to);
    }

    /// The connection belongs to a pool. It counts texts together with the pool's other connections
    /// (the first one brings the memory for that), and it measures how long they take.
    pub(crate) fn join_pool(&mut self, texts: &mut Option<SharedTexts>, timings: &Arc<Timings>) {
        self.timings = Some(timings.clone());
        self.engine.set_yield_after(timings.yield_after(), timings.wait_timeout());
        self.engine.yield_to(timings.holders().clone());
        match texts {
            Some(texts) => self.statements.count_with(texts),
            None => *texts = Some(self.statements.texts()),
        }
    }

    // --- whose it is ---

    /// Sets who uses the session from now on. Returns whether a reset is owed.
    pub(crate) fn hold(&mut self, holder: Holder) -> bool {
        self.is_shared = holder == Holder::All;
        let protocol = self.engine.protocol_mut();
        match holder {
            Holder::All => protocol.share(),
            Holder::One => protocol.lend(),
            Holder::Nobody => return protocol.take_back(),
            Holder::Passed => protocol.touch(),
            Holder::Vouched => protocol.vouch(),
        }
        protocol.is_resetting()
    }

    /// Resets the session now if a reset is owed.
    pub(crate) fn reset(&mut self, now: Time, to: &mut Completions) {
        self.engine.settle_debts(now);
        self.settle(to);
    }

    /// See [`Lent::open_to_all`](crate::lent::Lent::open_to_all).
    pub(crate) fn open_to_all(&mut self, is_open: bool) {
        self.is_open_to_all = is_open;
    }

    // --- cancelling ---

    /// The host found that a reply breaks the protocol. Ignored during the login, because no
    /// request has a reply yet.
    pub(crate) fn violated(&mut self, to: &mut Completions) {
        if self.login.is_none() {
            self.engine.handle_violation(Violation("a malformed reply"));
            self.settle(to);
        }
    }

    /// Asks the server to cancel requests that are given up together, if that can't hit another
    /// request. What ends a transaction is not cancelled: it is done, whoever waits for it. Their
    /// caller waits for what becomes of that no longer than a cancel may take: a server may never
    /// answer. Nor does he wait longer for the end of a transaction that a request belongs to.
    pub(crate) fn want_cancel(&mut self, now: Time, tokens: &[u32], to: &mut Completions) {
        let is_ended = |token: &u32| self.ends_transaction(*token);
        let (ends, others): (Vec<u32>, Vec<u32>) = tokens.iter().partition(|it| is_ended(it));
        let mut left = Vec::new();
        for token in others {
            if !self.cancel_delayed(token, to) {
                left.push(Token(token.into()));
            }
        }
        for (token, wanted) in self.engine.want_cancel_all(now, &left) {
            let (token, is_late) = (token.0 as u32, wanted == Wanted::NotPossible);
            if is_late {
                to.push(kind::NOT_CANCELLED, token, (0, 0), Bytes::new());
            }
            self.give_up(now, token, is_late);
        }
        for token in ends {
            self.caller_gone(now, token);
        }
        self.settle(to);
    }

    pub(crate) fn caller_gone(&mut self, now: Time, token: u32) {
        self.engine.handle_caller_gone(Token(token.into()));
        self.engine.handle_given_up(now);
    }

    /// The caller of a request waits no longer, and does not want it to be cancelled.
    pub(crate) fn let_run(&mut self, token: u32) {
        if let Some(used) = self.uses.get_mut(token as usize).filter(|it| it.is_live) {
            used.is_let_run = true;
        }
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.engine.is_given_up()
    }

    fn give_up(&mut self, now: Time, token: u32, is_late: bool) {
        let until = now.after(self.cancel_wait);
        let Some(used) = self.uses.get_mut(token as usize).filter(|it| it.is_live) else { return };
        if used.given_up.is_some() {
            return;
        }
        (used.given_up, used.is_late) = (Some(until), is_late);
        if !is_late {
            self.given_up_until = self.given_up_until.min(until);
        }
        if used.level.is_some() {
            self.end_block_until(until);
        }
        self.caller_gone(now, token);
    }

    /// Tells callers who gave a request up that they wait no longer. The wish stays: it is cancelled
    /// when that is possible.
    fn expire_given_up(&mut self, now: Time, to: &mut Completions) {
        if self.given_up_until > now {
            return;
        }
        for (token, used) in (0..).zip(&mut self.uses) {
            if used.waits_for_cancel().is_some_and(|until| until <= now) {
                used.is_late = true;
                to.push(kind::NOT_CANCELLED, token, (0, 0), Bytes::new());
            }
        }
        self.given_up_until = self.next_given_up();
    }

    fn next_given_up(&self) -> Time {
        self.uses.iter().filter_map(Use::waits_for_cancel).min().unwrap_or(Time::NEVER)
    }

    /// The cancel is about to be sent. Returns whether it still must be.
    pub(crate) fn begin_cancel(&mut self, now: Time, to: &mut Completions) -> bool {
        let goes = self.engine.begin_cancel(now);
        self.settle(to);
        goes
    }

    pub(crate) fn cancel_ended(&mut self, now: Time, end: CancelEnd, to: &mut Completions) {
        self.engine.handle_cancel_end(now, end);
        self.settle(to);
    }

    /// The CancelRequest, to be sent alone on its own socket. Empty if the server gave no key.
    pub(crate) fn cancel_message(&self, out: &mut BytesMut) {
        let request = CancelRequest {
            process_id: self.process_id,
            secret_key: Secret(self.secret_key.as_bytes()),
        };
        let _ = request.encode(out);
    }

    pub(crate) fn process_id(&self) -> i32 {
        self.process_id
    }

    /// The transaction status of the last ReadyForQuery, as its letter. Behind a BEGIN that was
    /// answered here, it is the status that the server will report.
    pub(crate) fn status(&self) -> u8 {
        match self.presumed().unwrap_or_else(|| self.engine.protocol().status()) {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        }
    }

    pub(crate) fn load(&self) -> Load {
        let unanswered = self.engine.in_flight() + self.engine.queued() + self.delayed.requests();
        Load {
            unanswered,
            unanswered_bytes: self.engine.in_flight_bytes() + self.engine.queued_bytes(),
            since: self.since,
            room: self.engine.room().saturating_sub(self.delayed.requests()),
            expected: self.workload.expected(),
            trip: self.workload.trip(),
            unsure: self.workload.unsure(),
            locking: self.workload.locking(),
            staying: self.workload.staying(),
        }
    }

    /// Requests of the host that were sent and not answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.engine.in_flight().saturating_sub(self.own_requests)
    }

    pub(crate) fn queued(&self) -> usize {
        self.engine.queued() + self.delayed.requests()
    }

    /// Whether a sync point would tell the host of a BEGIN that is held, unanswered or refused.
    pub(crate) fn is_opening(&self) -> bool {
        self.treatment_of_sync() != Treatment::Plain
    }

    /// Whether nothing is in flight.
    fn is_idle(&self) -> bool {
        self.live + self.own_requests == 0
    }
}

/// The login with these settings; without, what is wrong with them.
fn startup_of(
    settings: Option<Settings>,
    nonce: [u8; NONCE_LEN],
    invalid: Option<Invalid>,
) -> Result<Startup, Invalid> {
    let settings = settings.ok_or_else(|| invalid.unwrap_or_default())?;
    Startup::new(settings.startup, nonce).map_err(|it| it.to_string())
}

/// The protocol with these settings; with none, the login is refused anyway.
fn protocol_of(settings: Option<&Settings>) -> Protocol {
    let mut protocol = Protocol::new(TransactionStatus::Idle);
    protocol.target(settings.map_or(TargetSessionAttrs::Any, |it| it.target));
    if settings.is_some_and(|it| it.watch_positions) {
        protocol.watch_positions();
    }
    if settings.is_some_and(|it| it.is_replica) {
        protocol.serve_as_replica();
    }
    protocol
}
