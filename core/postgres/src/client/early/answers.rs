//! What a program hears early, in the server's words.

use bytes::{BufMut, BytesMut};

use crate::message::error_response::{self, field};
use crate::message::{ErrorResponse, tag::backend};

/// CommandComplete and ReadyForQuery.
pub(super) fn completed(out: &mut BytesMut, command: &str, status: u8) {
    complete(out, command);
    ready(out, status);
}

/// CommandComplete.
pub(super) fn complete(out: &mut BytesMut, command: &str) {
    message(out, backend::COMMAND_COMPLETE, &[command.as_bytes(), &[0]]);
}

/// ReadyForQuery.
pub(super) fn ready(out: &mut BytesMut, status: u8) {
    message(out, backend::READY_FOR_QUERY, &[&[status]]);
}

/// A message without a body.
pub(super) fn empty(out: &mut BytesMut, tag: u8) {
    message(out, tag, &[]);
}

/// The answer to `select 1` as a simple query.
pub(super) fn one(out: &mut BytesMut, status: u8) {
    /// One column: no table, int4 (OID 23) of 4 bytes, no modifier, as text.
    const COLUMN: [u8; 18] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 23, 0, 4, 0xff, 0xff, 0xff, 0xff, 0, 0];
    message(out, backend::ROW_DESCRIPTION, &[&[0, 1], b"?column?\0", &COLUMN]);
    message(out, backend::DATA_ROW, &[&[0, 1, 0, 0, 0, 1, b'1']]);
    completed(out, "SELECT 1", status);
}

/// An error that ends the connection.
pub(super) fn fatal(out: &mut BytesMut, code: &str, text: &str) {
    let fields = [
        (field::SEVERITY, &b"FATAL"[..]),
        (field::SEVERITY_NONLOCALIZED, b"FATAL"),
        (field::CODE, code.as_bytes()),
        (field::MESSAGE, text.as_bytes()),
    ];
    // Only a NUL could be wrong, and no text of ours has one.
    let _ = error_response::write(out, fields);
}

/// An error of the server with one more line of context. False if it can't be read.
///
/// A position in another text than that of the statement which fails is told as one in that text:
/// `of`.
pub(super) fn with_context(out: &mut BytesMut, body: &[u8], line: &str, of: Option<&[u8]>) -> bool {
    let Ok(error) = ErrorResponse::decode(body) else { return false };
    let mut context = error.fields.value(field::WHERE).map(<[u8]>::to_vec).unwrap_or_default();
    if !context.is_empty() {
        context.push(b'\n');
    }
    context.extend_from_slice(line.as_bytes());
    let has_own = error.fields.value(field::INTERNAL_QUERY).is_some();
    let position = error.fields.value(field::POSITION);
    let other = of.zip(position).filter(|_| !has_own);
    let rest = error.fields.filter(|(letter, _)| match *letter {
        field::WHERE => false,
        field::POSITION => other.is_none(),
        _ => true,
    });
    let moved = other.map(|(sql, position)| {
        [(field::INTERNAL_POSITION, position), (field::INTERNAL_QUERY, sql)]
    });
    let fields = rest.chain(moved.into_iter().flatten());
    error_response::write(out, fields.chain([(field::WHERE, &context[..])])).is_ok()
}

fn message(out: &mut BytesMut, tag: u8, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|it| it.len()).sum();
    out.put_u8(tag);
    // No message of this file is longer than some hundred bytes.
    out.put_u32(len as u32 + 4);
    parts.iter().for_each(|it| out.put_slice(it));
}
