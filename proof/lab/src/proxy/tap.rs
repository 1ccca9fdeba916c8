//! Somebody who looks on while bytes pass.

use std::fmt;
use std::time::Duration;

use super::config::Direction;

/// Looks on at the connections of a proxy. It is called on the proxy's thread, between the read of
/// bytes and their delivery, so it must return at once and must not panic.
///
/// Bytes that a client wrote before it was given an answer come before that answer.
pub trait Tap: fmt::Debug + Send + Sync {
    /// The upstream of a connection answered; connecting to it took so long. A client may have
    /// written before.
    fn opened(&self, connection: u64, connecting: Duration);

    /// Bytes that were read from the sender of a direction. The stamp is CLOCK_MONOTONIC in
    /// nanoseconds, and those of a connection don't go back.
    fn passed(&self, connection: u64, direction: Direction, at_ns: u64, bytes: &[u8]);

    /// The connection is over, or it never came to be.
    fn closed(&self, connection: u64);
}
