//! Rows that a server could have sent, and rows that none would send.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bytes::BytesMut;
use onetrip_postgres::binary::{Malformed, numeric};
use onetrip_postgres::client::types::kinds::{Type, built_in};
use onetrip_postgres::message::row_description::{self, Field};
use onetrip_postgres::message::{Format, data_row};

use crate::{Builder, Fault, Table, format};

fn types(oids: &[u32]) -> Result<Vec<Arc<Type>>, Malformed> {
    oids.iter().map(|oid| built_in(*oid).cloned().ok_or(Malformed)).collect()
}

fn builder(columns: &[(u32, i32)]) -> Builder {
    let field = |(type_oid, type_modifier): &(u32, i32)| Field {
        name: "c",
        table_oid: 0,
        column_id: 0,
        type_oid: *type_oid,
        type_size: -1,
        type_modifier: *type_modifier,
        format: Format::Binary,
    };
    let mut out = BytesMut::new();
    row_description::write(&mut out, columns.iter().map(field)).unwrap();
    Builder::new(&out[5..], types).unwrap()
}

fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut out = BytesMut::new();
    data_row::write(&mut out, values.iter().copied()).unwrap();
    out[5..].to_vec()
}

pub(crate) fn table(columns: &[(u32, i32)], rows: &[&[Option<&[u8]>]]) -> Result<Table, Fault> {
    let mut builder = builder(columns);
    rows.iter().try_for_each(|values| builder.append(&row(values)))?;
    Ok(builder.done())
}

/// A precision and a scale, as a column's modifier.
const fn digits(precision: i32, scale: i32) -> i32 {
    (precision << 16 | scale) + 4
}

#[test]
fn a_value_is_refused_that_is_not_in_the_form_of_its_column() {
    let refused = |column, value: &[u8]| table(&[column], &[&[Some(value)]]).err();
    for oid in [16, 20, 21, 23, 701, 1082, 1083, 1114, 1184, 1186, 2950] {
        assert_eq!(refused((oid, -1), b"123"), Some(Fault::Malformed), "{oid}");
    }
    assert_eq!(refused((25, -1), &[0xff]), Some(Fault::Malformed));
    assert_eq!(refused((3802, -1), b"\x02{}"), Some(Fault::Malformed));
    let mut nan = Vec::new();
    numeric::put(&mut nan, &numeric::parse("NaN").unwrap());
    assert_eq!(refused((1700, digits(10, 2)), &nan), Some(Fault::NotFinite));
    assert_eq!(refused((1700, -1), &nan), None);
    assert_eq!(table(&[(23, -1)], &[&[]]).err(), Some(Fault::Malformed));
    assert!(Builder::new(b"\0", types).is_err());
}

#[test]
fn what_has_no_type_in_arrow_is_asked_for_as_text() {
    let forms = [23, 1700, 3802, 1007, 869].map(|oid| format(built_in(oid).unwrap()));
    assert_eq!(forms, [Format::Binary, Format::Binary, Format::Binary, Format::Text, Format::Text]);
}
