//! Metered replies: reading at the pace of the reader, so that replies of any length need bounded
//! memory.
//!
//! The bytes that the reader of a metered reply has not taken are counted, and at a limit the host
//! stops reading. TCP then makes the server stop writing. The protocol has no window for this, so
//! all requests on the connection wait. Only a caller that has the connection to itself may use it.

use super::Connection;
use crate::Protocol;

impl<P: Protocol> Connection<P> {
    /// Whether the host should read from the socket. Once false, it becomes true only through
    /// [`handle_taken`](Self::handle_taken). Bytes that were already read may still be handed over.
    pub fn wants_bytes(&self) -> bool {
        !self.meter.stopped
    }

    /// Bytes of metered replies that were handed out and not yet taken.
    pub fn untaken_bytes(&self) -> usize {
        self.meter.untaken
    }

    /// The reader of a [metered](crate::Request::metered) reply took (or dropped) this many bytes
    /// of its blocks, those of [`Output::Ended`](crate::Output::Ended) included.
    pub fn handle_taken(&mut self, bytes: usize) {
        self.meter.take(bytes, self.limits.untaken_bytes_max);
    }
}
