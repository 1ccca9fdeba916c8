//! One connection as the host holds it: its peer, the bytes that arrived, and the records of what
//! happened.

use std::ptr;
use std::sync::Arc;

use bytes::BytesMut;
use onetrip_engine::pool::{Load, TextKey, Timings};
use onetrip_engine::{CancelEnd, Ticket, Time, memory};
use onetrip_postgres::client::connect::Session;
use onetrip_postgres::client::identity::{Identity, Lineage};
use onetrip_postgres::client::position::Position;
use onetrip_postgres::client::stream::Rest;
use onetrip_postgres::client::transaction::modes::Modes;

#[cfg(feature = "reads")]
use crate::codes;
use crate::completion::{Completion, Completions, Record, close, too_long};
use crate::echo::Echo;
use crate::input::Input;
use crate::postgres::Postgres;
use crate::postgres::blocks::Act;
use crate::postgres::flow::Part;
use crate::postgres::request::Submission;
use crate::postgres::{Holder, Refused, SharedTexts};
#[cfg(feature = "redis")]
use crate::redis::{self, Redis};

/// One connection. The host has a pointer to it, from `onetrip_…_new` until
/// `onetrip_connection_free`.
#[derive(Debug)]
pub struct Connection {
    peer: Peer,
    pub(crate) input: Input,
    /// Memory into which the host writes a request.
    pub(crate) request: Vec<u8>,
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

/// The most room that is kept for the next request. More, needed once for a long value, is freed.
const ROOM_KEPT_MAX: usize = 1 << 20;

impl Connection {
    pub(crate) fn echo() -> Connection {
        Connection::of(Peer::Echo(Echo::default()), Completions::default())
    }

    /// A connection to PostgreSQL: see `onetrip_postgres_new`.
    pub fn postgres(now: Time, settings: &[u8], nonce: [u8; 18]) -> Connection {
        let mut completions = Completions::default();
        let postgres = Postgres::new(now, settings, nonce, &mut completions);
        Connection::of(Peer::Postgres(Box::new(postgres)), completions)
    }

    /// A connection to Redis: see `onetrip_redis_new`.
    #[cfg(feature = "redis")]
    pub fn redis(now: Time, settings: &[u8]) -> Connection {
        let mut completions = Completions::default();
        let redis = Redis::new(now, settings, &mut completions);
        Connection::of(Peer::Redis(Box::new(redis)), completions)
    }

    fn of(peer: Peer, completions: Completions) -> Connection {
        Connection {
            peer,
            input: Input::default(),
            request: Vec::new(),
            completions,
            cancel: BytesMut::new(),
        }
    }

    /// Room for a request of this many bytes; null if there is no memory for it.
    pub(crate) fn room(&mut self, len: usize) -> *mut u8 {
        if self.request.len() < len {
            if !memory::is_there(len) {
                return ptr::null_mut();
            }
            // The old content belongs to an earlier request.
            self.request = vec![0; len];
        }
        self.request.as_mut_ptr()
    }

    /// Room for this many bytes that arrive. Null if there is no memory for it; the connection has
    /// then ended.
    pub(crate) fn input_room(&mut self, len: usize) -> *mut u8 {
        if let Some(room) = self.input.room(len) {
            return room;
        }
        let why = too_long(self.input.bytes().len(), len);
        self.input = Input::default();
        let to = &mut self.completions;
        match &mut self.peer {
            Peer::Echo(_) => {}
            Peer::Postgres(postgres) => postgres.end(close::NO_MEMORY, why, to),
            #[cfg(feature = "redis")]
            Peer::Redis(redis) => redis.end((close::NO_MEMORY, false), why, to),
        }
        ptr::null_mut()
    }

    pub(crate) fn join_pool(&mut self, texts: &mut Option<SharedTexts>, timings: &Arc<Timings>) {
        if let Peer::Postgres(postgres) = &mut self.peer {
            postgres.join_pool(texts, timings);
        }
    }

    pub(crate) fn open_to_all(&mut self, is_open: bool) {
        if let Peer::Postgres(postgres) = &mut self.peer {
            postgres.open_to_all(is_open);
        }
    }

    /// Bytes were added to the input.
    pub fn received(&mut self, now: Time) {
        let (input, to) = (self.input.bytes(), &mut self.completions);
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

    pub(crate) fn submit_echo(&mut self, token: u32, len: usize) -> bool {
        let (Peer::Echo(echo), Some(request)) = (&mut self.peer, self.request.get(..len)) else {
            return false;
        };
        echo.submit(token, request, &mut self.completions);
        true
    }

    /// Takes a request that the host has written: a text, a name, and parameters.
    pub(crate) fn submit_postgres(
        &mut self,
        now: Time,
        (token, flags, key): (u32, u32, TextKey),
        (text_len, name_len, len): (usize, usize, usize),
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        let Connection { peer: Peer::Postgres(postgres), request, completions, .. } = self else {
            return Err(Refused::Malformed);
        };
        let written = request.get(..len).ok_or(Refused::Malformed)?;
        let submission = Submission::read(flags, written, text_len, name_len);
        let submission = submission.ok_or(Refused::Malformed)?;
        let result = postgres.submit(now, (token, key), submission, deadline, completions);
        keep_little(request);
        result
    }

    /// Takes a read that the host has written: see [`submit_guarded`](Self::submit_guarded). Without
    /// a position it needs no guard.
    #[cfg(feature = "reads")]
    pub(crate) fn submit_read(
        &mut self,
        now: Time,
        (token, flags, key): (u32, u32, TextKey),
        (text_len, len): (usize, usize),
        position: Option<&Position>,
    ) -> Result<Ticket, Refused> {
        let Connection { peer: Peer::Postgres(postgres), request, completions, .. } = self else {
            return Err(Refused::Malformed);
        };
        let written = request.get(..len).ok_or(Refused::Malformed)?;
        let read = Submission::read(flags, written, text_len, 0).ok_or(Refused::Malformed)?;
        let read = Submission { flags: flags | codes::flag::ELSEWHERE, ..read };
        let (of, late) = ((token, key), Time::NEVER);
        let result = match position {
            Some(at) => postgres.submit_guarded(now, of, (read, at), late, completions),
            None => postgres.submit(now, of, read, late, completions),
        };
        keep_little(request);
        result
    }

    /// Hands over more of a COPY that the host has written.
    pub fn feed(&mut self, now: Time, token: u32, part: u32, len: usize) -> Result<bool, Refused> {
        let Connection { peer: Peer::Postgres(postgres), request, completions, .. } = self else {
            return Err(Refused::Malformed);
        };
        let written = request.get(..len).ok_or(Refused::Malformed)?;
        let part = match part {
            0 => Part::Data(written),
            1 => Part::Done,
            _ => Part::Failed(str::from_utf8(written).unwrap_or_default()),
        };
        let taken = postgres.feed(now, token, part, completions);
        keep_little(request);
        taken
    }

    /// Hands over more of a COPY, for hosts in Rust. False if it takes none now.
    ///
    /// # Errors
    /// It can't be handed over: the COPY is then to be failed.
    pub fn feed_part(&mut self, now: Time, token: u32, part: Part<'_>) -> Result<bool, Refused> {
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

    /// Takes commands that the host has written, behind the text of a script if there is one.
    #[cfg(feature = "redis")]
    pub(crate) fn submit_redis(
        &mut self,
        now: Time,
        (token, flags, replies): (u32, u32, u32),
        (text_len, len): (usize, usize),
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        let Connection { peer: Peer::Redis(redis), request, completions, .. } = self else {
            return Err(Refused::Malformed);
        };
        let written = request.get(..len).ok_or(Refused::Malformed)?;
        let submission = redis::submission::Submission::read(flags, replies, written, text_len);
        let submission = submission.ok_or(Refused::Malformed)?;
        let result = redis.submit(now, token, &submission, deadline, completions);
        keep_little(request);
        result
    }

    /// The same for hosts in Rust.
    #[cfg(feature = "redis")]
    pub fn submit_commands(
        &mut self,
        now: Time,
        token: u32,
        commands: &redis::packed::Packed,
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        let Connection { peer: Peer::Redis(redis), completions, .. } = self else {
            return Err(Refused::Malformed);
        };
        let commands = commands.submission().ok_or(Refused::Malformed)?;
        redis.submit(now, token, &commands, deadline, completions)
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
            postgres.password(now, password, self.input.bytes(), &mut self.completions);
        }
    }

    /// Asks the server which it is, before anything else is sent.
    pub(crate) fn identify(&mut self) {
        self.on_postgres((), |postgres, _| postgres.identify());
    }

    /// What the server said of its session at the login, and which it is, if it was asked.
    pub(crate) fn server(&self) -> (Session, Option<Identity>) {
        match &self.peer {
            Peer::Postgres(postgres) => (postgres.session(), postgres.identity()),
            _ => (Session::default(), None),
        }
    }

    /// Ends if the server is a former primary, by what was seen of others.
    pub(crate) fn compare(&mut self, lineage: &Lineage) {
        self.on_postgres((), |postgres, to| postgres.compare(lineage, to));
    }

    /// Nobody goes on with a transaction.
    pub fn flush(&mut self, now: Time) {
        self.on_postgres((), |postgres, to| postgres.flush(now, to));
    }

    pub(crate) fn is_opening(&self) -> bool {
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

    /// Asks for a request to be cancelled at the server, if that harms no other.
    pub fn want_cancel(&mut self, now: Time, token: u32) {
        self.on_postgres((), |postgres, to| postgres.want_cancel(now, token, to));
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

    pub(crate) fn take(&mut self) -> usize {
        self.completions.take().len()
    }

    pub(crate) fn taken(&self) -> &[Completion] {
        self.completions.taken()
    }

    /// The records since the last call, for hosts in Rust.
    pub fn drain(&mut self) -> impl Iterator<Item = Record> {
        self.completions.drain()
    }

    /// Bytes of the peer arrived. False if there is no memory for them; the connection has then
    /// ended.
    pub fn receive(&mut self, now: Time, bytes: &[u8]) -> bool {
        if self.input_room(bytes.len()).is_null() {
            return false;
        }
        self.input.bytes().extend_from_slice(bytes);
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

fn keep_little(request: &mut Vec<u8>) {
    if request.capacity() > ROOM_KEPT_MAX {
        *request = Vec::new();
    }
}
