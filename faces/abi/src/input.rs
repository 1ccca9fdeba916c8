//! Room into which the host copies what arrived: once, to where the engine frames it.

#![allow(unsafe_code)]

use bytes::{BufMut, BytesMut};
use onetrip_engine::memory;

/// What arrived and is not framed yet, with room behind it.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: BytesMut,
    /// Bytes that the host was promised behind it.
    room: usize,
}

impl Input {
    /// Room for so many bytes. It stays where it is until they are [received](Self::received). None if there is no memory
    /// for them.
    pub(crate) fn room(&mut self, len: usize) -> Option<*mut u8> {
        self.room = 0;
        if !memory::make_room(&mut self.bytes, len) {
            return None;
        }
        self.room = len;
        Some(self.bytes.spare_capacity_mut().as_mut_ptr().cast())
    }

    /// The host has written so many bytes of the room; no more than it asked for count.
    ///
    /// # Safety
    /// The host has written to the first `len` bytes of the room.
    pub(crate) unsafe fn received(&mut self, len: usize) {
        let len = len.min(std::mem::take(&mut self.room));
        // SAFETY: `room` bytes were reserved, and the host has written the first `len`.
        unsafe { self.bytes.advance_mut(len) };
    }

    /// Whether all that was received was taken off the front.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What was received and not taken off the front.
    pub(crate) fn bytes(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }
}
