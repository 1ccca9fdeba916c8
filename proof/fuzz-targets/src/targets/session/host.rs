//! The host, and the outputs that it received.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::{
    Connection, Group, Limits, Output, Request, SubmitError, SyncPoint, Ticket, Time, Token,
};
use onetrip_lab::model::{Config, Log, Server};
use onetrip_postgres::message::TransactionStatus;
use onetrip_postgres::{Postgres, StatementId};

use super::requests::{Asked, heal};
use crate::input::{Input, show_debug};

pub(super) struct Host {
    engine: Connection<Postgres>,
    server: Server,
    statement: StatementId,
    now: Time,
    /// Bytes from the server that are not a whole message yet.
    input: BytesMut,
    /// Requests that were accepted, and whether they have ended.
    taken: BTreeMap<u64, bool>,
    tickets: Vec<Ticket>,
    /// Callers that wait for room, with their requests.
    waiting: BTreeMap<u64, Asked>,
    rooms: VecDeque<u64>,
    groups: VecDeque<Wish>,
    undelivered: usize,
    /// Whether the peer broke the protocol: then the final checks do not apply.
    lied: bool,
    closed: bool,
    next: u64,
}

/// A group that wants the floor, or has it.
struct Wish {
    token: u64,
    group: Group,
    granted: bool,
    mid_segment: bool,
}

impl Host {
    pub(super) fn new(input: &mut Input<'_>) -> Host {
        let limits = Limits {
            in_flight_max: input.pick(&[1024, 1, 2, 5]),
            queue_max: input.pick(&[1024, 0, 1, 4]),
            waiting_max: 3,
            ..Limits::default()
        };
        let mut protocol = Postgres::new(TransactionStatus::Idle);
        let statement = protocol.register(heal());
        Host {
            engine: Connection::new(Time::ZERO, protocol, limits),
            server: Server::ready(Config::default(), Log::default()),
            statement,
            now: Time::ZERO,
            input: BytesMut::new(),
            taken: BTreeMap::new(),
            tickets: Vec::new(),
            waiting: BTreeMap::new(),
            rooms: VecDeque::new(),
            groups: VecDeque::new(),
            undelivered: 0,
            lied: false,
            closed: false,
            next: 1,
        }
    }

    // --- requests ---

    pub(super) fn submit(&mut self, input: &mut Input<'_>) {
        let asked = Asked::read(input);
        let token = self.token();
        let flags = (asked.flag(0), asked.flag(1), asked.flag(2));
        let request = Request {
            deadline: if flags.0 { self.now.after(MILLISECOND * 5) } else { Time::NEVER },
            pinned: flags.1,
            in_order: flags.2,
            ..self.request(token, asked)
        };
        match self.put(asked, request) {
            Ok(ticket) => self.tickets.push(ticket),
            Err(SubmitError::QueueFull) => self.wait(token, asked),
            Err(error) => assert!(matches!(error, SubmitError::Closed), "{error}"),
        }
    }

    fn wait(&mut self, token: u64, asked: Asked) {
        let deadline = self.now.after(MILLISECOND * 20);
        if let Some(ticket) = self.engine.wait(Token(token), deadline) {
            self.taken.insert(token, false);
            self.waiting.insert(token, asked);
            self.tickets.push(ticket);
        }
    }

    fn request(&self, token: u64, asked: Asked) -> Request<onetrip_postgres::Expect> {
        let request = Request::isolated(Token(token), asked.expect(self.statement));
        let sync = asked.sync(false);
        Request { sync, again: asked.is_named(), ..request }
    }

    fn put(
        &mut self,
        asked: Asked,
        request: Request<onetrip_postgres::Expect>,
    ) -> Result<Ticket, SubmitError<onetrip_postgres::message::EncodeError>> {
        let (op, sync) = (request.token.0, request.sync);
        let ticket = self.engine.submit(self.now, request, |out| asked.encode(op, sync, out))?;
        let ended = self.taken.insert(op, false);
        assert_ne!(ended, Some(true), "{op} had ended");
        Ok(ticket)
    }

    fn token(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn cancel(&mut self, which: u8) {
        if !self.tickets.is_empty() {
            let at = usize::from(which) % self.tickets.len();
            let ticket = self.tickets.swap_remove(at);
            self.engine.cancel(self.now, ticket);
        }
    }

    // --- groups ---

    pub(super) fn open_group(&mut self) {
        let token = self.token();
        if self.groups.len() < 3
            && let Some(group) = self.engine.open_group(self.now, Token(token))
        {
            self.groups.push_back(Wish { token, group, granted: false, mid_segment: false });
        }
    }

    pub(super) fn submit_to_group(&mut self, input: &mut Input<'_>) {
        let asked = Asked::read(input);
        self.put_to_group(asked);
    }

    fn put_to_group(&mut self, asked: Asked) {
        let Some(Wish { granted: true, group, mid_segment, .. }) = self.groups.front() else {
            return;
        };
        let (group, was_mid_segment) = (*group, *mid_segment);
        // A server that skips to a Sync skips a simple query too, so no client sends one there.
        let asked = if was_mid_segment && asked.is_simple() { Asked::SYNC } else { asked };
        let sync = asked.sync(true);
        let token = self.token();
        let again = asked.is_named() && sync == SyncPoint::Own && !was_mid_segment;
        let request = Request { sync, again, group: Some(group), ..self.request(token, asked) };
        if self.put(asked, request).is_ok() {
            self.groups[0].mid_segment = sync == SyncPoint::Member;
        }
    }

    pub(super) fn close_group(&mut self) {
        if self.groups.front().is_some_and(|wish| wish.mid_segment) {
            self.put_to_group(Asked::SYNC);
            // If that was refused, the segment stays open, and so does the group.
            if self.groups[0].mid_segment && !self.engine.is_closed() {
                return;
            }
        }
        if let Some(wish) = self.groups.pop_front() {
            self.engine.close_group(self.now, wish.group);
        }
    }

    fn floor(&self) -> Option<Group> {
        self.groups.front().filter(|wish| wish.granted).map(|wish| wish.group)
    }

    pub(super) fn flush_group(&mut self) {
        if let Some(group) = self.floor() {
            self.engine.flush(self.now, group);
        }
    }

    pub(super) fn stop_counting(&mut self) {
        if let Some(group) = self.floor() {
            self.engine.stop_counting(self.now, group);
        }
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        let bytes = bytes.min(self.undelivered);
        self.undelivered -= bytes;
        if let Some(group) = self.floor() {
            self.engine.handle_consumed(self.now, group, bytes);
        }
    }

    // --- the wire ---

    pub(super) fn write(&mut self, max: usize) {
        let out = self.engine.transmit();
        let len = out.len().min(max);
        self.server.handle_bytes(&out[..len]);
        self.engine.handle_written(self.now, len);
    }

    pub(super) fn read(&mut self, max: usize) {
        let bytes = self.server.transmit();
        let len = bytes.len().min(max);
        self.input.extend_from_slice(&bytes[..len]);
        self.server.handle_written(len);
        self.engine.handle_bytes(self.now, &mut self.input);
    }

    /// Moves bytes in both directions until there are none left to move.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.engine.transmit().is_empty() && self.server.transmit().is_empty() {
                return;
            }
            self.write(usize::MAX);
            self.read(usize::MAX);
            self.take_outputs();
            if self.closed {
                return;
            }
        }
        panic!("no end: {:?}", self.server);
    }

    // --- disturbances ---

    pub(super) fn pass_time(&mut self, micros: u16) {
        self.now = self.now.after(Duration::from_micros(micros.into()));
        self.engine.handle_time(self.now);
    }

    /// Disturbances that honest servers cause too.
    pub(super) fn disturb(&mut self, how: u8) {
        match how % 16 {
            0 => self.server.shut_down(),
            1..=8 => self.server.lose_statements(),
            _ => self.server.make_stale(),
        }
    }

    pub(super) fn lie(&mut self, bytes: &[u8]) {
        self.lied = true;
        self.input.extend_from_slice(bytes);
        self.engine.handle_bytes(self.now, &mut self.input);
    }

    pub(super) fn corrupt(&mut self, at: u8, with: u8) {
        let mut bytes = self.server.transmit().to_vec();
        self.server.handle_written(bytes.len());
        if let Some(byte) = bytes.get_mut(usize::from(at)) {
            *byte ^= with;
        }
        self.lie(&bytes);
    }

    pub(super) fn terminate(&mut self) {
        self.engine.terminate(self.now);
    }

    // --- outputs ---

    pub(super) fn take_outputs(&mut self) {
        for _ in 0..100_000 {
            let Some(output) = self.engine.poll_output() else {
                let Some(token) = self.rooms.pop_front() else { return };
                self.take_turn(token);
                continue;
            };
            show_debug(&output);
            self.take(output);
        }
        panic!("there is no end of outputs");
    }

    fn take<E>(&mut self, output: Output<E>) {
        match output {
            Output::Data { token, block } | Output::Piece { token, block, .. } => {
                assert_eq!(self.taken.get(&token.0), Some(&false), "{token:?} is not open");
                self.undelivered += block.len();
            }
            Output::Ended { token, block, .. } => {
                self.undelivered += block.len();
                self.ended(token.0);
            }
            Output::Granted { token } => self.granted(token.0),
            Output::Room { token } => self.rooms.push_back(token.0),
            Output::Closed(_) => {
                assert!(!self.closed, "it ended twice");
                self.closed = true;
            }
            Output::Restarted { .. }
            | Output::Cancel
            | Output::NotCancelled { .. }
            | Output::Astray => panic!("no request was cancelled"),
            Output::Leaving => panic!("nothing was wanted of the server"),
            Output::Event { .. } | Output::Full | Output::Drained => {}
        }
    }

    fn ended(&mut self, token: u64) {
        if let Some(at) = self.groups.iter().position(|wish| wish.token == token) {
            assert!(!self.groups[at].granted, "a group that was granted has no end");
            self.groups.remove(at);
            return;
        }
        self.waiting.remove(&token);
        assert_eq!(self.taken.insert(token, true), Some(false), "{token} was not open");
    }

    fn granted(&mut self, token: u64) {
        let wish = self.groups.front_mut();
        let wish = wish.filter(|wish| wish.token == token && !wish.granted);
        wish.expect("groups are granted in their order, and once").granted = true;
    }

    fn take_turn(&mut self, token: u64) {
        let asked = self.waiting.remove(&token).expect("it waits");
        let request = Request { reserved: true, ..self.request(token, asked) };
        let result = self.put(asked, request);
        assert!(result.is_ok() || self.engine.is_closed(), "there was room");
        self.engine.end_turn(self.now);
    }

    // --- the end ---

    pub(super) fn end(&mut self) {
        for _ in 0..8 {
            self.settle();
            self.consume(usize::MAX);
            self.close_group();
            self.take_outputs();
        }
        self.settle();
        if !self.lied {
            assert_eq!(self.server.log().violations(), [""; 0]);
            let open = self.taken.values().filter(|ended| !**ended).count();
            assert!(self.closed || open == 0, "{open} have no answer");
        }
        self.engine.handle_closed();
        self.take_outputs();
        assert!(self.closed && self.engine.is_closed());
        assert!(self.taken.values().all(|ended| *ended), "not ended: {:?}", self.taken);
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);
