//! Replies of which nobody reads the rows: those of a batch, which counts them by the messages
//! behind them. Their rows are dropped when they would be too long together, and nothing else is.

use bytes::{BufMut, Bytes, BytesMut};
use onetrip_postgres::message::tag::backend;

use super::{Entry, Kept, Long};
use crate::rows::Blocks;

impl Entry {
    /// The rows of its reply may be dropped.
    pub(crate) fn skim(&mut self) {
        self.skims = true;
    }

    /// Drops the rows that were kept. Returns how many bytes.
    pub(super) fn drop_rows(&mut self) -> usize {
        let before = self.bytes;
        let blocks = std::mem::take(&mut self.blocks);
        self.blocks.push(without_rows(&blocks));
        self.bytes = self.blocks.len();
        before - self.bytes
    }

    /// Drops a row that comes in pieces, if this is its first one. `left` is still to come.
    pub(super) fn skip_row(&mut self, piece: &[u8], left: usize) -> Option<Kept> {
        if !self.skims || piece.first() != Some(&backend::DATA_ROW) {
            return None;
        }
        self.long = if left > 0 { Long::Skipping } else { Long::No };
        Some(Kept { dropped: piece.len(), waker: None })
    }
}

/// The messages of a reply but its rows.
pub(super) fn without_rows(blocks: &Blocks) -> Bytes {
    let mut kept = BytesMut::new();
    for (tag, body) in blocks.messages().filter(|(tag, _)| *tag != backend::DATA_ROW) {
        kept.put_u8(tag);
        // The length on the wire counts itself.
        kept.put_u32(body.len() as u32 + 4);
        kept.extend_from_slice(body);
    }
    kept.freeze()
}
