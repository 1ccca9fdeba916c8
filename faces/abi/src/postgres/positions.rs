//! What a connection knows of the position in the log of what was written on it, and of the guards
//! in front of reads on a replica.

use std::collections::VecDeque;

use bytes::BytesMut;
use onetrip_engine::Token;
use onetrip_postgres::client::position::Position;
use onetrip_postgres::client::replicas::Proof;
use onetrip_postgres::client::statements::Seen;

use super::statements::Use;

/// What a connection knows of positions.
#[derive(Debug, Default)]
pub(super) struct Positions {
    /// What the guards have shown.
    pub(super) proof: Proof,
    /// The guards in flight.
    pub(super) guards: VecDeque<Guard>,
    /// Whether writes were acknowledged whose position is not known, as the host was told.
    pub(super) is_uncertain: bool,
    /// Whether the host was told that the connection ended meanwhile.
    pub(super) is_lost_told: bool,
}

/// A guard that is unanswered.
#[derive(Debug)]
pub(super) struct Guard {
    /// The token of the read behind it.
    pub(super) token: u32,
    pub(super) position: Position,
    pub(super) statement: Option<Use>,
    pub(super) seen: Seen,
    pub(super) reply: BytesMut,
}

/// The token of a guard encodes that of its read, and is larger than every token of a host.
pub(super) const GUARDS: u64 = 1 << 34;

pub(super) fn is_guard(token: Token) -> bool {
    token.0 & !u64::from(u32::MAX) == GUARDS
}
