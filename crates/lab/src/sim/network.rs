//! Bytes that move, and what keeps them from it.

use onetrip_engine::Time;

use super::mutation::Mutation;
use super::world::World;
use crate::seeded::Ending;

/// What no server would send at any time: messages that are unknown, too short, too long, malformed,
/// or belong to a startup or a COPY that nobody asked for.
const HOSTILE: [&[u8]; 7] = [
    b"\0\0\0\0\x04",
    b"!\0\0\0\x04",
    b"D\0\0\0\x03",
    b"Z\x7f\xff\xff\xff",
    b"E\0\0\0\x05S",
    b"G\0\0\0\x07\0\0\0",
    b"K\0\0\0\x0c\0\0\0\x01\0\0\0\x02",
];

impl World {
    /// The host writes as much as the socket takes, or less.
    pub(super) fn client_write(&mut self) {
        let len = self.engine.transmit().len().min(self.chunk()).min(self.up.room());
        if len == 0 {
            return;
        }
        let bytes = &self.engine.transmit()[..len];
        self.up.push(self.now, bytes);
        self.wrote.extend_from_slice(bytes);
        self.engine.handle_written(self.now, len);
        self.note(|_| format!("client writes {len}"));
        self.last_moved = self.now;
        self.moved = true;
    }

    pub(super) fn server_read(&mut self) {
        if !self.server.wants_bytes() {
            return;
        }
        let max = self.chunk().min(SERVER_READ_MAX);
        let bytes = self.up.pop(self.now, max);
        if !bytes.is_empty() {
            self.note(|_| format!("  server reads {}", bytes.len()));
            self.server.handle_bytes(&bytes);
            self.keep_server_busy();
            self.moved = true;
        } else if self.up.is_over() {
            self.note(|_| "  server sees the end".into());
            self.server.handle_closed();
            self.moved = true;
        }
    }

    pub(super) fn server_write(&mut self) {
        let len = self.server.transmit().len().min(self.chunk()).min(self.down.room());
        if len > 0 {
            self.note(|_| format!("  server writes {len}"));
            self.down.push(self.now, &self.server.transmit()[..len]);
            self.server.handle_written(len);
            self.moved = true;
        } else if self.server.is_closed()
            && self.server.transmit().is_empty()
            && !self.down.has_ended()
        {
            // Nobody reads what the client still writes.
            self.down.end();
            self.up.tear(0);
            self.moved = true;
        }
    }

    pub(super) fn client_read(&mut self) {
        let deaf = self.mutator.is(Mutation::WriteBeforeRead) && !self.transmit_is_empty();
        if self.engine.is_closed() || deaf {
            return;
        }
        let max = self.chunk();
        let bytes = self.down.pop(self.now, max);
        if !bytes.is_empty() {
            self.moved = true;
            self.note(|_| format!("client reads {}", bytes.len()));
            self.input.extend_from_slice(&bytes);
            if self.input.len() < self.need && self.rng.one_in(2) {
                // As the answer said, another call would make no progress.
                return;
            }
            self.last_moved = self.now;
            self.need = self.engine.handle_bytes(self.now, &mut self.input);
            if self.need <= self.input.len() {
                self.book.complain("the engine stopped at bytes that it could have taken");
            }
            let (calm, rooms) = (self.is_calm(), self.book.report.of("room announced"));
            self.drain();
            if calm && self.book.full && rooms == self.book.report.of("room announced") {
                self.book.complain("nothing waits, and Drained has not come");
            }
        } else if self.down.is_over() && self.down.frozen_until != Time::NEVER {
            self.note(|_| "client sees the end".into());
            self.moved = true;
            match self.settings.ending {
                Ending::CutUp(_) => self.book.report.count("cut: up"),
                Ending::CutDown(_) => self.book.report.count("cut: down"),
                _ => self.book.report.count("cut: by the server"),
            }
            self.fail_transport();
        }
    }

    /// The host sees that the connection has ended.
    pub(super) fn fail_transport(&mut self) {
        self.note(|world| format!("the transport fails: {:?}", world.engine));
        self.engine.handle_closed();
        self.drain();
        if self.book.closed.is_none() {
            self.book.complain("the transport failed, and Closed never came");
        }
        if !self.engine.is_idle() && self.turn.is_none() {
            self.book.complain(format!("not idle behind its end: {:?}", self.engine));
        }
    }

    /// What is on its way to the server gets there in part.
    pub(super) fn tear_up(&mut self) {
        if self.rng.one_in(2) {
            let keep = self.rng.index(20_000);
            self.up.tear(keep);
        }
    }

    /// Something that happens at the server by itself.
    pub(super) fn server_moment(&mut self) {
        if self.mutator.is(Mutation::StrayCancel) {
            self.server.cancel();
        }
        if self.settings.losses && !self.prepared.is_empty() {
            match self.rng.below(3) {
                0 if self.server.is_idle() => {
                    self.note(|_| "  prepared statements are lost".into());
                    self.server.lose_statements();
                }
                1 => {
                    self.note(|_| "  prepared statements go stale".into());
                    self.server.make_stale();
                }
                _ => return,
            }
            self.healing = true;
        } else if self.rng.one_in(8) {
            let until = self.now.after(self.settings.delays[1] * 4);
            let pipe = if self.rng.one_in(2) { &mut self.up } else { &mut self.down };
            pipe.frozen_until = pipe.frozen_until.max(until);
        }
    }

    pub(super) fn garble(&mut self) {
        let bytes = self.rng.pick(&HOSTILE);
        if self.server.is_closed() {
            return;
        }
        self.note(|_| format!("the server turns hostile: {bytes:?}"));
        self.garbled = true;
        self.server.garble(bytes);
    }

    /// Whether the engine must have said so if it was full.
    fn is_calm(&self) -> bool {
        let limits = &self.settings.limits;
        let below = |now: usize, max: usize| now < (max - max / 4).max(1);
        let bytes = self.engine.in_flight_bytes() + self.engine.undelivered_bytes();
        !self.engine.is_closed()
            && self.engine.queued() == 0
            && self.engine.waiting() == 0
            && self.turn.is_none()
            && below(self.engine.in_flight(), limits.in_flight_max)
            && below(bytes, limits.in_flight_bytes_max)
    }

    fn chunk(&mut self) -> usize {
        let max = self.settings.chunk_max;
        if self.rng.one_in(4) { max } else { self.rng.up_to(max) }
    }
}

/// The size of PqRecvBuffer in src/backend/libpq/pqcomm.c.
const SERVER_READ_MAX: usize = 8192;
