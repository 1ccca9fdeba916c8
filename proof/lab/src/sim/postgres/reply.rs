//! Checks a reply, message by message.

use onetrip_postgres::message::{BackendMessage, Format, ServerError, frame, max_len};

use crate::model::{Statement, value};

/// A part of a reply.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    ParseComplete,
    BindComplete,
    /// A ParameterDescription of so many.
    Parameters(usize),
    /// A RowDescription with this identity.
    Columns {
        op: u64,
        format: Format,
    },
    NoData,
    Rows {
        op: u64,
        first: u32,
        count: u32,
        size: usize,
        format: Format,
    },
    /// A CommandComplete with one of these tags.
    Tag(Vec<String>),
    Suspended,
    Ready,
}

impl Part {
    pub(super) fn rows(statement: &Statement, first: u32, count: u32, format: Format) -> Part {
        Part::Rows { op: statement.op.unwrap_or(0), first, count, size: statement.size, format }
    }

    pub(super) fn of_columns(statement: &Statement, format: Format) -> Part {
        match statement.returns_rows {
            true => Part::Columns { op: statement.op.unwrap_or(0), format },
            false => Part::NoData,
        }
    }
}

/// Compares a reply with the expected one. `whole`: nothing may be missing. If the request was sent
/// again, the reply may begin with the answer to preparing its statement again (`healed`).
///
/// Returns the tags that came, or what is wrong.
pub(super) fn check(
    reply: &[u8],
    parts: &[Part],
    whole: bool,
    healed: &[Part],
) -> Result<Vec<String>, String> {
    let mut tags = Vec::new();
    let mut messages = Messages(reply);
    let mut first = messages.next();
    if let Some(Ok(BackendMessage::CloseComplete)) = first
        && !healed.is_empty()
    {
        match compare(messages.next(), &mut messages, healed, whole, &mut tags)? {
            Some(next) => first = Some(next),
            None => return if whole { Err("its reply is not whole".into()) } else { Ok(tags) },
        }
    }
    match compare(first, &mut messages, parts, whole, &mut tags)? {
        Some(_) => Err("its reply has messages behind its end".into()),
        None => Ok(tags),
    }
}

type Message<'a> = Result<BackendMessage<'a>, String>;

/// Compares the parts, and returns the first message after them.
fn compare<'a>(
    first: Option<Message<'a>>,
    messages: &mut Messages<'a>,
    parts: &[Part],
    whole: bool,
    tags: &mut Vec<String>,
) -> Result<Option<Message<'a>>, String> {
    use BackendMessage as M;
    let mut next = first;
    for part in parts {
        let rows = match part {
            Part::Rows { count, .. } => *count,
            _ => 1,
        };
        for at in 0..rows {
            let message = match next.take() {
                Some(message) => message?,
                None if whole => return Err(format!("its reply ends before {part:?}")),
                None => return Ok(None),
            };
            let fits = match (part, message) {
                (Part::ParseComplete, M::ParseComplete)
                | (Part::BindComplete, M::BindComplete)
                | (Part::NoData, M::NoData)
                | (Part::Suspended, M::PortalSuspended)
                | (Part::Ready, M::ReadyForQuery(_)) => true,
                (Part::Parameters(count), M::ParameterDescription(types)) => {
                    types.types.count() == *count
                }
                (Part::Columns { op, format }, M::RowDescription(columns)) => {
                    columns.fields.len() == 3
                        && columns.fields.into_iter().all(|column| {
                            column.table_oid == *op as u32 && column.format == *format
                        })
                }
                (Part::Rows { op, first, size, format, .. }, M::DataRow(row)) => {
                    let mut columns = 0;
                    row.values.enumerate().all(|(column, found)| {
                        columns += 1;
                        found == Some(&value(column, *op, first + at, *size, *format)[..])
                    }) && columns == 3
                }
                (Part::Tag(tags_wanted), M::CommandComplete(complete)) => {
                    tags.push(complete.tag.to_owned());
                    tags_wanted.iter().any(|tag| tag == complete.tag)
                }
                _ => false,
            };
            if !fits {
                return Err(format!("instead of {part:?} (row {at}) its reply has {message:?}"));
            }
            next = messages.next();
        }
    }
    Ok(next)
}

/// The error in a block, if it is one.
pub(super) fn error_in(block: &[u8]) -> Option<ServerError> {
    match Messages(block).next() {
        Some(Ok(BackendMessage::ErrorResponse(error))) => Some(error.into()),
        _ => None,
    }
}

/// The identity that an error names.
pub(super) fn op_of(error: &ServerError) -> Option<u64> {
    error.message.strip_prefix("op=")?.split(':').next()?.parse().ok()
}

/// Whether a reply has only the answer to preparing the statement again, and nothing of the
/// statement.
pub(super) fn is_healed_alone(reply: &[u8]) -> bool {
    let mut messages = Messages(reply);
    matches!(messages.next(), Some(Ok(BackendMessage::CloseComplete)))
        && !messages.any(|message| matches!(message, Ok(BackendMessage::BindComplete)))
}

/// The messages of a block, which must be whole.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let framed = match frame(self.0, max_len) {
            Ok(Some(framed)) => framed,
            Ok(None) => {
                self.0 = &[];
                return Some(Err("its reply ends within a message".into()));
            }
            Err(violation) => {
                self.0 = &[];
                return Some(Err(violation.to_string()));
            }
        };
        self.0 = &self.0[framed.message_len()..];
        Some(BackendMessage::decode(framed).map_err(|violation| violation.to_string()))
    }
}
