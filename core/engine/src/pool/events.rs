//! Reports about connections, and the passing of time.

use super::connections::State;
use super::{Cause, ConnectionId, Output, Pool};
use crate::Time;

/// What is known of a failed attempt to open a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFailure {
    /// Time does not mend it: a wrong password, no such database.
    pub is_permanent: bool,
    /// A server was met, and another attempt may fare better soon. Otherwise there is none at the
    /// place that was named, or not the one that was asked for.
    pub may_pass: bool,
}

impl Pool {
    /// A connection that [`Output::Open`] asked for is open and ready. It goes to the front of the
    /// line; if no caller waits, it is idle.
    ///
    /// If the pool has forgotten it meanwhile, [`Output::Close`] comes for it again.
    pub fn handle_opened(&mut self, now: Time, id: ConnectionId) {
        let Some(index) = self.connections.find(id) else {
            return self.outputs.push_back(Output::Close { id });
        };
        if self.connections.slot(index).state != State::Opening {
            return;
        }
        self.undecided = true;
        self.opens += 1;
        self.is_new = false;
        let slot = self.connections.slot_mut(index);
        self.backoff.succeeded(now.since(slot.since));
        if now >= slot.expires {
            // It was retired in the meantime.
            return self.close_now(index);
        }
        self.opening_time = now.since(slot.since);
        slot.since = now;
        slot.opened = now;
        let lifetime = self.limits.lifetime;
        let (low, high) = (lifetime - lifetime / 10, lifetime.saturating_add(lifetime / 10));
        slot.expires = now.after(self.jitter.between(low, high));
        self.free(index);
    }

    /// An attempt that [`Output::Open`] asked for failed. The connection no longer counts, and the
    /// next attempt is made after a pause ([`Limits::backoff_min`](super::Limits::backoff_min)).
    ///
    /// Callers don't wait for that one if the failure [is
    /// permanent](OpenFailure::is_permanent); if the server is [a node](Self::serves_node), since
    /// another may have taken over; or if [nobody has met a server yet](Self::connects) and it [may
    /// not pass](OpenFailure::may_pass). If no connection is left that could serve them, all callers
    /// in line then fail with [`Cause::OpenFailed`], and so do callers that come during the pause.
    /// After any other failure callers wait until their deadlines. The host keeps the error for
    /// them. Returns whether nobody waits for the next attempt.
    pub fn handle_open_failed(
        &mut self,
        now: Time,
        id: ConnectionId,
        failure: OpenFailure,
    ) -> bool {
        let OpenFailure { is_permanent, may_pass } = failure;
        let permanent = is_permanent || self.is_node || self.is_new && !may_pass;
        let Some(index) = self.find(id, State::Opening) else { return permanent };
        self.undecided = true;
        self.open_failures += 1;
        let started = self.connections.slot(index).since;
        self.connections.leave(index);
        self.backoff.failed(now, started, permanent, &self.limits, &mut self.jitter);
        permanent
    }

    /// The last failure says nothing of the next attempt, as that of a function of the host's. Who
    /// comes during the pause waits for that attempt, in place of [`Cause::OpenFailed`].
    pub fn forget_failure(&mut self) {
        self.backoff.forget();
    }

    /// A connection is broken. The pool forgets it at once, whatever its state, and opens another
    /// if a caller waits or fewer than [`Limits::connections_min`](super::Limits::connections_min)
    /// are left. Its exclusive user, if any, learns of it from the host; releasing the connection
    /// is no longer needed and does nothing.
    ///
    /// If it was lost sooner than four times [`Limits::backoff_min`](super::Limits::backoff_min)
    /// after it was opened, there is a pause of about as long. Otherwise connections to a server
    /// that accepts and drops them would be opened without end.
    pub fn handle_lost(&mut self, now: Time, id: ConnectionId) {
        let Some(index) = self.connections.find(id) else { return };
        if self.connections.slot(index).state == State::Opening {
            let failure = OpenFailure { is_permanent: false, may_pass: true };
            self.handle_open_failed(now, id, failure);
            return;
        }
        self.undecided = true;
        let opened = self.connections.slot(index).opened;
        self.connections.leave(index);
        self.backoff.lost(self.opening_time);
        let pause = self.limits.backoff_min.saturating_mul(4);
        if now < opened.after(pause) {
            self.backoff.pause(now, pause, &mut self.jitter);
        }
    }

    /// Nothing is unanswered on this connection. The host reports that when [`Output::Drain`] asked
    /// for it, and for every connection while a caller [waits](Self::waiting). It may do so at any
    /// time.
    pub fn handle_drained(&mut self, id: ConnectionId) {
        let Some(index) = self.connections.find(id) else { return };
        self.undecided = true;
        match self.connections.slot(index).state {
            State::Claimed => {
                self.free(index);
                self.connections.slot_mut(index).drained = true;
            }
            State::Retiring => self.close_now(index),
            State::Gone | State::Opening | State::Shared | State::Exclusive => {}
        }
    }

    /// A connection that had no [`room`](super::Load::room) has some again, or a slow one has
    /// answered. The host reports that while a caller [waits](Self::waiting). It may do so at any
    /// time.
    pub fn handle_room(&mut self) {
        self.undecided = true;
    }

    /// The moment that [`poll_deadline`](Self::poll_deadline) named has come; it may be called at
    /// any other, too.
    pub fn handle_time(&mut self, now: Time) {
        self.undecided = true;
        let cause = match self.backoff.failing() {
            true => Cause::OpenFailed,
            false => Cause::Deadline,
        };
        let outputs = &mut self.outputs;
        self.waiters.expire(now, |token| outputs.push_back(Output::Failed { token, cause }));
    }
}
