//! Reading at the pace of a reader: replies of any length in bounded memory.
//!
//! What a metered reply's reader has not taken is counted, and at a limit the host stops reading. The
//! server then stops writing. It is no window of the protocol's: where others share the connection they
//! would all wait, so only a caller that has it to itself may want this.

use super::Connection;
use crate::Protocol;

impl<P: Protocol> Connection<P> {
    /// Whether the host should read. Once the answer was no, it changes with
    /// [`handle_taken`](Self::handle_taken). Bytes that were read already may be handed over all the
    /// same.
    pub fn wants_bytes(&self) -> bool {
        !self.meter.stopped
    }

    /// Bytes of metered replies that were handed out and not taken.
    pub fn untaken_bytes(&self) -> usize {
        self.meter.untaken
    }

    /// The reader of a [metered](crate::Request::metered) reply took (or dropped) this many bytes of
    /// the blocks that it was handed, those of [`Output::Ended`](crate::Output::Ended) too.
    pub fn handle_taken(&mut self, bytes: usize) {
        self.meter.take(bytes, self.limits.untaken_bytes_max);
    }
}
