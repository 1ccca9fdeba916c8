//! ReadyForQuery: the end of every batch.

use bytes::{BufMut, BytesMut};

use super::buffer::Reader;
use super::{Violation, tag};

/// The server has ended a batch and waits. Only now is its success certain: the commit itself can
/// fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyForQuery {
    /// What the batch left behind.
    pub status: TransactionStatus,
}

/// Whether the session is in a transaction block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// `I`: in none.
    Idle,
    /// `T`: in one.
    InTransaction,
    /// `E`: in one that failed; all but its end is refused.
    Failed,
}

impl ReadyForQuery {
    /// Reads a body.
    ///
    /// # Errors
    /// Not exactly one of the three letters.
    #[inline]
    pub fn decode(body: &[u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("ReadyForQuery", body);
        let status = match reader.u8()? {
            b'I' => TransactionStatus::Idle,
            b'T' => TransactionStatus::InTransaction,
            b'E' => TransactionStatus::Failed,
            _ => return Err(reader.fail("its transaction status is unknown")),
        };
        reader.end()?;
        Ok(ReadyForQuery { status })
    }

    /// Appends the message.
    pub fn encode(&self, out: &mut BytesMut) {
        let letter = match self.status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        };
        out.put_slice(&[tag::backend::READY_FOR_QUERY, 0, 0, 0, 5, letter]);
    }
}
