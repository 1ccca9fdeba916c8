//! The buffer into which the host copies the bytes that arrive. They are copied once, to where the
//! engine frames them.

#![allow(unsafe_code)]

use bytes::{BufMut, BytesMut};
use onetrip_engine::memory;

/// Bytes that arrived and are not framed yet, with room behind them.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: BytesMut,
    /// Bytes of room that the host was promised.
    room: usize,
}

impl Input {
    /// Room for this many bytes. It does not move until the bytes are [received](Self::received).
    /// `None` if there is no memory for it.
    pub(crate) fn room(&mut self, len: usize) -> Option<*mut u8> {
        self.room = 0;
        if !memory::make_room(&mut self.bytes, len) {
            return None;
        }
        self.room = len;
        Some(self.bytes.spare_capacity_mut().as_mut_ptr().cast())
    }

    /// The host has written this many bytes into the room. No more count than it asked for.
    ///
    /// # Safety
    /// The host has written to the first `len` bytes of the room.
    pub(crate) unsafe fn received(&mut self, len: usize) {
        let len = len.min(std::mem::take(&mut self.room));
        // SAFETY: `room` bytes were reserved, and the host has written the first `len`.
        unsafe { self.bytes.advance_mut(len) };
    }

    /// Whether everything received was taken off the front.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes that were received and not taken off the front.
    pub(crate) fn bytes(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }
}
