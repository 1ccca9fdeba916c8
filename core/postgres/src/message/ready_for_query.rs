//! ReadyForQuery: the end of a segment.

use bytes::{BufMut, BytesMut};

use super::buffer::Reader;
use super::{Violation, tag};

/// The server has ended a segment and waits for more. Only now is success certain, since the commit
/// itself can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyForQuery {
    /// The transaction status after it.
    pub status: TransactionStatus,
}

/// Whether the session is in a transaction block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// `I`: outside a transaction.
    Idle,
    /// `T`: inside a transaction.
    InTransaction,
    /// `E`: inside a failed transaction. The server refuses everything but its end.
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
