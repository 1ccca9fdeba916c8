//! One client's connection and its upstream: two sockets, a pipe for each direction, and the rules
//! for its end.

use std::sync::Arc;
use std::time::Duration;

use super::config::{Direction, Link};
use super::event_loop;
use super::faults::Fault;
use super::pipe::Pipe;
use super::queue::End;
use super::recording::{Passage, Recording};
use super::rope::Pool;
use super::socket::Socket;
use super::stats::ConnectionStats;
use super::tap::Tap;
use super::trips::{SideBySide, TripCounter};

/// One of the two sockets of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// What epoll said about a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Readiness {
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) hung_up: bool,
    pub(super) error: bool,
}

pub(super) struct Connection {
    id: u64,
    client: Socket,
    server: Socket,
    up: Pipe,
    down: Pipe,
    trips: TripCounter,
    phase: Phase,
    /// Directions (up, down) whose end of stream was delivered.
    ended: (bool, bool),
    tap: Option<Arc<dyn Tap>>,
}

enum Phase {
    /// The upstream does not answer yet; given up at this time.
    Connecting {
        give_up_ns: u64,
    },
    Open,
    /// Cut by a fault: both sides were sent an end of stream; what they still send is read and
    /// dropped until they end too. A close right away would make the kernel send a reset for unread
    /// bytes.
    Cut,
    Closed,
}

impl Connection {
    pub(super) fn new(
        id: u64,
        client: Socket,
        server: Socket,
        up: Pipe,
        down: Pipe,
        now_ns: u64,
    ) -> Self {
        Connection {
            id,
            client,
            server,
            up,
            down,
            trips: TripCounter::new(),
            phase: Phase::Connecting { give_up_ns: now_ns + CONNECT_TIMEOUT_NS },
            ended: (false, false),
            tap: None,
        }
    }

    /// The same with somebody who looks on.
    pub(super) fn tapped(self, tap: Option<Arc<dyn Tap>>) -> Self {
        Connection { tap, ..self }
    }

    /// Takes in what epoll said; [`pump`](Self::pump) acts on it.
    pub(super) fn handle_readiness(&mut self, side: Side, ready: Readiness, now_ns: u64) {
        if side == Side::Server && matches!(self.phase, Phase::Connecting { .. }) {
            return self.handle_dialled(ready, now_ns);
        }
        let (socket, pipe) = match side {
            Side::Client => (&mut self.client, &mut self.up),
            Side::Server => (&mut self.server, &mut self.down),
        };
        socket.readable |= ready.readable;
        socket.writable |= ready.writable;
        socket.hung_up |= ready.hung_up;
        if ready.error {
            pipe.source_broke(now_ns);
        }
    }

    fn handle_dialled(&mut self, ready: Readiness, now_ns: u64) {
        if ready.error || self.server.take_error().is_err() {
            self.dial_failed(now_ns);
        } else if ready.writable {
            if let (Some(tap), Phase::Connecting { give_up_ns }) = (&self.tap, &self.phase) {
                let begun_ns = *give_up_ns - CONNECT_TIMEOUT_NS;
                let connecting_ns = event_loop::now_ns().saturating_sub(begun_ns);
                tap.opened(self.id, Duration::from_nanos(connecting_ns));
            }
            self.phase = Phase::Open;
            self.server.writable = true;
            self.server.readable |= ready.readable;
            self.server.hung_up |= ready.hung_up;
        }
    }

    /// The upstream does not answer: the client sees a reset, delayed as one from the server would
    /// be.
    fn dial_failed(&mut self, now_ns: u64) {
        self.phase = Phase::Open;
        self.server.broken = true;
        self.down.source_ends(now_ns, End::Reset);
    }

    /// Moves what can be moved at `now_ns`.
    pub(super) fn pump(&mut self, now_ns: u64, pool: &mut Pool, side_by_side: &mut SideBySide) {
        match self.phase {
            Phase::Connecting { give_up_ns } if now_ns >= give_up_ns => self.dial_failed(now_ns),
            Phase::Cut => return self.drain_after_cut(pool),
            Phase::Closed => return,
            _ => {}
        }
        self.give_up_on_broken(now_ns, pool);
        let answered = self.down.fill(&mut self.server, now_ns, pool);
        // What the client wrote before it sees the bytes that are due belongs to the trip before:
        // read it first, even if epoll has not reported it yet.
        self.client.readable |= self.down.is_due(now_ns);
        self.read_client(now_ns, pool, side_by_side);
        self.look_on(Direction::Down, answered);
        if self.down.drain(&mut self.client, now_ns, pool) > 0 {
            self.trips.ended(side_by_side);
        }
        self.up.drain(&mut self.server, now_ns, pool);
        self.end_what_ended(now_ns, pool);
    }

    /// Reads what the client has written so far, so that counts and faults that follow see it.
    pub(super) fn catch_up(&mut self, now_ns: u64, pool: &mut Pool, side_by_side: &mut SideBySide) {
        if matches!(self.phase, Phase::Connecting { .. } | Phase::Open) {
            self.client.readable = true;
            self.read_client(now_ns, pool, side_by_side);
        }
    }

    /// The connection is over: other trips no longer run side by side with a trip that got no
    /// answer.
    pub(super) fn over(&mut self, side_by_side: &mut SideBySide) {
        self.trips.ended(side_by_side);
        if let Some(tap) = &self.tap {
            tap.closed(self.id);
        }
    }

    pub(super) fn apply(&mut self, fault: Fault) {
        self.pipe(fault.direction()).faults.apply(fault);
    }

    pub(super) fn clear_faults(&mut self) {
        self.up.faults = Default::default();
        self.down.faults = Default::default();
    }

    pub(super) fn set_links(&mut self, up: &Link, down: &Link, buffer_max: Option<usize>) {
        self.up.set_link(up, buffer_max);
        self.down.set_link(down, buffer_max);
    }

    /// Zero counters; the next client bytes open a trip.
    pub(super) fn mark(&mut self) {
        self.trips.mark();
        self.up.delivered = 0;
        self.down.delivered = 0;
    }

    /// Records both directions from now on.
    pub(super) fn record(&mut self, now_ns: u64) {
        for direction in [Direction::Up, Direction::Down] {
            let recording = Recording::new(self.id, direction, now_ns);
            self.pipe(direction).record(recording);
        }
    }

    /// What was recorded. Nothing more is.
    pub(super) fn recorded(&mut self) -> impl Iterator<Item = Passage> + use<> {
        self.up.recorded().chain(self.down.recorded())
    }

    pub(super) fn stats(&self) -> ConnectionStats {
        ConnectionStats {
            id: self.id,
            bytes_up: self.up.delivered,
            bytes_down: self.down.delivered,
            trips: self.trips.trips(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// When [`pump`](Self::pump) has something to do without epoll saying so; 0 means now.
    pub(super) fn next_wake_ns(&self) -> Option<u64> {
        match self.phase {
            Phase::Cut if self.client.readable || self.server.readable => Some(0),
            Phase::Cut | Phase::Closed => None,
            _ if self.up.can_fill(&self.client) || self.down.can_fill(&self.server) => Some(0),
            _ => {
                let up = self.up.next_release_ns(&self.server);
                let down = self.down.next_release_ns(&self.client);
                let give_up = match self.phase {
                    Phase::Connecting { give_up_ns } => Some(give_up_ns),
                    _ => None,
                };
                [up, down, give_up].into_iter().flatten().min()
            }
        }
    }

    pub(super) fn sockets(&self) -> [(Side, &Socket); 2] {
        [(Side::Client, &self.client), (Side::Server, &self.server)]
    }

    fn pipe(&mut self, direction: Direction) -> &mut Pipe {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    fn read_client(&mut self, now_ns: u64, pool: &mut Pool, side_by_side: &mut SideBySide) {
        let on_the_line = self.up.is_carrying() || self.down.is_carrying();
        let bytes = self.up.fill(&mut self.client, now_ns, pool);
        if bytes > 0 {
            self.trips.client_wrote(on_the_line, side_by_side);
            self.look_on(Direction::Up, bytes);
        }
    }

    /// Shows the tap the bytes that were just read. They have a stamp of their own, since there may
    /// be many connections between the time of this turn and them.
    fn look_on(&self, direction: Direction, bytes: usize) {
        let Some(tap) = self.tap.as_ref().filter(|_| bytes > 0) else { return };
        let pipe = match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        };
        let at_ns = event_loop::now_ns();
        pipe.filled(bytes).for_each(|bytes| tap.passed(self.id, direction, at_ns, bytes));
    }

    /// A side to which a write failed is gone: its bytes are dropped, and the other side will be
    /// reset. If the end of its own bytes was not read yet, reading will find the reset after them.
    fn give_up_on_broken(&mut self, now_ns: u64, pool: &mut Pool) {
        if self.client.broken {
            self.down.discard(pool);
            self.up.source_broke(now_ns);
        }
        if self.server.broken {
            self.up.discard(pool);
            self.down.source_broke(now_ns);
        }
    }

    fn end_what_ended(&mut self, now_ns: u64, pool: &mut Pool) {
        match self.up.faults.end().or(self.down.faults.end()) {
            Some(End::Reset) => return self.reset(pool),
            Some(End::Eof) => return self.cut(pool),
            None => {}
        }
        if matches!(self.phase, Phase::Connecting { .. }) {
            // A shutdown would abort the dial; the end waits for the server to be there.
            return;
        }
        match self.up.take_end(now_ns) {
            Some(End::Reset) => return self.reset(pool),
            Some(End::Eof) => {
                self.server.shutdown_write();
                self.ended.0 = true;
            }
            None => {}
        }
        match self.down.take_end(now_ns) {
            Some(End::Reset) => return self.reset(pool),
            Some(End::Eof) => {
                self.client.shutdown_write();
                self.ended.1 = true;
            }
            None => {}
        }
        if self.ended == (true, true) {
            self.close(pool);
        }
    }

    fn reset(&mut self, pool: &mut Pool) {
        self.client.reset_on_close();
        self.server.reset_on_close();
        self.close(pool);
    }

    fn cut(&mut self, pool: &mut Pool) {
        self.client.shutdown_write();
        self.server.shutdown_write();
        self.up.discard(pool);
        self.down.discard(pool);
        self.client.readable = !self.up.source_ended();
        self.server.readable = !self.down.source_ended();
        self.phase = Phase::Cut;
        self.drain_after_cut(pool);
    }

    fn drain_after_cut(&mut self, pool: &mut Pool) {
        // Only the ends matter now, at once: nothing is delivered any more, so delays play no part.
        for (socket, pipe) in [(&mut self.client, &mut self.up), (&mut self.server, &mut self.down)]
        {
            pipe.fill(socket, 0, pool);
            if pipe.source_ended() {
                socket.readable = false;
            }
        }
        if self.up.source_ended() && self.down.source_ended() {
            self.close(pool);
        }
    }

    fn close(&mut self, pool: &mut Pool) {
        self.up.discard(pool);
        self.down.discard(pool);
        self.phase = Phase::Closed;
    }
}

/// How long an upstream may take to answer a dial: 10 s, then the client is reset.
const CONNECT_TIMEOUT_NS: u64 = 10_000_000_000;
