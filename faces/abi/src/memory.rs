//! Memory that a host asks for. `MEMORY.md` has the rules for all memory.

#![allow(unsafe_code)]

use onetrip_engine::memory::is_there;

/// Memory of the module that the host may write to. Null for a length of 0, or if there is not so
/// much.
pub(crate) fn alloc(len: usize) -> *mut u8 {
    if len == 0 || !is_there(len) {
        return std::ptr::null_mut();
    }
    Box::into_raw(vec![0_u8; len].into_boxed_slice()).cast()
}

/// Frees memory of [`alloc`].
///
/// # Safety
/// `start` is null, or came from [`alloc`] with the same length and was not given back.
pub(crate) unsafe fn free(start: *mut u8, len: usize) {
    if !start.is_null() {
        // SAFETY: the caller guarantees that this is the slice that `alloc` leaked.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, len)) });
    }
}

/// Bytes of the host, for the duration of a call.
///
/// # Safety
/// `start` is null, or points to `len` bytes that don't change while the result is used.
pub(crate) unsafe fn bytes<'a>(start: *const u8, len: usize) -> &'a [u8] {
    match start.is_null() || len == 0 {
        true => &[],
        // SAFETY: the caller guarantees it.
        false => unsafe { std::slice::from_raw_parts(start, len) },
    }
}
