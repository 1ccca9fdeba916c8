//! Checks before large allocations, so that running out of memory fails one request or connection
//! and not the process.
//!
//! Allocations whose size a caller or a peer controls are checked here before they are made.
//! WebAssembly has 4 GiB for all connections, and an allocation that fails there ends the program.

use bytes::{Bytes, BytesMut};

/// Bytes that stay free for small allocations, and for reporting that memory ran out.
#[cfg(target_family = "wasm")]
const SPARE: usize = 1 << 20;

/// Smaller allocations are not checked on a native system: a program that can't get so little can't
/// go on anyway.
#[cfg(not(target_family = "wasm"))]
const SMALL: usize = 1 << 20;

/// Whether this many bytes can be allocated in one piece.
#[must_use]
#[inline(never)]
pub fn is_there(len: usize) -> bool {
    #[cfg(target_family = "wasm")]
    {
        let wanted = len.saturating_add(SPARE);
        len <= isize::MAX as usize && (ungrown() > wanted || can_be_had(wanted))
    }
    #[cfg(not(target_family = "wasm"))]
    {
        len < SMALL || can_be_had(len)
    }
}

/// Makes room for `len` more bytes in a buffer. Returns false and leaves the buffer as it was if
/// there is no memory for them.
#[must_use]
pub fn make_room(buffer: &mut BytesMut, len: usize) -> bool {
    buffer.capacity() - buffer.len() >= len || grow(buffer, len)
}

/// A copy of these bytes, if there is memory for it.
#[must_use]
pub fn copy(bytes: &[u8]) -> Option<Bytes> {
    is_there(bytes.len()).then(|| Bytes::copy_from_slice(bytes))
}

/// Grows the buffer to twice its length if memory allows, so that growing stays rare.
#[cold]
#[inline(never)]
fn grow(buffer: &mut BytesMut, len: usize) -> bool {
    if buffer.try_reclaim(len) {
        return true;
    }
    let Some(least) = buffer.len().checked_add(len) else { return false };
    let ample = buffer.len().saturating_mul(2);
    let sizes = [least.max(ample), least];
    let Some(size) = sizes.into_iter().find(|size| is_there(*size)) else { return false };
    let mut grown = BytesMut::with_capacity(size);
    grown.extend_from_slice(buffer);
    *buffer = grown;
    true
}

/// Tries the allocation and frees it. On one thread, the next one who asks then gets the memory.
fn can_be_had(len: usize) -> bool {
    let mut bytes = Vec::<u8>::new();
    let had = bytes.try_reserve_exact(len).is_ok();
    // Without this the compiler removes an allocation that nobody uses.
    std::hint::black_box(&mut bytes);
    had
}

/// Bytes by which the module's memory can still grow. At least this many are free.
#[cfg(target_family = "wasm")]
fn ungrown() -> usize {
    const PAGE: usize = 64 << 10;
    const PAGES_MAX: usize = usize::MAX / PAGE;
    PAGES_MAX.saturating_sub(core::arch::wasm32::memory_size::<0>()) * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_by_what_it_holds_and_keeps_it() {
        let mut buffer = BytesMut::from(&b"some"[..]);
        assert!(make_room(&mut buffer, 1000));
        assert!(buffer.capacity() >= 1004);
        buffer.resize(1000, b'x');
        assert!(make_room(&mut buffer, 5));
        assert!(buffer.capacity() >= 2000);
        assert!(buffer.starts_with(b"somex"));
    }

    #[test]
    fn an_allocation_that_is_too_large_changes_nothing() {
        let mut buffer = BytesMut::from(&b"some"[..]);
        for len in [usize::MAX, isize::MAX as usize, 1 << 62] {
            assert!(!make_room(&mut buffer, len), "{len}");
            assert!(!is_there(len), "{len}");
        }
        assert_eq!(&buffer[..], b"some");
        assert_eq!(copy(b"some").as_deref(), Some(&b"some"[..]));
    }
}
