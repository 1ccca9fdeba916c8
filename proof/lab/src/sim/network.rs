//! The movement of bytes, and its faults.

use onetrip_engine::Time;

use super::driven::Driven;
use super::link::Link;
use super::mutation::Mutation;
use super::settings::Ending;
use super::side::{Peer, Side};
use super::world::World;

impl<S: Side> World<S> {
    /// The host writes as much as the socket takes, or less.
    pub(crate) fn client_write(&mut self, at: usize) {
        let room = self.links[at].up.room();
        let len = self.driven.transmit(at).len().min(self.chunk()).min(room);
        if len == 0 {
            return;
        }
        let (link, bytes) = (&mut self.links[at], &self.driven.transmit(at)[..len]);
        link.up.push(self.now, bytes);
        link.wrote.extend_from_slice(bytes);
        self.driven.handle_written(self.now, at, len);
        self.note(|_| format!("client writes {len}"));
        self.last_moved = self.now;
        self.moved = true;
    }

    pub(crate) fn server_read(&mut self, at: usize) {
        if !self.links[at].server.wants_bytes() {
            return;
        }
        let max = self.chunk().min(S::READ_MAX);
        let bytes = self.links[at].up.pop(self.now, max);
        if !bytes.is_empty() {
            self.note(|_| format!("  server reads {}", bytes.len()));
            self.links[at].server.handle_bytes(&bytes);
            S::has_read(self);
            self.moved = true;
        } else if self.links[at].up.is_over() {
            self.note(|_| "  server sees the end".into());
            self.links[at].server.handle_closed();
            self.moved = true;
        }
    }

    pub(crate) fn server_write(&mut self, at: usize) {
        let chunk = self.chunk();
        let link = &mut self.links[at];
        let len = link.server.transmit().len().min(chunk).min(link.down.room());
        if len > 0 {
            link.down.push(self.now, &link.server.transmit()[..len]);
            link.server.handle_written(len);
            self.note(|_| format!("  server writes {len}"));
            self.moved = true;
        } else if link.server.is_closed()
            && link.server.transmit().is_empty()
            && !link.down.has_ended()
        {
            // The server no longer reads what the client writes.
            link.down.end();
            link.up.tear(0);
            self.moved = true;
        }
    }

    pub(crate) fn client_read(&mut self, at: usize) {
        let deaf = self.mutator.is(Mutation::WriteBeforeRead) && !self.transmit_is_empty();
        if self.driven.is_link_closed(at) || deaf {
            return;
        }
        if !self.driven.wants_bytes(at) {
            self.book.report.count("reading waited");
            return;
        }
        let max = self.chunk();
        let down = &mut self.links[at].down;
        let bytes = down.pop(self.now, max);
        if !bytes.is_empty() {
            self.read(at, &bytes);
        } else if down.is_over() && down.frozen_until != Time::NEVER {
            self.note(|_| "client sees the end".into());
            self.moved = true;
            match self.settings.ending {
                Ending::CutUp(_) => self.book.report.count("cut: up"),
                Ending::CutDown(_) => self.book.report.count("cut: down"),
                _ => self.book.report.count("cut: by the server"),
            }
            self.fail_transport(at);
        }
    }

    fn read(&mut self, at: usize, bytes: &[u8]) {
        self.moved = true;
        self.note(|_| format!("client reads {}", bytes.len()));
        let link = &mut self.links[at];
        link.input.extend_from_slice(bytes);
        if link.input.len() < link.need && self.rng.one_in(2) {
            // It needs more bytes than these, so another call would make no progress.
            return;
        }
        self.last_moved = self.now;
        self.input_max = self.input_max.max(link.input.len());
        link.need = self.driven.handle_bytes(self.now, at, &mut link.input);
        if link.need <= link.input.len() {
            self.book.complain("it stopped at bytes that it could have taken");
        }
        let (calm, rooms) = (self.is_calm(), self.book.report.of("room announced"));
        self.drain();
        if calm && self.book.full && rooms == self.book.report.of("room announced") {
            self.book.complain("nothing waits, and Drained has not come");
        }
    }

    /// The host sees that a link has ended.
    pub(crate) fn fail_transport(&mut self, at: usize) {
        self.note(|world| format!("the transport fails: {:?}", world.driven));
        self.driven.handle_closed(self.now, at);
        self.drain();
        if self.is_unannounced() {
            self.book.complain("the transport failed, and Closed never came");
        }
        if self.driven.is_closed() && !self.driven.is_idle() && self.turn.is_none() {
            self.book.complain(format!("not idle behind its end: {:?}", self.driven));
        }
    }

    /// Whether the end should have been reported and was not. With several links, the end of one
    /// does not count.
    fn is_unannounced(&self) -> bool {
        self.book.closed.is_none() && (self.links.len() == 1 || self.driven.is_closed())
    }

    /// The tested state machine has opened a link again.
    pub(crate) fn open_link(&mut self, at: usize) {
        let keep = if self.rng.one_in(2) { self.rng.index(20_000) } else { usize::MAX };
        self.links[at].hang_up(keep);
        if let Some(server) = S::reopen(self, at) {
            self.links[at] = Link::new(server, &self.settings.network);
        }
    }

    /// One direction stands still for a while.
    pub(crate) fn freeze(&mut self) {
        let until = self.now.after(self.settings.network.delays[1] * 4);
        let at = self.any_link();
        let link = &mut self.links[at];
        let pipe = if self.rng.one_in(2) { &mut link.up } else { &mut link.down };
        pipe.frozen_until = pipe.frozen_until.max(until);
    }

    pub(crate) fn garble(&mut self, at: usize) {
        let bytes = self.rng.pick(S::HOSTILE);
        if self.links[at].server.is_closed() {
            return;
        }
        self.note(|_| format!("the server turns hostile: {bytes:?}"));
        self.garbled = true;
        self.links[at].server.garble(bytes);
    }

    /// Whether a full queue must have been reported.
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
