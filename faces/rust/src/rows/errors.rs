//! Errors of reading a row. They name the column, the types and the kind of value; never the value.

use super::{Column, ColumnIndex};
use crate::Error;
use crate::types::{holder, plain_reason, value_kind};

#[cold]
pub(super) fn no_such_column(index: &dyn ColumnIndex, columns: usize) -> Error {
    Error::unreadable(format!("the result has no column {index}: it has {columns} columns"))
}

#[cold]
pub(super) fn wrong_type<T>(index: usize, column: &Column) -> Error {
    let what = std::any::type_name::<T>();
    Error::unreadable(match column.is_text() {
        true => format!(
            "column {index} ({}) of type {} has no binary form and comes as text: read it as a string",
            column.name, column.type_
        ),
        false => format!(
            "column {index} ({}) has type {}, which can't be read as {what}",
            column.name, column.type_
        ),
    })
}

/// Names the kind of value, and never the value.
#[cold]
pub(super) fn unreadable<T>(
    index: usize,
    column: &Column,
    value: Option<&[u8]>,
    source: Box<dyn std::error::Error + Send + Sync>,
) -> Error {
    let what = std::any::type_name::<T>();
    let Column { name, type_, .. } = column;
    let Some(value) = value else {
        let message =
            format!("column {index} ({name}) of type {type_} is NULL, which {what} can't hold");
        return Error::unreadable(message).with_conversion(source);
    };
    let kind = if column.is_text() { "a text".into() } else { value_kind(type_, value) };
    let reason = plain_reason(&*source);
    let reason = reason.or_else(|| holder(type_, value).map(str::to_owned));
    let because = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    Error::unreadable(format!(
        "column {index} ({name}) of type {type_} holds {kind}, which could not be read as \
         {what}{because}"
    ))
    .with_conversion(source)
}

#[cold]
pub(super) fn misfit() -> Error {
    Error::malformed("a row does not fit its columns")
}

#[cold]
pub(super) fn malformed(index: usize, column: &Column) -> Error {
    Error::unreadable(format!("column {index} ({}) is missing in a row", column.name))
}
