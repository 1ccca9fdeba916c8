//! Bytes that move, and what keeps them from it.

use onetrip_engine::Time;

use super::mutation::Mutation;
use super::world::World;
use crate::seeded::Ending;

/// What no server would send at any time: types and lengths that there are not, values that are none, a
/// push without a name, an end that nothing begins.
const HOSTILE: [&[u8]; 9] = [
    b"@\r\n",
    b"$x\r\n",
    b"*-2\r\n",
    b":one\r\n",
    b"#y\r\n",
    b"$99999999999999999999\r\n",
    b">0\r\n",
    b".\r\n",
    b"$3\r\nabcdef",
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
        if self.server.is_closed() {
            return;
        }
        let max = self.chunk();
        let bytes = self.up.pop(self.now, max);
        if !bytes.is_empty() {
            self.note(|_| format!("  server reads {}", bytes.len()));
            self.server.handle_bytes(&bytes);
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
        let deaf = self.mutator.is(Mutation::WriteBeforeRead) && !self.engine.transmit().is_empty();
        if self.engine.is_closed() || deaf {
            return;
        }
        if !self.engine.wants_bytes() {
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
        self.need = self.engine.handle_bytes(self.now, &mut self.input);
        if self.need <= self.input.len() {
            self.book.complain("the engine stopped at bytes that it could have taken");
        }
        let (calm, rooms) = (self.is_calm(), self.book.report.of("room announced"));
        self.drain();
        if calm && self.book.full && rooms == self.book.report.of("room announced") {
            self.book.complain("nothing waits, and Drained has not come");
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

    /// Something that happens at the server by itself.
    pub(super) fn server_moment(&mut self) {
        match self.rng.below(4) {
            0 => self.server.push_message(b"by itself"),
            1 => self.server.push_end_of_subscription(),
            2 if self.settings.losses => {
                self.note(|_| "  scripts are lost".into());
                self.server.lose_scripts();
            }
            _ if self.rng.one_in(8) => {
                let until = self.now.after(self.settings.network.delays[1] * 4);
                let pipe = if self.rng.one_in(2) { &mut self.up } else { &mut self.down };
                pipe.frozen_until = pipe.frozen_until.max(until);
            }
            _ => {}
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
        let limits = &self.settings.network.limits;
        let below = |now: usize, max: usize| now < (max - max / 4).max(1);
        !self.engine.is_closed()
            && self.engine.queued() == 0
            && self.engine.waiting() == 0
            && self.turn.is_none()
            && below(self.engine.in_flight(), limits.in_flight_max)
            && below(self.engine.in_flight_bytes(), limits.in_flight_bytes_max)
    }

    fn chunk(&mut self) -> usize {
        let max = self.settings.network.chunk_max;
        if self.rng.one_in(4) { max } else { self.rng.up_to(max) }
    }
}
