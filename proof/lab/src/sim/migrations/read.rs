//! Replies as bytes.

use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{
    DataRow, ErrorResponse, Format, Header, ParameterDescription, RowDescription,
    error_response::field,
};

use super::remembered::Columns;
use crate::model::Type;

/// The messages of a part of a reply.
pub(super) fn messages(reply: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = reply;
    std::iter::from_fn(move || {
        let header = Header::peek(rest).ok().flatten()?;
        let (message, behind) = rest.split_at_checked(header.message_len())?;
        rest = behind;
        Some((header.tag, &message[Header::LEN..]))
    })
}

/// The columns that a reply describes, if it does: none where there are no rows.
pub(super) fn columns(reply: &[u8]) -> Option<Columns> {
    messages(reply).find_map(|(tag, body)| match tag {
        backend::ROW_DESCRIPTION => {
            let described = RowDescription::decode(body).ok()?;
            Some(described.fields.map(|it| (it.name.to_owned(), it.type_oid)).collect())
        }
        backend::NO_DATA => Some(Vec::new()),
        _ => None,
    })
}

/// The types of the parameters that a reply describes.
pub(super) fn parameters(reply: &[u8]) -> Vec<u32> {
    let described = messages(reply).find(|(tag, _)| *tag == backend::PARAMETER_DESCRIPTION);
    let described = described.and_then(|(_, body)| ParameterDescription::decode(body).ok());
    described.map_or_else(Vec::new, |it| it.types.collect())
}

/// The values of the rows of a reply.
pub(super) fn rows(reply: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let rows = messages(reply).filter(|(tag, _)| *tag == backend::DATA_ROW);
    let rows = rows.filter_map(|(_, body)| DataRow::decode(body).ok());
    rows.map(|row| row.values.map(|it| it.unwrap_or_default().to_vec()).collect()).collect()
}

/// A value as this side reads it: by the reader of its type, in this form.
pub(super) fn value(oid: u32, format: Format, bytes: &[u8], zone: i64) -> String {
    let text = || String::from_utf8_lossy(bytes).into_owned();
    match (format, Type::of(oid)) {
        // It has no reader of inet but that of its text.
        (Format::Text, _) | (_, None | Some(Type::Inet)) => text(),
        (Format::Binary, Some(type_)) => match type_.receive(bytes) {
            Ok(value) => type_.write(&value, zone),
            Err(_) => format!("no value of {type_:?}: {bytes:?}"),
        },
    }
}

/// What the host needs of an error.
#[derive(Clone, Debug, Default)]
pub(super) struct Error {
    pub(super) code: String,
    pub(super) routine: Option<String>,
    pub(super) message: String,
    /// At which version of the tables it was reported.
    pub(super) version: u32,
}

/// An error that the server has sent.
pub(super) fn error(body: &[u8]) -> Option<Error> {
    let error = ErrorResponse::decode(body).ok()?;
    let text =
        |letter| error.fields.value(letter).map(|it| String::from_utf8_lossy(it).into_owned());
    Some(Error {
        code: text(field::CODE)?,
        routine: text(field::ROUTINE),
        message: text(field::MESSAGE).unwrap_or_default(),
        version: text(field::DETAIL).and_then(|it| it.parse().ok()).unwrap_or(0),
    })
}
