//! The Arrow C data and stream interfaces (arrow.apache.org, "The Arrow C data interface").
//!
//! Each structure owns what it points to, by its private data, until its `release` is called. The
//! buffers of a batch are shared: whoever has an array has a count of its batch.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::arrow::{Arrow, Batch, Column, Data};

type Release<T> = Option<unsafe extern "C" fn(*mut T)>;

#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Release<Schema>,
    private_data: *mut c_void,
}

#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Release<Array>,
    private_data: *mut c_void,
}

#[repr(C)]
struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Release<Stream>,
    private_data: *mut c_void,
}

/// What has a `release` of its own, which says that there is nothing more to be released.
trait Released {
    fn release(&self) -> Release<Self>;
}

impl Released for Schema {
    fn release(&self) -> Release<Schema> {
        self.release
    }
}

impl Released for Array {
    fn release(&self) -> Release<Array> {
        self.release
    }
}

impl Released for Stream {
    fn release(&self) -> Release<Stream> {
        self.release
    }
}

/// Releases what is in a box of ours, unless somebody has taken it out, and the box.
///
/// # Safety
/// It came from `Box::into_raw`.
unsafe fn free<T: Released>(it: *mut T) {
    // SAFETY: as the caller says; `release` is called once, and on what it was made for.
    unsafe {
        let mut it = Box::from_raw(it);
        if let Some(release) = it.release() {
            release(&raw mut *it);
        }
    }
}

// --- schemas ---

struct OfSchema {
    _format: CString,
    _name: CString,
    _metadata: Vec<u8>,
    children: Vec<*mut Schema>,
}

const NULLABLE: i64 = 2;

fn make_schema(format: &str, name: &str, extension: &str, children: Vec<*mut Schema>) -> Schema {
    // No name and no type has a zero byte in it.
    let text = |text: &str| CString::new(text).unwrap_or_default();
    let mut own = Box::new(OfSchema {
        _format: text(format),
        _name: text(name),
        _metadata: metadata(extension),
        children,
    });
    let metadata = if extension.is_empty() { ptr::null() } else { own._metadata.as_ptr().cast() };
    Schema {
        format: own._format.as_ptr(),
        name: own._name.as_ptr(),
        metadata,
        flags: NULLABLE,
        n_children: own.children.len() as i64,
        children: own.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(own).cast(),
    }
}

/// One pair, whose value is the name of an extension type.
fn metadata(extension: &str) -> Vec<u8> {
    let mut out = 1_i32.to_ne_bytes().to_vec();
    for text in ["ARROW:extension:name", extension] {
        out.extend_from_slice(&(text.len() as i32).to_ne_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    out
}

fn schema_of(columns: &[Column]) -> Schema {
    let boxed = |it: &Column| {
        Box::into_raw(Box::new(make_schema(&it.letters, &it.name, it.extension, Vec::new())))
    };
    make_schema("+s", "", "", columns.iter().map(boxed).collect())
}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: it is one of ours, and not released yet.
    unsafe {
        let own = Box::from_raw((*schema).private_data.cast::<OfSchema>());
        own.children.iter().for_each(|child| free(*child));
        (*schema).release = None;
    }
}

// --- arrays ---

struct OfArray {
    _batch: Arc<Batch>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

fn make_array(
    batch: &Arc<Batch>,
    nulls: usize,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
) -> Array {
    let mut own = Box::new(OfArray { _batch: batch.clone(), buffers, children });
    Array {
        length: batch.rows as i64,
        null_count: nulls as i64,
        offset: 0,
        n_buffers: own.buffers.len() as i64,
        n_children: own.children.len() as i64,
        buffers: own.buffers.as_mut_ptr(),
        children: own.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(own).cast(),
    }
}

fn array_of(batch: &Arc<Batch>) -> Array {
    let boxed = |column: &Column| {
        let valid: *const c_void = match column.nulls {
            0 => ptr::null(),
            _ => column.valid.as_ptr().cast(),
        };
        let data: *const c_void = match &column.data {
            Data::Bytes(all) => all.as_ptr().cast(),
            Data::Two(all) => all.as_ptr().cast(),
            Data::Four(all) => all.as_ptr().cast(),
            Data::Eight(all) => all.as_ptr().cast(),
            Data::Sixteen(all) => all.as_ptr().cast(),
        };
        let buffers = match &column.offsets {
            Some(offsets) => vec![valid, offsets.as_ptr().cast(), data],
            None => vec![valid, data],
        };
        Box::into_raw(Box::new(make_array(batch, column.nulls, buffers, Vec::new())))
    };
    make_array(batch, 0, vec![ptr::null()], batch.columns.iter().map(boxed).collect())
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: it is one of ours, and not released yet.
    unsafe {
        let own = Box::from_raw((*array).private_data.cast::<OfArray>());
        own.children.iter().for_each(|child| free(*child));
        (*array).release = None;
    }
}

// --- streams ---

struct OfStream {
    schema: Arc<Vec<Column>>,
    batches: std::vec::IntoIter<Arc<Batch>>,
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: the stream is one of ours, and `out` has room.
    unsafe {
        let own = &*(*stream).private_data.cast::<OfStream>();
        out.write(schema_of(&own.schema));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as above; an array without a `release` is the end, and all else of it is of no use.
    unsafe {
        let own = &mut *(*stream).private_data.cast::<OfStream>();
        match own.batches.next() {
            Some(batch) => out.write(array_of(&batch)),
            None => (*out).release = None,
        }
    }
    0
}

unsafe extern "C" fn get_last_error(_: *mut Stream) -> *const c_char {
    ptr::null()
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: it is one of ours, and not released yet.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<OfStream>()));
        (*stream).release = None;
    }
}

// --- capsules ---

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

pub(crate) fn stream<'py>(py: Python<'py>, of: &Arrow) -> PyResult<Bound<'py, PyAny>> {
    let own = OfStream { schema: of.schema.clone(), batches: of.batches.clone().into_iter() };
    let stream = Stream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(Box::new(own)).cast(),
    };
    capsule(py, stream, STREAM, drop_stream)
}

pub(crate) fn schema<'py>(py: Python<'py>, of: &Arrow) -> PyResult<Bound<'py, PyAny>> {
    capsule(py, schema_of(&of.schema), SCHEMA, drop_schema)
}

fn capsule<'py, T: Released>(
    py: Python<'py>,
    it: T,
    name: &'static CStr,
    drops: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    let it = Box::into_raw(Box::new(it));
    // SAFETY: the name lives for ever, and `drops` frees what is handed over.
    unsafe {
        let capsule = ffi::PyCapsule_New(it.cast(), name.as_ptr(), Some(drops));
        let capsule = Bound::from_owned_ptr_or_err(py, capsule);
        if capsule.is_err() {
            free(it);
        }
        capsule
    }
}

unsafe extern "C" fn drop_stream(capsule: *mut ffi::PyObject) {
    // SAFETY: it is a capsule of ours, under this name.
    unsafe { free(ffi::PyCapsule_GetPointer(capsule, STREAM.as_ptr()).cast::<Stream>()) }
}

unsafe extern "C" fn drop_schema(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe { free(ffi::PyCapsule_GetPointer(capsule, SCHEMA.as_ptr()).cast::<Schema>()) }
}
