//! The functions of the header, which says what they do. Each checks what C gave, and calls what is
//! below.

#![allow(unsafe_code, clippy::missing_safety_doc)]

mod calls;
mod clients;
mod flows;
mod listeners;
mod pipes;
mod redis;
mod results;
mod sessions;

use std::rc::Rc;

use onetrip_client::flag;

use crate::call::{Call, Request, Statement};
use crate::client::{Client, barred};
use crate::failure::Failure;
use crate::ffi::{Handle, OtOptions, OtValue, misuse, text, values};
use crate::state::State;
use crate::values::parameters;

/// `ot_client`.
pub(crate) type OtClient = Handle<()>;
/// `ot_call`.
pub(crate) type OtCall = Handle<Rc<Call>>;

/// The bits of `ot_options.flags`.
mod options {
    pub(super) const REPEATABLE: u32 = 1;
    pub(super) const SCRIPT: u32 = 2;
    pub(super) const ATOMIC: u32 = 4;
}

/// What a handle of C's leads to.
///
/// # Safety
/// It is null, or was made here and not freed.
unsafe fn handle<'a, T>(handle: *const Handle<T>) -> Result<&'a Handle<T>, Failure> {
    // SAFETY: as above.
    unsafe { handle.as_ref() }.ok_or_else(|| misuse("a handle is NULL"))
}

/// The client of a handle, if it is one.
///
/// # Safety
/// As [`handle`].
unsafe fn client_of<'a, T: 'a>(handle: *const Handle<T>) -> Option<&'a Rc<Client>> {
    // SAFETY: as above.
    unsafe { handle.as_ref() }.map(|handle| &handle.client)
}

/// Takes a handle back.
///
/// # Safety
/// As [`handle`]; nobody uses it any more.
unsafe fn take_back<T>(handle: *mut Handle<T>) -> Option<Box<Handle<T>>> {
    // SAFETY: as above.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

/// A place for what a function returns.
fn place<T>(out: *mut T) -> Result<*mut T, Failure> {
    if out.is_null() { Err(misuse("there is no place for the result")) } else { Ok(out) }
}

/// The state of a client, unless nothing can be done with it.
fn enter(client: &Client) -> Result<std::cell::RefMut<'_, State>, Failure> {
    client.enter().map_err(barred)
}

/// The text and the parameters of a statement.
///
/// # Safety
/// As `text` and `values` of `ffi`.
unsafe fn request(
    state: &mut State,
    (sql, len): (*const u8, usize),
    (args, count): (*const OtValue, usize),
) -> Result<Request, Failure> {
    // SAFETY: as above.
    let (text, values) = unsafe { (text(sql, len)?, values(args, count)?) };
    let statement = known(state, text)?;
    let (mut first, oids) = parameters(&values)?;
    if values.is_empty() {
        // In their place may stand something else.
        first.clear();
    }
    let types = state.types_of(oids).unwrap_or_default();
    Ok(Request { statement, types, first, more: Vec::new() })
}

fn known(state: &mut State, text: &str) -> Result<Rc<Statement>, Failure> {
    match text.contains('\0') {
        true => Err(Failure::unsent("unencodable", "the text has a zero byte")),
        false => Ok(state.statement(text)),
    }
}

/// The flags of the layer below.
fn flags_of(options: &OtOptions) -> Result<u32, Failure> {
    if options.flags & !(options::REPEATABLE | options::SCRIPT | options::ATOMIC) != 0 {
        return Err(misuse("an option has a flag that is not known"));
    }
    let mut flags = 0;
    if options.flags & options::REPEATABLE != 0 {
        flags |= flag::REPEATABLE;
    }
    if options.flags & options::SCRIPT != 0 {
        flags |= flag::SIMPLE;
    }
    Ok(flags)
}

/// Takes a result back.
///
/// # Safety
/// It is null, or was made here and not freed, and nobody uses it any more.
unsafe fn take_back_result(
    result: *mut crate::result::OtResult,
) -> Option<Box<crate::result::OtResult>> {
    // SAFETY: as above.
    (!result.is_null()).then(|| unsafe { Box::from_raw(result) })
}
