//! The rows of the model: the identity, the number of the row, and a payload that depends on both.

use bytes::BytesMut;
use onetrip_postgres::message::{Field, Format, data_row, row_description};

use super::Statement;

/// The oid of int8.
pub const INT8: u32 = 20;
/// The oid of text.
pub const TEXT: u32 = 25;

/// The columns of every row: names and types.
pub const COLUMNS: [(&str, u32); 3] = [("op", INT8), ("row", INT8), ("payload", TEXT)];

/// Appends the description of the rows. The table oid of each column is the identity.
pub(super) fn describe(out: &mut BytesMut, statement: &Statement, formats: [Format; 3]) {
    let fields = COLUMNS.iter().zip(formats).enumerate().map(|(at, ((name, oid), format))| Field {
        name,
        table_oid: statement.op.unwrap_or(0) as u32,
        column_id: at as i16 + 1,
        type_oid: *oid,
        type_size: if *oid == INT8 { 8 } else { -1 },
        type_modifier: -1,
        format,
    });
    let fields: Vec<Field<'_>> = fields.collect();
    row_description::write(out, fields.into_iter()).expect("three short columns");
}

/// Appends row number `row`.
pub(super) fn put_row(out: &mut BytesMut, statement: &Statement, row: u32, formats: [Format; 3]) {
    let values: Vec<Vec<u8>> = formats
        .iter()
        .enumerate()
        .map(|(column, format)| {
            value(column, statement.op.unwrap_or(0), row, statement.size, *format)
        })
        .collect();
    data_row::write(out, values.iter().map(|value| Some(value.as_slice())))
        .expect("a row far below 1 GiB");
}

/// The value in `column` of row number `row` of the statement `op`.
pub fn value(column: usize, op: u64, row: u32, size: usize, format: Format) -> Vec<u8> {
    let number = match column {
        0 => op as i64,
        1 => i64::from(row),
        _ => return vec![b'a' + ((op + u64::from(row)) % 26) as u8; size],
    };
    match format {
        Format::Text => number.to_string().into_bytes(),
        Format::Binary => number.to_be_bytes().to_vec(),
    }
}

/// The most bytes that a row with a payload of `size` has on the wire.
pub fn row_len(size: usize) -> usize {
    7 + 3 * 4 + 2 * 20 + size
}
