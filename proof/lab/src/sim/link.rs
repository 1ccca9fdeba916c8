//! The network between the tested state machine and one server, and that server.

use std::fmt;

use bytes::BytesMut;
use onetrip_engine::Time;

use super::pipe::Pipe;
use super::settings::Network;
use super::side::Peer;

/// One connection as the network has it.
pub(crate) struct Link<Server> {
    pub(crate) server: Server,
    /// Client to server.
    pub(crate) up: Pipe,
    /// Server to client.
    pub(crate) down: Pipe,
    /// Bytes that the client has read and not processed.
    pub(crate) input: BytesMut,
    /// How many bytes of input are needed to go on.
    pub(crate) need: usize,
    /// All bytes that were handed to the transport.
    pub(crate) wrote: Vec<u8>,
}

impl<Server: fmt::Debug> fmt::Debug for Link<Server> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} {:?}", self.server, self.up, self.down)
    }
}

impl<Server: Peer> Link<Server> {
    pub(crate) fn new(server: Server, network: &Network) -> Link<Server> {
        Link {
            server,
            up: Pipe::new(network.caps[0], network.delays[0]),
            down: Pipe::new(network.caps[1], network.delays[1]),
            input: BytesMut::new(),
            need: 1,
            wrote: Vec::new(),
        }
    }

    /// When the next bytes arrive.
    pub(crate) fn next(&self) -> Time {
        self.up.next().min(self.down.next())
    }

    /// Whether nothing passes any more.
    pub(crate) fn is_frozen(&self) -> bool {
        self.up.frozen_until == Time::NEVER || self.down.frozen_until == Time::NEVER
    }

    /// Ends a freeze.
    pub(crate) fn thaw(&mut self) {
        self.up.frozen_until = Time::ZERO;
        self.down.frozen_until = Time::ZERO;
    }

    /// Whether it is open, and nothing is on its way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.up.is_empty()
            && self.down.is_empty()
            && self.server.transmit().is_empty()
            && !self.server.is_closed()
            && !(self.up.has_ended() || self.down.has_ended())
    }

    /// The client has closed it. The server gets at most `keep` of the bytes on their way, and
    /// processes them.
    pub(crate) fn hang_up(&mut self, keep: usize) {
        self.up.tear(keep);
        self.up.frozen_until = Time::ZERO;
        while !self.server.is_closed() {
            // The client no longer reads.
            self.server.handle_written(self.server.transmit().len());
            if self.server.wants_bytes() {
                let bytes = self.up.pop(Time::NEVER, usize::MAX);
                match bytes.is_empty() {
                    true => self.server.handle_closed(),
                    false => self.server.handle_bytes(&bytes),
                }
            }
        }
    }
}
