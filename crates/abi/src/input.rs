//! Room into which the host copies what arrived: once, to where the engine frames it.

#![allow(unsafe_code)]

use bytes::{BufMut, BytesMut};

/// What arrived and is not framed yet, with room behind it.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: BytesMut,
    /// Bytes that the host was promised behind it.
    room: usize,
}

impl Input {
    /// Room for so many bytes. It stays where it is until they are [received](Self::received).
    pub(crate) fn room(&mut self, len: usize) -> *mut u8 {
        self.bytes.reserve(len);
        self.room = len;
        self.bytes.spare_capacity_mut().as_mut_ptr().cast()
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

    /// What was received and not taken off the front.
    pub(crate) fn bytes(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }
}
