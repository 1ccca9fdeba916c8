//! The types of the header, and how C is met: pointers are checked, and no panic goes out.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::client::{Client, barred};
use crate::failure::Failure;
use crate::status;
use crate::values::Value;

/// The kinds of [`OtValue`].
pub(crate) mod kind {
    pub(crate) const NULL: i32 = 0;
    pub(crate) const I64: i32 = 1;
    pub(crate) const F64: i32 = 2;
    pub(crate) const BOOL: i32 = 3;
    pub(crate) const TEXT: i32 = 4;
    pub(crate) const BYTES: i32 = 5;
}

/// `ot_text`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtText {
    pub(crate) ptr: *const u8,
    pub(crate) len: usize,
}

impl OtText {
    pub(crate) const NONE: OtText = OtText { ptr: c"".as_ptr().cast(), len: 0 };

    /// A view of bytes that stay where they are.
    pub(crate) fn of(bytes: &[u8]) -> OtText {
        match bytes.is_empty() {
            true => OtText::NONE,
            false => OtText { ptr: bytes.as_ptr(), len: bytes.len() },
        }
    }
}

/// `ot_value`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtValue {
    pub(crate) kind: i32,
    pub(crate) reserved: i32,
    pub(crate) integer: i64,
    pub(crate) real: f64,
    pub(crate) ptr: *const u8,
    pub(crate) len: usize,
}

/// `ot_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OtOptions {
    pub(crate) size: u32,
    pub(crate) timeout_ms: i32,
    pub(crate) flags: u32,
}

/// `ot_modes`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OtModes {
    pub(crate) size: u32,
    pub(crate) isolation: i32,
    pub(crate) access: i32,
    pub(crate) deferrable: i32,
}

/// `ot_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtEvent {
    pub(crate) size: u32,
    pub(crate) kind: i32,
    pub(crate) channel: OtText,
    pub(crate) payload: OtText,
    pub(crate) process_id: i64,
    pub(crate) dropped: u64,
}

/// `ot_error`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct OtError {
    size: u32,
    status: i32,
    outcome: i32,
    statement: u32,
    runs_again: i32,
    code: [u8; 32],
    message: [u8; 1024],
    detail: [u8; 512],
    hint: [u8; 512],
    constraint: [u8; 64],
}

impl OtError {
    const fn empty() -> OtError {
        OtError {
            size: 0,
            status: 0,
            outcome: 0,
            statement: 0,
            runs_again: 0,
            code: [0; 32],
            message: [0; 1024],
            detail: [0; 512],
            hint: [0; 512],
            constraint: [0; 64],
        }
    }
}

/// Copies a text, with a zero byte behind it, as far as there is room for whole characters.
fn copy(to: &mut [u8], text: &str) {
    let most = text.len().min(to.len() - 1);
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    // What comes behind a zero byte would not be seen.
    let bytes = text[..end].bytes().take_while(|byte| *byte != 0);
    to.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
}

/// Says why, as far as its caller's structure has room, and returns the status.
///
/// # Safety
/// `to` is null, or leads to as many bytes as its first member says.
pub(crate) unsafe fn tell(to: *mut OtError, failure: &Failure, status: i32) -> i32 {
    let mut error = OtError::empty();
    (error.status, error.outcome) = (status, failure.outcome as i32);
    (error.statement, error.runs_again) = (failure.statement as u32, failure.runs_again.into());
    copy(&mut error.code, &failure.code);
    copy(&mut error.message, &failure.message);
    copy(&mut error.detail, &failure.detail);
    copy(&mut error.hint, &failure.hint);
    copy(&mut error.constraint, &failure.constraint);
    // SAFETY: as above.
    unsafe { put(to, error, |error, size| error.size = size) };
    status
}

/// Clears an error: all is well.
///
/// # Safety
/// As [`tell`].
pub(crate) unsafe fn clear(to: *mut OtError) {
    // SAFETY: as above.
    unsafe { put(to, OtError::empty(), |error, size| error.size = size) };
}

/// Writes a structure whose first member says how much of it its caller knows.
///
/// # Safety
/// `to` is null, or leads to as many bytes as its first member, an `u32`, says.
pub(crate) unsafe fn put<T: Copy>(
    to: *mut T,
    mut value: T,
    set_size: impl FnOnce(&mut T, u32),
) -> bool {
    if to.is_null() {
        return false;
    }
    // SAFETY: as above.
    let size = unsafe { to.cast::<u32>().read() };
    let len = (size as usize).min(size_of::<T>());
    if len < size_of::<u32>() {
        return false;
    }
    set_size(&mut value, size);
    // SAFETY: so many bytes are there on both sides.
    unsafe { std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), to.cast::<u8>(), len) };
    true
}

/// Reads a structure of options; what its caller does not know is as by default.
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn take<T: Copy + Default>(from: *const T) -> T {
    let mut value = T::default();
    if !from.is_null() {
        // SAFETY: as above.
        let size = unsafe { from.cast::<u32>().read() };
        let len = (size as usize).min(size_of::<T>());
        // SAFETY: so many bytes are there on both sides.
        unsafe {
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut value).cast::<u8>(), len);
        }
    }
    value
}

/// The length of a text that says by its zero byte where it ends.
const ENDED: usize = usize::MAX;

/// Bytes of C's.
///
/// # Safety
/// `ptr` leads to `len` bytes, or to a text with a zero byte at its end if `len` is `OT_NTS`. They
/// stay as they are for as long as the result is used.
pub(crate) unsafe fn bytes<'a>(ptr: *const u8, len: usize) -> Option<&'a [u8]> {
    match (ptr.is_null(), len) {
        (true, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: as above.
        (false, ENDED) => Some(unsafe { CStr::from_ptr(ptr.cast::<c_char>()) }.to_bytes()),
        (false, len) if len > isize::MAX as usize => None,
        // SAFETY: as above.
        (false, len) => Some(unsafe { std::slice::from_raw_parts(ptr, len) }),
    }
}

/// The same as text.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn text<'a>(ptr: *const u8, len: usize) -> Result<&'a str, Failure> {
    // SAFETY: as above.
    let bytes = unsafe { bytes(ptr, len) };
    let bytes = bytes.ok_or_else(|| misuse("a text is NULL, or too long"))?;
    std::str::from_utf8(bytes).map_err(|_| misuse("a text is not UTF-8"))
}

/// A list of C's.
///
/// # Safety
/// `ptr` leads to `count` of them, which stay as they are for as long as the result is used.
pub(crate) unsafe fn list<'a, T>(ptr: *const T, count: usize) -> Result<&'a [T], Failure> {
    match (ptr.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(misuse("a list is NULL, and its count is not 0")),
        (false, count) if count > isize::MAX as usize / size_of::<T>().max(1) => {
            Err(misuse("a count is too large"))
        }
        // SAFETY: as above.
        (false, count) => Ok(unsafe { std::slice::from_raw_parts(ptr, count) }),
    }
}

/// Values of C's.
///
/// # Safety
/// As [`list`], and what they point to as well.
pub(crate) unsafe fn values<'a>(
    ptr: *const OtValue,
    count: usize,
) -> Result<Vec<Value<'a>>, Failure> {
    // SAFETY: as above.
    let list: &'a [OtValue] = unsafe { self::list(ptr, count) }?;
    let of = |value: &OtValue| {
        let is_long = matches!(value.kind, kind::TEXT | kind::BYTES);
        let len = if is_long { value.len } else { 0 };
        // SAFETY: as above.
        let bytes = unsafe { bytes(value.ptr, len) };
        let bytes = bytes.filter(|_| !is_long || !value.ptr.is_null() || len == 0);
        let value = bytes.and_then(|bytes| Value::of(value, bytes));
        value.ok_or_else(|| misuse("a value has no known kind, or its text is NULL"))
    };
    list.iter().map(of).collect()
}

/// The program is wrong.
pub(crate) fn misuse(why: &str) -> Failure {
    Failure::unsent("misuse", why)
}

/// A handle of C's: what it stands for is of the client that it has.
pub(crate) struct Handle<T> {
    pub(crate) client: Rc<Client>,
    pub(crate) of: T,
}

impl<T> Handle<T> {
    pub(crate) fn give(client: &Rc<Client>, of: T, to: *mut *mut Handle<T>) {
        let handle = Box::new(Handle { client: client.clone(), of });
        // SAFETY: it was checked that there is a place for it.
        unsafe { to.write(Box::into_raw(handle)) };
    }
}

/// Runs a function of the header. It returns a failure, or a status that is none. A panic breaks the
/// client, if there is one.
pub(crate) fn guard(
    client: Option<&Rc<Client>>,
    error: *mut OtError,
    run: impl FnOnce() -> Result<i32, Failure>,
) -> i32 {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(status)) => {
            // SAFETY: `error` is C's, who has promised what that wants.
            unsafe { clear(error) };
            status
        }
        Ok(Err(failure)) => {
            let status = match &*failure.code {
                "misuse" => status::MISUSE,
                "forked" => status::FORKED,
                "busy" => status::BUSY,
                "internal" => status::INTERNAL,
                _ => failure.status(),
            };
            // SAFETY: as above.
            unsafe { tell(error, &failure, status) }
        }
        Err(_) => {
            client.into_iter().for_each(|client| client.breaks());
            // SAFETY: as above.
            unsafe { tell(error, &barred(status::INTERNAL), status::INTERNAL) }
        }
    }
}

/// What the user of a callback gave.
pub(crate) type User = *mut c_void;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn error() -> OtError {
        OtError { size: size_of::<OtError>() as u32, ..OtError::empty() }
    }

    fn text_of(bytes: &[u8]) -> &str {
        CStr::from_bytes_until_nul(bytes).unwrap().to_str().unwrap()
    }

    #[test]
    fn a_panic_goes_no_further_than_its_function() {
        let mut said = error();
        let status = guard(None, &raw mut said, || panic!("a defect"));
        assert_eq!((status, said.status), (status::INTERNAL, status::INTERNAL));
        assert_eq!(text_of(&said.code), "internal");
        assert_eq!(guard(None, &raw mut said, || Ok(status::AGAIN)), status::AGAIN);
        assert_eq!((said.status, text_of(&said.message)), (0, ""));
    }

    #[test]
    fn long_texts_end_at_a_whole_character() {
        let mut said = error();
        let failure = Failure::unsent("code", "ä".repeat(600));
        let told = guard(None, &raw mut said, || Err(failure));
        assert_eq!((told, text_of(&said.message)), (status::REFUSED, &*"ä".repeat(511)));
    }

    #[test]
    fn options_of_another_size_are_read_as_far_as_they_go() {
        let shorter = OtOptions { size: 8, timeout_ms: 7, flags: 99 };
        // SAFETY: it leads to that many bytes.
        let read = unsafe { take(&raw const shorter) };
        assert_eq!((read.timeout_ms, read.flags), (7, 0));
        // SAFETY: null is no structure.
        assert_eq!(unsafe { take(std::ptr::null::<OtOptions>()) }.timeout_ms, 0);
    }
}
