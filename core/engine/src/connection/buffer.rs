//! A byte queue: whole requests are appended at the end, and bytes are dropped at the front.

use bytes::{Buf, BytesMut};

use crate::memory;

/// A buffer that grew beyond this is freed when it is empty, instead of being kept.
const KEEP_MAX: usize = 4 << 20;

pub(super) struct Buffer {
    bytes: BytesMut,
    /// The most bytes that it has held since it was last freed.
    peak: usize,
}

impl Buffer {
    pub(super) fn new() -> Buffer {
        Buffer { bytes: BytesMut::new(), peak: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends what `encode` writes and returns its length. If `encode` fails or panics, everything
    /// it wrote is taken back.
    #[inline]
    pub(super) fn encode<E>(
        &mut self,
        encode: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<usize, E> {
        let before = self.bytes.len();
        let mut tail = Tail { bytes: &mut self.bytes, keep: before };
        encode(tail.bytes)?;
        let len = tail.bytes.len().checked_sub(before).expect("an encoder only appends");
        tail.keep += len;
        drop(tail);
        self.peak = self.peak.max(before + len);
        Ok(len)
    }

    /// Makes room for `len` more bytes; false if there is no memory for them.
    pub(super) fn make_room(&mut self, len: usize) -> bool {
        memory::make_room(&mut self.bytes, len)
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.peak = self.peak.max(self.bytes.len());
    }

    /// Takes out `len` bytes at `at`; the bytes behind them move up.
    pub(super) fn cut_out(&mut self, at: usize, len: usize) {
        self.bytes.copy_within(at + len.., at);
        self.bytes.truncate(self.bytes.len() - len);
    }

    /// Moves `len` bytes from `from` up to `to`, which is before it.
    pub(super) fn move_up(&mut self, from: usize, len: usize, to: usize) {
        self.bytes.copy_within(from..from + len, to);
    }

    /// Drops the bytes behind `len`. If the rest needs much less memory, it moves to a smaller
    /// buffer.
    pub(super) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
        if self.peak > KEEP_MAX && len < self.peak / 4 && memory::is_there(len) {
            let mut fitting = Buffer::new();
            fitting.extend(&self.bytes);
            *self = fitting;
        }
    }

    /// Drops the first `len` bytes.
    #[inline]
    pub(super) fn advance(&mut self, len: usize) {
        self.bytes.advance(len);
        if self.bytes.is_empty() && self.peak > KEEP_MAX {
            *self = Buffer::new();
        }
    }
}

/// Truncates `bytes` to `keep` when it is dropped, also during a panic.
struct Tail<'a> {
    bytes: &'a mut BytesMut,
    keep: usize,
}

impl Drop for Tail<'_> {
    fn drop(&mut self) {
        self.bytes.truncate(self.keep);
    }
}
