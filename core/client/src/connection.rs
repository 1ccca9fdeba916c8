//! One connection as the host holds it: its peer, the bytes that arrived, and the records of what
//! happened.

use std::sync::Arc;

use bytes::BytesMut;
use onetrip_engine::pool::{Load, TextKey, Timings};
use onetrip_engine::{CancelEnd, Ticket, Time, memory};
use onetrip_postgres::client::connect::Session;
use onetrip_postgres::client::identity::{Identity, Lineage};
use onetrip_postgres::client::position::Position;
use onetrip_postgres::client::stream::Rest;
use onetrip_postgres::client::transaction::modes::Modes;

use crate::completion::{Completion, Completions, Record, close, too_long};
use crate::echo::Echo;
use crate::flag;
use crate::postgres::{Act, Holder, Part, Postgres, Refused, SharedTexts, Submission};
#[cfg(feature = "redis")]
use crate::redis::{self, Redis};

/// One connection.
#[derive(Debug)]
pub struct Connection {
    peer: Peer,
    /// Bytes that arrived and are not framed yet.
    input: BytesMut,
    completions: Completions,
    cancel: BytesMut,
}

#[derive(Debug)]
enum Peer {
    Echo(Echo),
    Postgres(Box<Postgres>),
    #[cfg(feature = "redis")]
    Redis(Box<Redis>),
}

impl Connection {
    /// A connection without a server: what is submitted ends at once with its own bytes, which are
    /// also sent, and what arrives comes out unchanged.
    pub fn echo() -> Connection {
        Connection::of(Peer::Echo(Echo::default()), Completions::default())
    }

    /// A connection to PostgreSQL over a socket that is open, after the TLS handshake if there is
    /// TLS. The login is ready to be sent, and requests may be submitted at once. `settings`: pairs
    /// of name and value, each ended by a zero byte; if one is wrong, a `CLOSED` says what is wrong.
    /// `nonce`: fresh random bytes.
    pub fn postgres(now: Time, settings: &[u8], nonce: [u8; 18]) -> Connection {
        let mut completions = Completions::default();
        let postgres = Postgres::new(now, settings, nonce, &mut completions);
        Connection::of(Peer::Postgres(Box::new(postgres)), completions)
    }

    /// The same to Redis.
    #[cfg(feature = "redis")]
    pub fn redis(now: Time, settings: &[u8]) -> Connection {
        let mut completions = Completions::default();
        let redis = Redis::new(now, settings, &mut completions);
        Connection::of(Peer::Redis(Box::new(redis)), completions)
    }

    fn of(peer: Peer, completions: Completions) -> Connection {
        Connection { peer, input: BytesMut::new(), completions, cancel: BytesMut::new() }
    }

    /// Makes room for this many bytes that arrive, behind the [input](Self::input). False if there
    /// is no memory for it; the connection has then ended.
    pub fn make_room(&mut self, len: usize) -> bool {
        if memory::make_room(&mut self.input, len) {
            return true;
        }
        let why = too_long(self.input.len(), len);
        self.input = BytesMut::new();
        let to = &mut self.completions;
        match &mut self.peer {
            Peer::Echo(_) => {}
            Peer::Postgres(postgres) => postgres.end(close::NO_MEMORY, why, to),
            #[cfg(feature = "redis")]
            Peer::Redis(redis) => redis.end((close::NO_MEMORY, false), why, to),
        }
        false
    }

    /// The bytes that arrived and are not framed yet. The host adds what comes, and then says that
    /// it was [received](Self::received).
    pub fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// See [`Lent::join_pool`](crate::lent::Lent::join_pool).
    pub fn join_pool(&mut self, texts: &mut Option<SharedTexts>, timings: &Arc<Timings>) {
        if let Peer::Postgres(postgres) = &mut self.peer {
            postgres.join_pool(texts, timings);
        }
    }

    /// See [`Lent::open_to_all`](crate::lent::Lent::open_to_all).
    pub fn open_to_all(&mut self, is_open: bool) {
        if let Peer::Postgres(postgres) = &mut self.peer {
            postgres.open_to_all(is_open);
        }
    }

    /// Bytes were added to the input.
    pub fn received(&mut self, now: Time) {
        let (input, to) = (&mut self.input, &mut self.completions);
        match &mut self.peer {
            Peer::Echo(echo) => echo.receive(input, to),
            Peer::Postgres(postgres) => postgres.receive(now, input, to),
            #[cfg(feature = "redis")]
            Peer::Redis(redis) => redis.receive(now, input, to),
        }
    }

    /// What is to be sent.
    pub fn transmit(&mut self) -> &[u8] {
        match &mut self.peer {
            Peer::Echo(echo) => echo.transmit(),
            Peer::Postgres(postgres) => postgres.transmit(),
            #[cfg(feature = "redis")]
            Peer::Redis(redis) => redis.transmit(),
        }
    }

    /// So many bytes of that were handed over.
    pub fn written(&mut self, now: Time, bytes: usize) {
        match &mut self.peer {
            Peer::Echo(echo) => echo.written(bytes),
            Peer::Postgres(postgres) => postgres.written(now, bytes, &mut self.completions),
            #[cfg(feature = "redis")]
            Peer::Redis(redis) => redis.written(now, bytes, &mut self.completions),
        }
    }

    /// It is so late.
    pub fn time(&mut self, now: Time) {
        let to = &mut self.completions;
        match &mut self.peer {
            Peer::Echo(_) => {}
            Peer::Postgres(postgres) => postgres.time(now, to),
            #[cfg(feature = "redis")]
            Peer::Redis(redis) => redis.time(now, to),
        }
    }

    /// When that is to be said next.
    pub fn deadline(&self) -> Time {
        match &self.peer {
            Peer::Echo(_) => Time::NEVER,
            Peer::Postgres(postgres) => postgres.deadline(),
            #[cfg(feature = "redis")]
            Peer::Redis(redis) => redis.deadline(),
        }
    }

    /// The peer has gone.
    pub fn peer_closed(&mut self) {
        let to = &mut self.completions;
        match &mut self.peer {
            Peer::Echo(_) => {}
            Peer::Postgres(postgres) => postgres.peer_closed(to),
            #[cfg(feature = "redis")]
            Peer::Redis(redis) => redis.peer_closed(to),
        }
    }

    /// Says goodbye when all is answered.
    pub fn terminate(&mut self, now: Time) {
        let to = &mut self.completions;
        match &mut self.peer {
            Peer::Echo(_) => {}
            Peer::Postgres(postgres) => postgres.terminate(now, to),
            #[cfg(feature = "redis")]
            Peer::Redis(redis) => redis.terminate(now, to),
        }
    }

    /// Submits these bytes to an echo. False if it is none.
    pub fn submit_echo(&mut self, token: u32, request: &[u8]) -> bool {
        let Peer::Echo(echo) = &mut self.peer else { return false };
        echo.submit(token, request, &mut self.completions);
        true
    }

    /// Hands over more of a COPY. False if it takes none now.
    ///
    /// # Errors
    /// It can't be handed over: the COPY is then to be failed.
    pub fn feed(&mut self, now: Time, token: u32, part: Part<'_>) -> Result<bool, Refused> {
        self.on_postgres(Err(Refused::Malformed), |postgres, to| {
            postgres.feed(now, token, part, to)
        })
    }

    /// So many bytes of a stream were taken.
    pub fn taken_of_stream(&mut self, bytes: usize) {
        self.on_postgres((), |postgres, to| postgres.taken(bytes, to));
    }

    /// Nobody takes more of a stream.
    pub fn leave(&mut self, now: Time, token: u32, rest: Rest) {
        self.on_postgres((), |postgres, to| postgres.leave(now, token, rest, to));
    }

    /// Submits commands.
    ///
    /// # Errors
    /// Nothing of them was sent.
    #[cfg(feature = "redis")]
    pub fn submit_commands(
        &mut self,
        now: Time,
        token: u32,
        commands: &redis::Packed,
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        let commands = commands.submission().ok_or(Refused::Malformed)?;
        self.submit_redis(now, token, &commands, deadline)
    }

    /// The same of commands that stand in memory of the host.
    ///
    /// # Errors
    /// Nothing of them was sent.
    #[cfg(feature = "redis")]
    pub fn submit_redis(
        &mut self,
        now: Time,
        token: u32,
        commands: &redis::Submission<'_>,
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        let Connection { peer: Peer::Redis(redis), completions, .. } = self else {
            return Err(Refused::Malformed);
        };
        redis.submit(now, token, commands, deadline, completions)
    }

    /// From now on its scripts are sent as text.
    pub fn send_scripts_as_texts(&mut self) {
        #[cfg(feature = "redis")]
        if let Peer::Redis(redis) = &mut self.peer {
            redis.send_scripts_as_texts();
        }
    }

    /// The answer to the server's request for a password. One that is not UTF-8 counts as none.
    pub fn password(&mut self, now: Time, password: Option<&[u8]>) {
        if let Peer::Postgres(postgres) = &mut self.peer {
            let password = password.and_then(|bytes| std::str::from_utf8(bytes).ok());
            postgres.password(now, password, &mut self.input, &mut self.completions);
        }
    }

    /// Asks the server which it is, before anything else is sent.
    pub fn identify(&mut self) {
        self.on_postgres((), |postgres, _| postgres.identify());
    }

    /// What the server said of its session at the login, and which it is, if it was asked.
    pub fn server(&self) -> (Session, Option<Identity>) {
        match &self.peer {
            Peer::Postgres(postgres) => (postgres.session(), postgres.identity()),
            _ => (Session::default(), None),
        }
    }

    /// Ends if the server is a former primary, by what was seen of others.
    pub fn compare(&mut self, lineage: &Lineage) {
        self.on_postgres((), |postgres, to| postgres.compare(lineage, to));
    }

    /// Nobody goes on with a transaction.
    pub fn flush(&mut self, now: Time) {
        self.on_postgres((), |postgres, to| postgres.flush(now, to));
    }

    /// Whether a BEGIN is held, unanswered or refused, and its transaction is still open.
    pub fn is_opening(&self) -> bool {
        match &self.peer {
            Peer::Postgres(postgres) => postgres.is_opening(),
            _ => false,
        }
    }

    /// Ends a segment of members.
    pub fn sync(&mut self, now: Time, token: u32) -> Result<Ticket, Refused> {
        self.on_postgres(Err(Refused::Malformed), |postgres, to| postgres.sync(now, token, to))
    }

    /// The rest of a segment of members can't be submitted: what was is undone, at the sync point
    /// that the host submits next.
    pub fn fail_segment(&mut self, now: Time) {
        self.on_postgres((), |postgres, _| postgres.fail_segment(now));
    }

    /// How many statements its queue takes at most; none are counted for another protocol.
    pub fn queue_max(&mut self) -> usize {
        self.on_postgres(usize::MAX, |postgres, _| postgres.queue_max())
    }

    /// Begins a transaction of which nothing is sent yet.
    pub fn open_block(&mut self, modes: Modes) {
        self.on_postgres((), |postgres, _| postgres.open_block(modes));
    }

    /// Does something with the transaction. What takes a token ends under it.
    pub fn act(&mut self, now: Time, act: Act, token: u32) -> Result<u32, Refused> {
        self.on_postgres(Err(Refused::Malformed), |postgres, to| postgres.act(now, act, token, to))
    }

    /// Takes a request back that has not been sent. Whether it was.
    pub fn cancel(&mut self, now: Time, ticket: Ticket) -> bool {
        let to = &mut self.completions;
        match &mut self.peer {
            Peer::Echo(_) => false,
            Peer::Postgres(postgres) => postgres.cancel(now, ticket, to),
            #[cfg(feature = "redis")]
            Peer::Redis(redis) => redis.cancel(now, ticket, to),
        }
    }

    /// A reply breaks the protocol, as its reader has found.
    pub fn violated(&mut self) {
        self.on_postgres((), |postgres, to| postgres.violated(to));
    }

    /// Asks for requests to be cancelled at the server, whose callers give them up together, if
    /// that harms no other. A server that answers nothing any more is left in the end.
    pub fn want_cancel(&mut self, now: Time, tokens: &[u32]) {
        self.on_postgres((), |postgres, to| postgres.want_cancel(now, tokens, to));
    }

    /// The caller of a request has gone, though that is not to be cancelled.
    pub fn caller_gone(&mut self, now: Time, token: u32) {
        self.on_postgres((), |postgres, _| postgres.caller_gone(now, token));
    }

    /// The caller of a request waits no longer, and does not want it to be cancelled. A ROLLBACK
    /// behind it in its transaction waits no longer than for a cancel: the connection then ends.
    pub fn let_run(&mut self, token: u32) {
        self.on_postgres((), |postgres, _| postgres.let_run(token));
    }

    /// Whether the server owes answers still, and something of that was given up.
    pub fn is_given_up(&self) -> bool {
        matches!(&self.peer, Peer::Postgres(postgres) if postgres.is_given_up())
    }

    /// What is to be sent on the socket of a cancel; empty where it is not to be sent.
    pub fn begin_cancel(&mut self, now: Time) -> &[u8] {
        self.cancel.clear();
        if let Peer::Postgres(postgres) = &mut self.peer
            && postgres.begin_cancel(now, &mut self.completions)
        {
            postgres.cancel_message(&mut self.cancel);
            // The server gave no key, so nothing is sent, and nobody else would report the end.
            if self.cancel.is_empty() {
                postgres.cancel_ended(now, CancelEnd::NotSent, &mut self.completions);
            }
        }
        &self.cancel
    }

    /// Who has the session from now on. Whether a reset is owed.
    pub fn hold(&mut self, holder: Holder) -> bool {
        self.on_postgres(false, |postgres, _| postgres.hold(holder))
    }

    /// Resets the session now, if that is owed.
    pub fn reset(&mut self, now: Time) {
        self.on_postgres((), |postgres, to| postgres.reset(now, to));
    }

    /// What became of a cancel.
    pub fn cancel_ended(&mut self, now: Time, end: CancelEnd) {
        self.on_postgres((), |postgres, to| postgres.cancel_ended(now, end, to));
    }

    /// The transaction status: the letter of ReadyForQuery.
    pub fn status(&self) -> u8 {
        match &self.peer {
            Peer::Echo(_) => 0,
            Peer::Postgres(postgres) => postgres.status(),
            #[cfg(feature = "redis")]
            Peer::Redis(_) => 0,
        }
    }

    /// The process of the server that serves the session; 0 if it told none.
    pub fn process_id(&self) -> i32 {
        match &self.peer {
            Peer::Postgres(postgres) => postgres.process_id(),
            _ => 0,
        }
    }

    /// Requests that were sent and not answered, and those that wait for the window.
    pub fn pending(&self) -> (usize, usize) {
        match &self.peer {
            Peer::Echo(_) => (0, 0),
            Peer::Postgres(postgres) => (postgres.in_flight(), postgres.queued()),
            #[cfg(feature = "redis")]
            Peer::Redis(redis) => (redis.in_flight(), redis.queued()),
        }
    }

    /// The load of the connection, for a pool.
    pub fn load(&self) -> Load {
        match &self.peer {
            Peer::Echo(_) => Load { room: usize::MAX, ..Load::default() },
            Peer::Postgres(postgres) => postgres.load(),
            #[cfg(feature = "redis")]
            Peer::Redis(redis) => redis.load(),
        }
    }

    /// Frees the records that were taken before, and takes those that came since. Returns how many.
    pub fn take(&mut self) -> usize {
        self.completions.take().len()
    }

    /// The records that were taken last.
    pub fn taken(&self) -> &[Completion] {
        self.completions.taken()
    }

    /// The records since the last call, for hosts in Rust.
    pub fn drain(&mut self) -> impl Iterator<Item = Record> {
        self.completions.drain()
    }

    /// Bytes of the peer arrived. False if there is no memory for them; the connection has then
    /// ended.
    pub fn receive(&mut self, now: Time, bytes: &[u8]) -> bool {
        if !self.make_room(bytes.len()) {
            return false;
        }
        self.input.extend_from_slice(bytes);
        self.received(now);
        true
    }

    /// Submits a statement, for hosts in Rust. The lengths in its parameters are right.
    ///
    /// # Errors
    /// Nothing of it was sent.
    pub fn submit(
        &mut self,
        now: Time,
        (token, key): (u32, TextKey),
        submission: Submission<'_>,
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        self.on_postgres(Err(Refused::Malformed), |postgres, to| {
            postgres.submit(now, (token, key), submission, deadline, to)
        })
    }

    /// Submits a read that must show this position, on a connection to a replica that all callers
    /// share. A guard goes in front of it, in the same segment, unless earlier guards have shown
    /// that none is needed. If the guard fails or shows something new, its end comes under the same
    /// token, in front of that of the read: `GUARD_PASSED`, `GUARD_BEHIND` or `GUARD_FAILED`.
    ///
    /// # Errors
    /// Nothing of it was sent.
    pub fn submit_guarded(
        &mut self,
        now: Time,
        (token, key): (u32, TextKey),
        (submission, position): (Submission<'_>, &Position),
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        self.on_postgres(Err(Refused::Malformed), |postgres, to| {
            postgres.submit_guarded(now, (token, key), (submission, position), deadline, to)
        })
    }

    /// Submits a read that goes to another server once this one is lost, on a connection to a
    /// replica that all callers share. Without a position it needs no guard.
    ///
    /// # Errors
    /// Nothing of it was sent.
    pub fn submit_read(
        &mut self,
        now: Time,
        of: (u32, TextKey),
        read: Submission<'_>,
        position: Option<&Position>,
    ) -> Result<Ticket, Refused> {
        let (late, read) =
            (Time::NEVER, Submission { flags: read.flags | flag::ELSEWHERE, ..read });
        match position {
            Some(at) => self.submit_guarded(now, of, (read, at), late),
            None => self.submit(now, of, read, late),
        }
    }

    /// From now on the position of what is written is asked for, as by the setting
    /// `watch_positions`.
    pub fn watch_positions(&mut self) {
        self.on_postgres((), |postgres, _| postgres.watch_positions());
    }

    /// Questions for the position that are sent from now on have this mark, which the host is told
    /// with the answer: [`Replicas::losses`](crate::Replicas::losses).
    pub fn mark_positions(&mut self, mark: u32) {
        self.on_postgres((), |postgres, _| postgres.mark_positions(mark));
    }

    fn on_postgres<R>(
        &mut self,
        otherwise: R,
        act: impl FnOnce(&mut Postgres, &mut Completions) -> R,
    ) -> R {
        match &mut self.peer {
            Peer::Postgres(postgres) => act(postgres, &mut self.completions),
            _ => otherwise,
        }
    }
}
