//! What a connection knows of the position in the log of what was written on it, and of the guards
//! in front of reads on a replica.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use onetrip_engine::Token;
use onetrip_postgres::client::position::Position;
use onetrip_postgres::client::replicas::{GuardText, Proof};
use onetrip_postgres::client::statements::Seen;

use super::statements::Use;

/// What a connection knows of positions.
#[derive(Debug, Default)]
pub(super) struct Positions {
    /// What the guards have shown.
    pub(super) proof: Proof,
    /// The guards in flight.
    pub(super) guards: VecDeque<Guard>,
    /// The last guard, with its parameters as a Bind has them. Those of one flight are alike.
    written: Option<(Position, GuardText, Bytes)>,
    /// Whether writes were acknowledged whose position is not known, as the host was told.
    pub(super) is_uncertain: bool,
    /// Whether the host was told that the connection ended meanwhile.
    pub(super) is_lost_told: bool,
}

impl Positions {
    /// The guard for this position, and its parameters as a Bind has them.
    pub(super) fn guard(&mut self, position: &Position) -> (GuardText, Bytes) {
        if let Some((written, text, parameters)) = &self.written
            && written == position
        {
            return (*text, parameters.clone());
        }
        let (text, values) = self.proof.guard(position);
        let parameters = Bytes::from(texts(&values));
        self.written = Some((*position, text, parameters.clone()));
        (text, parameters)
    }

    /// A guard for this position has passed. Whether that is news for the client.
    pub(super) fn passed(
        &mut self,
        position: &Position,
        told: Option<u64>,
        is_direct: bool,
    ) -> bool {
        let is_news = self.proof.handle_passed(position, told, is_direct);
        if is_news {
            // The next one may ask for less.
            self.written = None;
        }
        is_news
    }
}

/// Parameters in text form.
fn texts(values: &[String]) -> Vec<u8> {
    let mut out = vec![0, 0];
    out.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        out.extend_from_slice(&(value.len() as u32).to_be_bytes());
        out.extend_from_slice(value.as_bytes());
    }
    out
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
