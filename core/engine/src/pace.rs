//! Whether what is unwritten waits for the next reply, to leave with what that brings about.

use std::time::Duration;

use crate::{Connection, Protocol, Time};

/// How fast replies come, and how many requests wait for the next one to leave with it.
///
/// A server works on the requests of a connection one after the other. While it has many and answers
/// fast, one more request that leaves at once costs both sides a system call each and brings
/// nothing: it waits at the server instead of here. So up to a quarter of what the server still has
/// waits here for the next read, for as long as `HOLD_MAX` at most once reads come `FAST` after one
/// another. Measured on loopback: a third less CPU per statement at 100 in flight.
///
/// The host tells it of what it does with the connection, and asks before it writes. A host that
/// kept something back tells the engine so before its timers
/// ([`Connection::handle_held`](crate::Connection::handle_held)).
#[derive(Debug, Default)]
pub struct Pace {
    last_read: Time,
    is_fast: bool,
    held: usize,
    held_since: Time,
    /// The last write left something over: nothing is held back until that is written.
    interrupted: bool,
}

impl Pace {
    /// Fewer requests than this at the server, and new ones leave at once.
    const BUSY_MIN: usize = 16;
    /// So many bytes leave at once.
    const WORTH_A_WRITE: usize = 4 << 10;
    /// Reads that follow one another within this time are fast.
    const FAST: Duration = Duration::from_micros(100);
    /// A request waits no longer than this.
    const HOLD_MAX: Duration = Duration::from_micros(500);

    /// Bytes of the server came.
    pub fn replied(&mut self, now: Time) {
        self.is_fast = now.since(self.last_read) < Pace::FAST;
        self.last_read = now;
    }

    /// A request was submitted.
    pub fn submitted(&mut self, now: Time) {
        if self.held == 0 {
            self.held_since = now;
        }
        self.held += 1;
    }

    /// A write begins.
    pub fn written(&mut self) {
        self.held = 0;
        self.interrupted = false;
    }

    /// The socket did not take all of it.
    pub fn interrupted(&mut self) {
        self.interrupted = true;
    }

    /// When what is held back now has waited for long enough.
    pub fn deadline(&self) -> Time {
        self.held_since.after(Pace::HOLD_MAX)
    }

    /// Whether what is unwritten may wait for the next reply.
    pub fn holds<P: Protocol>(&self, now: Time, engine: &Connection<P>) -> bool {
        let at_server = engine.in_flight().saturating_sub(self.held);
        self.is_fast
            && !self.interrupted
            && at_server >= Pace::BUSY_MIN
            && self.held * 4 < at_server
            && now.since(self.held_since) < Pace::HOLD_MAX
            && engine.transmit().len() < Pace::WORTH_A_WRITE
            // Without a sync point behind them the server may keep their replies to itself, and what
            // is unwritten may be that sync point.
            && engine.in_flight_members() == 0
            // Otherwise nothing may be due that could take it along, or nobody reads it.
            && engine.is_reply_due()
            && engine.wants_bytes()
    }
}
