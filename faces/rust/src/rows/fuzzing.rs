//! Rows without a connection, for the fuzz targets, which stand in for the server.

use bytes::Bytes;
use onetrip_postgres::message::tag::backend;
use postgres_types::Type;

use super::{Asked, Blocks, Format, Rows, columns_of};
use crate::types::is_checked;

/// The rows that a server describes and sends: `description` is the body of a RowDescription,
/// `messages` are what the engine would hand over. `types` replace the described types, since a
/// type that is not built in can't be told by its number. `None` if the description is malformed.
pub fn rows(description: &[u8], types: &[Type], messages: Bytes) -> Option<Rows> {
    let mut columns = columns_of(description, Asked::Portal)?.to_vec();
    for (column, type_) in columns.iter_mut().zip(types) {
        column.type_ = type_.clone();
        column.is_checked = column.format == Format::Binary && is_checked(type_);
    }
    let blocks = Blocks::of(&messages);
    let len = blocks.messages().filter(|(tag, _)| *tag == backend::DATA_ROW).count();
    Some(Rows::new(columns.into(), blocks, len, false))
}
