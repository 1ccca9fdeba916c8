//! The Arrow C data and stream interfaces (arrow.apache.org, "The Arrow C data interface").
//!
//! A structure owns what it points to, by its private data, until its `release` is called. Whoever
//! takes one over copies it, and sets `release` to NULL in ours, which then frees nothing when it is
//! dropped. The buffers of a batch are shared: whoever has an array has a count of its batch.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use crate::column::Column;
use crate::table::{Batch, Table};

type Release<T> = Option<unsafe extern "C" fn(*mut T)>;

/// `struct ArrowSchema`.
#[repr(C)]
#[derive(Debug)]
pub struct Schema {
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

/// `struct ArrowArray`.
#[repr(C)]
#[derive(Debug)]
pub struct Array {
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

/// `struct ArrowArrayStream`.
#[repr(C)]
#[derive(Debug)]
pub struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Release<Stream>,
    private_data: *mut c_void,
}

impl Table {
    /// A stream of its batches, of which there can be any number.
    pub fn stream(&self) -> Stream {
        let own = (self.schema.clone(), self.batches.clone().into_iter());
        Stream {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(get_last_error),
            release: Some(release_stream),
            private_data: owned::<OfStream>(own),
        }
    }

    /// What its columns are: a structure of them.
    pub fn schema(&self) -> Schema {
        schema_of(&self.schema)
    }
}

/// Frees what a structure of ours owns, unless somebody has taken it over, and marks it as freed.
macro_rules! released {
    ($type:ty, $release:ident, $own:ty) => {
        // SAFETY: all that it points to is its own, or shared by count, and is not written to.
        unsafe impl Send for $type {}

        impl Drop for $type {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: a `release` that is there was not called yet.
                    unsafe { release(self) }
                }
            }
        }

        unsafe extern "C" fn $release(it: *mut $type) {
            // SAFETY: it is one of ours and not released yet, so the private data is this.
            unsafe {
                drop(Box::from_raw((*it).private_data.cast::<$own>()));
                (*it).release = None;
            }
        }
    };
}

released!(Schema, release_schema, OfSchema);
released!(Array, release_array, OfArray);
released!(Stream, release_stream, OfStream);

/// What a schema points to. A child is freed by whoever frees its parent.
type OfSchema = (CString, CString, Vec<u8>, Children<Schema>);
type OfArray = (Arc<Batch>, Vec<*const c_void>, Children<Array>);
type OfStream = (Arc<Vec<Column>>, std::vec::IntoIter<Arc<Batch>>);

fn owned<T>(it: T) -> *mut c_void {
    Box::into_raw(Box::new(it)).cast()
}

/// Structures in boxes, as the interface wants them.
struct Children<T>(Vec<*mut T>);

impl<T> Children<T> {
    fn new(children: impl Iterator<Item = T>) -> Children<T> {
        Children(children.map(|child| Box::into_raw(Box::new(child))).collect())
    }
}

impl<T> Drop for Children<T> {
    fn drop(&mut self) {
        for child in &self.0 {
            // SAFETY: it came out of a box, and is freed here alone. One that was taken over has no
            // `release` any more.
            drop(unsafe { Box::from_raw(*child) });
        }
    }
}

const NULLABLE: i64 = 2;

fn schema_of(columns: &[Column]) -> Schema {
    let each = columns.iter().map(|it| {
        make_schema(&it.letters, &it.name, it.extension(), Children::new(std::iter::empty()))
    });
    make_schema("+s", "", None, Children::new(each))
}

fn make_schema(
    format: &str,
    name: &str,
    extension: Option<&str>,
    mut children: Children<Schema>,
) -> Schema {
    // No name and no type has a zero byte in it.
    let text = |text: &str| CString::new(text).unwrap_or_default();
    let (format, name) = (text(format), text(name));
    let metadata = extension.map(metadata).unwrap_or_default();
    Schema {
        format: format.as_ptr(),
        name: name.as_ptr(),
        metadata: if metadata.is_empty() { ptr::null() } else { metadata.as_ptr().cast() },
        flags: NULLABLE,
        n_children: children.0.len() as i64,
        children: children.0.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private_data: owned::<OfSchema>((format, name, metadata, children)),
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

fn array_of(batch: &Arc<Batch>) -> Array {
    let each = batch.columns.iter().map(|column| {
        let valid = if column.nulls == 0 { ptr::null() } else { column.valid.as_ptr().cast() };
        let offsets = column.offsets.as_ref().map(|offsets| offsets.as_ptr().cast());
        let buffers = [Some(valid), offsets, Some(column.start().cast())];
        let none = Children::new(std::iter::empty());
        make_array(batch, column.nulls, buffers.into_iter().flatten().collect(), none)
    });
    make_array(batch, 0, vec![ptr::null()], Children::new(each))
}

fn make_array(
    batch: &Arc<Batch>,
    nulls: usize,
    mut buffers: Vec<*const c_void>,
    mut children: Children<Array>,
) -> Array {
    Array {
        length: batch.rows as i64,
        null_count: nulls as i64,
        offset: 0,
        n_buffers: buffers.len() as i64,
        n_children: children.0.len() as i64,
        buffers: buffers.as_mut_ptr(),
        children: children.0.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_array),
        private_data: owned::<OfArray>((batch.clone(), buffers, children)),
    }
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: the stream is one of ours, and `out` has room.
    unsafe {
        let (schema, _) = &*(*stream).private_data.cast::<OfStream>();
        out.write(schema_of(schema));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as above; an array without a `release` is the end, and all else of it is of no use.
    unsafe {
        let (_, batches) = &mut *(*stream).private_data.cast::<OfStream>();
        match batches.next() {
            Some(batch) => out.write(array_of(&batch)),
            None => (&raw mut (*out).release).write(None),
        }
    }
    0
}

unsafe extern "C" fn get_last_error(_: *mut Stream) -> *const c_char {
    ptr::null()
}

#[cfg(test)]
mod tests;
