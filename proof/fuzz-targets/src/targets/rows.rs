//! Rows of a result, as a caller reads them: each PostgreSQL type as every Rust type that accepts
//! it.

mod readers;
mod types;

use bytes::{BufMut, Bytes, BytesMut};
use onetrip::Rows;
use onetrip::fuzzing;
use onetrip::types::Type;
use onetrip_postgres::message::{Field, Format, Header, row_description, tag};

use crate::input::{Input, show, show_debug};
pub(crate) use readers::TYPES;

/// A byte with the number of columns, up to seven, and two bytes for each: its type in the list of
/// [`TYPES`], and its format. Then the body of a DataRow.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let columns: Vec<_> =
        (0..input.below(8)).map(|_| (input.below(TYPES.len()), input.flag())).collect();
    let types: Vec<Type> = columns.iter().map(|&(at, _)| (TYPES[at].type_)()).collect();
    let mut message = BytesMut::new();
    message.put_u8(tag::backend::DATA_ROW);
    let body = input.rest();
    message.put_u32((body.len() + Header::LEN - 1) as u32);
    message.put_slice(body);
    let description = describe(columns.iter().map(|&(_, is_text)| is_text));
    let rows = fuzzing::rows(&description, &types, message.freeze()).expect("it is well-formed");
    read(&rows, &columns);
}

fn read(rows: &Rows, columns: &[(usize, bool)]) {
    for row in rows {
        for (index, &(at, is_text)) in columns.iter().enumerate() {
            let readers = if is_text { readers::TEXT } else { TYPES[at].readers };
            for reader in readers {
                if let Err(error) = reader(&row, index) {
                    show(&error);
                    show_debug(&error);
                }
            }
        }
        assert!(row.try_get::<i32>(columns.len()).is_err());
    }
}

/// The body of a RowDescription with the names and formats of columns; the caller sets the types.
pub(super) fn describe_named<'a>(
    columns: impl IntoIterator<Item = (&'a str, Type, Format)>,
) -> Bytes {
    let fields = columns.into_iter().map(|(name, type_, format)| Field {
        name,
        table_oid: 0,
        column_id: 0,
        type_oid: type_.oid(),
        type_size: -1,
        type_modifier: -1,
        format,
    });
    let fields: Vec<Field<'_>> = fields.collect();
    let mut out = BytesMut::new();
    row_description::write(&mut out, fields.into_iter()).expect("a few short columns");
    out.freeze().slice(Header::LEN..)
}

fn describe(are_texts: impl Iterator<Item = bool>) -> Bytes {
    let format = |is_text| if is_text { Format::Text } else { Format::Binary };
    describe_named(are_texts.map(|is_text| ("column", Type::TEXT, format(is_text))))
}
