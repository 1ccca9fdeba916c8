//! Memory that may not be there.
//!
//! Whoever chooses the size of something, a caller or a peer, must not be able to end the process by it: WebAssembly
//! has 4 GiB for all connections, and an allocation that fails ends the program. What may be large asks here first, and
//! where the answer is no its own connection or request fails.

use bytes::{Bytes, BytesMut};

/// What stays free for all that is small, and for telling that there was no more.
#[cfg(target_family = "wasm")]
const SPARE: usize = 1 << 20;

/// Less than this is not asked for where memory is the system's: no program lives on that can't get it.
#[cfg(not(target_family = "wasm"))]
const SMALL: usize = 1 << 20;

/// Whether so many bytes can be had in one piece.
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

/// Sees that so many more bytes fit into a buffer. False if there is no memory for them: then it is as it was.
#[must_use]
pub fn make_room(buffer: &mut BytesMut, len: usize) -> bool {
    buffer.capacity() - buffer.len() >= len || grow(buffer, len)
}

/// These bytes once more, if there is memory for them.
#[must_use]
pub fn copy(bytes: &[u8]) -> Option<Bytes> {
    is_there(bytes.len()).then(|| Bytes::copy_from_slice(bytes))
}

/// To twice its length if that can be had, so that it is rarely done.
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

/// By asking for it, which on one thread shows what the next one who asks will get.
fn can_be_had(len: usize) -> bool {
    let mut bytes = Vec::<u8>::new();
    let had = bytes.try_reserve_exact(len).is_ok();
    // What nobody looks at would not be asked for.
    std::hint::black_box(&mut bytes);
    had
}

/// Bytes by which the memory of the module can still grow: as many are there for certain.
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
    fn what_cannot_be_had_changes_nothing() {
        let mut buffer = BytesMut::from(&b"some"[..]);
        for len in [usize::MAX, isize::MAX as usize, 1 << 62] {
            assert!(!make_room(&mut buffer, len), "{len}");
            assert!(!is_there(len), "{len}");
        }
        assert_eq!(&buffer[..], b"some");
        assert_eq!(copy(b"some").as_deref(), Some(&b"some"[..]));
    }
}
