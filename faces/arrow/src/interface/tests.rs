//! A consumer that does what the interface allows.

#![allow(clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]

use std::ffi::CStr;
use std::mem::MaybeUninit;

use super::{Array, Schema, Stream};
use crate::Table;
use crate::tests::table;

const SEVEN: &[u8] = &[0, 0, 0, 7];

fn schema_of(stream: &mut Stream) -> Schema {
    let mut out = MaybeUninit::uninit();
    unsafe {
        assert_eq!((stream.get_schema.unwrap())(stream, out.as_mut_ptr()), 0);
        out.assume_init()
    }
}

fn next(stream: &mut Stream) -> Option<Array> {
    let mut out = MaybeUninit::<Array>::zeroed();
    unsafe {
        assert_eq!((stream.get_next.unwrap())(stream, out.as_mut_ptr()), 0);
        Some(out.assume_init()).filter(|it| it.release.is_some())
    }
}

/// The columns of a batch: each is taken over from its parent, as a consumer may.
fn columns(batch: &mut Array) -> Vec<Array> {
    let take = |at| unsafe {
        let child = *batch.children.add(at);
        let taken = child.read();
        (*child).release = None;
        taken
    };
    (0..batch.n_children as usize).map(take).collect()
}

fn int(column: &Array) -> i32 {
    unsafe { **column.buffers.add(1).cast::<*const i32>() }
}

fn letters(schema: &Schema) -> Vec<(String, String)> {
    let text = |text| unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned();
    let child = |at| unsafe { &**schema.children.add(at) };
    let children = (0..schema.n_children as usize).map(child);
    children.map(|it| (text(it.name), text(it.format))).collect()
}

fn two_columns() -> Table {
    table(&[(23, -1), (25, -1)], &[&[Some(SEVEN), None]]).unwrap()
}

#[test]
fn a_stream_gives_its_schema_and_batches_and_then_no_more() {
    let table = two_columns();
    assert_eq!((table.rows(), table.column_names().collect()), (1, vec!["c", "c"]));
    let mut stream = table.stream();
    drop(table);
    let (schema, mut first) = (schema_of(&mut stream), next(&mut stream).unwrap());
    assert!(next(&mut stream).is_none());
    drop(stream);
    assert_eq!(letters(&schema), [("c", "i"), ("c", "u")].map(|(a, b)| (a.into(), b.into())));
    assert_eq!(first.length, 1);
    let columns = columns(&mut first);
    assert_eq!((int(&columns[0]), columns[0].null_count, columns[1].null_count), (7, 0, 1));
    assert_eq!((columns[0].n_buffers, columns[1].n_buffers), (2, 3));
}

#[test]
fn a_column_that_was_taken_over_outlives_its_table() {
    let table = two_columns();
    let mut stream = table.stream();
    let mut batch = next(&mut stream).unwrap();
    let columns = columns(&mut batch);
    drop((batch, stream, table));
    assert_eq!(int(&columns[0]), 7);
}

#[test]
fn a_stream_that_was_taken_over_is_freed_once() {
    let mut stream = two_columns().stream();
    let mut taken = unsafe { (&raw const stream).read() };
    stream.release = None;
    drop(stream);
    assert!(next(&mut taken).is_some());
}

#[test]
fn an_extension_type_has_its_name_as_metadata() {
    let schema = table(&[(2950, -1), (23, -1)], &[]).unwrap().schema();
    let child = |at| unsafe { &**schema.children.add(at) };
    assert!(child(1).metadata.is_null());
    let told = unsafe { std::slice::from_raw_parts(child(0).metadata.cast::<u8>(), 42) };
    assert!(told.ends_with(b"arrow.uuid") && told[8..].starts_with(b"ARROW:extension:name"));
}
