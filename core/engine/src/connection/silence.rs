//! A server that says nothing any more to what its callers have given up.
//!
//! A request that is given up keeps its slot until it is answered, and its connection is busy for
//! nobody until then. A server that is frozen, or a line that swallows, never answers. So such a
//! connection is closed once the server has said nothing for twice
//! [`Limits::cancel_wait_max`](crate::Limits::cancel_wait_max): as long as a cancel may take to
//! reach it and to be carried out.
//!
//! Who still waits for a request on the connection keeps it open, however long the server computes
//! in silence. A caller waits until his request has ended for him: its deadline has passed, its
//! token is forgotten, or the host says that he has gone. That he wants it cancelled is no sign of
//! that: he may wait for what becomes of it.

use super::Connection;
use super::wire::Slot;
use crate::{CloseReason, Group, Protocol, Time, Token};

impl<P: Protocol> Connection<P> {
    /// Something in flight is given up, whether or not the server is asked to stop it: from now on
    /// the server may be silent only while somebody waits.
    pub fn handle_given_up(&mut self, now: Time) {
        if !self.is_closed() && !self.is_idle() {
            self.silence = Some(now);
        }
    }

    /// Nobody waits for a request any more, though its end is still told.
    pub fn handle_caller_gone(&mut self, token: Token) {
        self.leave(|slot| slot.token == token);
    }

    /// Nobody waits for the requests of a group any more.
    pub fn handle_group_gone(&mut self, group: Group) {
        self.leave(|slot| slot.group == Some(group));
    }

    fn leave(&mut self, is_left: impl Fn(&Slot<P::Expect>) -> bool) {
        let queued = self.queue.slots_mut().chain(self.group_queue.slots_mut());
        let again = self.healing.iter_mut().chain(&mut self.yielded).map(|(slot, _)| slot);
        let slots = self.wire.slots_mut().chain(queued).chain(again);
        slots.filter(|slot| is_left(slot)).for_each(|slot| slot.gone = true);
    }

    /// Something was given up, and the server owes the answer to it still.
    pub fn is_given_up(&self) -> bool {
        self.silence.is_some()
    }

    /// The server has said something.
    #[inline]
    pub(super) fn break_silence(&mut self, now: Time) {
        if self.silence.is_some() {
            let is_left = self.slots().any(Slot::is_left);
            self.silence = is_left.then_some(now);
        }
    }

    /// When the silence has lasted for too long.
    #[inline]
    pub(super) fn silence_deadline(&self) -> Time {
        let patience = self.limits.cancel_wait_max.saturating_mul(2);
        self.silence.map_or(Time::NEVER, |since| since.after(patience))
    }

    /// The moment of [`silence_deadline`](Self::silence_deadline) came.
    pub(super) fn silence_is_over(&mut self) {
        // What the host does not read says nothing of the server.
        if self.wants_bytes() && !self.is_awaited() {
            return self.close(CloseReason::Silent);
        }
        // Until the server says something, or somebody else gives up.
        self.silence = Some(Time::NEVER);
    }

    /// Whether anybody waits for a request of this connection.
    fn is_awaited(&self) -> bool {
        self.someone_waits() || self.slots().any(Slot::is_awaited)
    }

    fn slots(&self) -> impl Iterator<Item = &Slot<P::Expect>> {
        let again = self.healing.iter().chain(&self.yielded).map(|(slot, _)| slot);
        let queued = self.queue.slots().chain(self.group_queue.slots());
        self.wire.slots().chain(queued).chain(again)
    }
}
