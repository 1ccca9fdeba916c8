//! The catalog of a hostile server, asked about types that are not built in.

use bytes::{BufMut, BytesMut};
use onetrip::fuzzing;
use onetrip::types::{Type, TypeCache};
use onetrip_postgres::message::{Format, Header, tag};

use super::rows::describe_named;
use crate::input::{Input, show, show_debug};

/// The columns of the answer to [`TypeCache::introspection_sql`].
const COLUMNS: [(&str, Type, Format); 7] = [
    ("oid", Type::OID, Format::Binary),
    ("schema", Type::TEXT, Format::Binary),
    ("name", Type::TEXT, Format::Binary),
    ("kind", Type::TEXT, Format::Binary),
    ("part", Type::OID, Format::Binary),
    ("names", Type::TEXT_ARRAY, Format::Binary),
    ("parts", Type::OID_ARRAY, Format::Binary),
];

/// Bodies of DataRows, each behind its length in two bytes.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut messages = BytesMut::new();
    while !input.is_empty() {
        let body = input.long_piece();
        messages.put_u8(tag::backend::DATA_ROW);
        messages.put_u32((body.len() + Header::LEN - 1) as u32);
        messages.put_slice(body);
    }
    let description = describe_named(COLUMNS);
    let types = COLUMNS.map(|(_, type_, _)| type_);
    let rows = fuzzing::rows(&description, &types, messages.freeze()).expect("it is well-formed");
    let cache = TypeCache::new();
    match cache.learn(&rows) {
        Ok(types) => look_at(&cache, &types),
        Err(error) => show(error),
    }
}

fn look_at(cache: &TypeCache, types: &[Type]) {
    for type_ in types {
        show(type_);
        show_debug(cache.get(type_.oid()));
        assert!(cache.missing(&[type_.oid()]).is_empty());
    }
    types.iter().for_each(|type_| cache.forget(type_.oid()));
    assert!(types.iter().all(|type_| cache.get(type_.oid()).is_none()));
}
