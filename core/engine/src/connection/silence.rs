//! A server that says nothing any more to what its callers have given up.
//!
//! A request that is given up keeps its slot until it is answered, and its connection is busy for
//! nobody until then. A server that is frozen, or a line that swallows, never answers. So such a
//! connection is closed once the server has said nothing for twice
//! [`Limits::cancel_wait_max`](crate::Limits::cancel_wait_max): as long as a cancel may take to
//! reach it and to be carried out. Who still waits for a request on the connection keeps it open,
//! unless it belongs to one caller, who has gone.

use super::Connection;
use super::wire::Slot;
use crate::{CloseReason, Protocol, Time, Token};

/// Callers have gone, and the server owes answers to nobody.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// [`Time::NEVER`] once it has lasted for too long and somebody waited: until something changes.
    since: Time,
    /// Whether all on the connection belongs to a caller that has gone.
    of_one_caller: bool,
}

impl<P: Protocol> Connection<P> {
    /// The caller of a request has given it up, also where the server is not asked to stop it, as a
    /// COMMIT. `of_one_caller`: all that is unanswered belongs to that caller, and nobody goes on
    /// with it. The engine knows by itself what was [to be cancelled](Self::want_cancel).
    pub fn handle_given_up(&mut self, now: Time, of_one_caller: bool) {
        if !self.is_closed() && !self.is_idle() {
            let before = self.silence.is_some_and(|silence| silence.of_one_caller);
            let of_one_caller = of_one_caller || before;
            self.silence = Some(Silence { since: now, of_one_caller });
        }
    }

    /// Something was given up, and the server owes answers still.
    pub fn is_given_up(&self) -> bool {
        self.silence.is_some()
    }

    /// The server has said something.
    #[inline]
    pub(super) fn break_silence(&mut self, now: Time) {
        if let Some(silence) = &mut self.silence {
            silence.since = now;
            if self.is_idle() {
                self.silence = None;
            }
        }
    }

    /// When the silence has lasted for too long.
    #[inline]
    pub(super) fn silence_deadline(&self) -> Time {
        let patience = self.limits.cancel_wait_max.saturating_mul(2);
        self.silence.map_or(Time::NEVER, |silence| silence.since.after(patience))
    }

    /// The moment of [`silence_deadline`](Self::silence_deadline) came.
    pub(super) fn silence_is_over(&mut self) {
        let Some(silence) = self.silence.take().filter(|_| !self.is_idle()) else { return };
        // What the host does not read says nothing of the server.
        let is_silent = self.wants_bytes();
        if is_silent && (silence.of_one_caller || !self.is_awaited()) {
            return self.close(CloseReason::Silent);
        }
        self.silence = Some(Silence { since: Time::NEVER, ..silence });
    }

    /// Whether anybody waits for a request of this connection.
    fn is_awaited(&self) -> bool {
        self.queued() > 0 || self.someone_waits() || self.wire.slots().any(is_awaited)
    }
}

fn is_awaited<X>(slot: &Slot<X>) -> bool {
    !(slot.own || slot.expired || slot.want.is_of_caller() || slot.token == Token::DISCARD)
}
