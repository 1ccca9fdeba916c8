//! Bytes that move, and what keeps them from it.

use onetrip_engine::Time;

use super::driven::Driven;
use super::mutation::Mutation;
use super::settings::Ending;
use super::side::{Peer, Side};
use super::world::World;

impl<S: Side> World<S> {
    /// The host writes as much as the socket takes, or less.
    pub(crate) fn client_write(&mut self) {
        let len = self.driven.transmit().len().min(self.chunk()).min(self.up.room());
        if len == 0 {
            return;
        }
        let bytes = &self.driven.transmit()[..len];
        self.up.push(self.now, bytes);
        self.wrote.extend_from_slice(bytes);
        self.driven.handle_written(self.now, len);
        self.note(|_| format!("client writes {len}"));
        self.last_moved = self.now;
        self.moved = true;
    }

    pub(crate) fn server_read(&mut self) {
        if !self.server.wants_bytes() {
            return;
        }
        let max = self.chunk().min(S::READ_MAX);
        let bytes = self.up.pop(self.now, max);
        if !bytes.is_empty() {
            self.note(|_| format!("  server reads {}", bytes.len()));
            self.server.handle_bytes(&bytes);
            S::has_read(self);
            self.moved = true;
        } else if self.up.is_over() {
            self.note(|_| "  server sees the end".into());
            self.server.handle_closed();
            self.moved = true;
        }
    }

    pub(crate) fn server_write(&mut self) {
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

    pub(crate) fn client_read(&mut self) {
        let deaf = self.mutator.is(Mutation::WriteBeforeRead) && !self.transmit_is_empty();
        if self.driven.is_closed() || deaf {
            return;
        }
        if !self.driven.wants_bytes() {
            self.book.report.count("reading waited");
            return;
        }
        let max = self.chunk();
        let bytes = self.down.pop(self.now, max);
        if !bytes.is_empty() {
            self.read(&bytes);
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

    fn read(&mut self, bytes: &[u8]) {
        self.moved = true;
        self.note(|_| format!("client reads {}", bytes.len()));
        self.input.extend_from_slice(bytes);
        if self.input.len() < self.need && self.rng.one_in(2) {
            // As the answer said, another call would make no progress.
            return;
        }
        self.last_moved = self.now;
        self.input_max = self.input_max.max(self.input.len());
        self.need = self.driven.handle_bytes(self.now, &mut self.input);
        if self.need <= self.input.len() {
            self.book.complain("it stopped at bytes that it could have taken");
        }
        let (calm, rooms) = (self.is_calm(), self.book.report.of("room announced"));
        self.drain();
        if calm && self.book.full && rooms == self.book.report.of("room announced") {
            self.book.complain("nothing waits, and Drained has not come");
        }
    }

    /// The host sees that the connection has ended.
    pub(crate) fn fail_transport(&mut self) {
        self.note(|world| format!("the transport fails: {:?}", world.driven));
        self.driven.handle_closed();
        self.drain();
        if self.book.closed.is_none() {
            self.book.complain("the transport failed, and Closed never came");
        }
        if !self.driven.is_idle() && self.turn.is_none() {
            self.book.complain(format!("not idle behind its end: {:?}", self.driven));
        }
    }

    /// One direction stands still for a while.
    pub(crate) fn freeze(&mut self) {
        let until = self.now.after(self.settings.network.delays[1] * 4);
        let pipe = if self.rng.one_in(2) { &mut self.up } else { &mut self.down };
        pipe.frozen_until = pipe.frozen_until.max(until);
    }

    pub(crate) fn garble(&mut self) {
        let bytes = self.rng.pick(S::HOSTILE);
        if self.server.is_closed() {
            return;
        }
        self.note(|_| format!("the server turns hostile: {bytes:?}"));
        self.garbled = true;
        self.server.garble(bytes);
    }

    /// Whether it must have been said if it was full.
    fn is_calm(&self) -> bool {
        let (limits, load) = (&self.settings.network.limits, self.driven.load());
        let below = |now: usize, max: usize| now < (max - max / 4).max(1);
        let bytes = load.in_flight_bytes + load.undelivered_bytes;
        !self.driven.is_closed()
            && load.queued == 0
            && load.waiting == 0
            && self.turn.is_none()
            && below(load.in_flight, limits.in_flight_max)
            && below(bytes, limits.in_flight_bytes_max)
    }

    fn chunk(&mut self) -> usize {
        let max = self.settings.network.chunk_max;
        if self.rng.one_in(4) { max } else { self.rng.up_to(max) }
    }
}
