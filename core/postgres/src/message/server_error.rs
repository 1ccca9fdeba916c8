//! The owned form of ErrorResponse and NoticeResponse.

use std::borrow::Cow;
use std::fmt;

use bytes::BytesMut;

use super::error_response::{ErrorFields, field, write, write_notice};
use super::{EncodeError, ErrorResponse, NoticeResponse, may_mend};

/// An error or a notice of the server. `Display` prints `message (SQLSTATE code)` in one line, as
/// far as the server sent them; the rest is in the fields.
///
/// In texts that are not UTF-8, the invalid bytes are replaced. An error early in startup may be in
/// another encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    /// ERROR, FATAL or PANIC; for notices WARNING, NOTICE, DEBUG, INFO or LOG. Not translated since
    /// PostgreSQL 9.6.
    pub severity: String,
    /// The SQLSTATE, five letters and digits; empty if the server sent none.
    pub code: String,
    /// What happened, mostly in one line.
    pub message: String,
    /// More details, possibly with values of the user.
    pub detail: Option<String>,
    /// A hint on what to do.
    pub hint: Option<String>,
    /// The position in the text of the query, in characters from 1.
    pub position: Option<u32>,
    /// The position in `internal_query`.
    pub internal_position: Option<u32>,
    /// A query that the server generated itself, as in a PL/pgSQL function.
    pub internal_query: Option<String>,
    /// The context: a call stack, one line each.
    pub where_: Option<String>,
    /// The schema that it is about.
    pub schema: Option<String>,
    /// The table that it is about.
    pub table: Option<String>,
    /// The column that it is about.
    pub column: Option<String>,
    /// The data type that it is about.
    pub data_type: Option<String>,
    /// The constraint that it is about.
    pub constraint: Option<String>,
    /// The file of the server's source that reported it.
    pub file: Option<String>,
    /// The line of that file.
    pub line: Option<u32>,
    /// The function of the server's source that reported it.
    pub routine: Option<String>,
    /// Fields with letters that this crate does not know, in the order in which they came. Only the
    /// first 16 are kept. A field of two bytes on the wire takes 32 bytes here, so without a limit
    /// an error of 16 MiB would take 256 MiB.
    pub unknown: Vec<(u8, String)>,
}

/// How many fields with unknown letters are kept. PostgreSQL itself has 18 letters in all.
const UNKNOWN_MAX: usize = 16;

impl ServerError {
    /// Whether it ends the session: FATAL or PANIC.
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }

    /// See [`may_mend`].
    #[must_use]
    pub fn may_mend(&self) -> bool {
        may_mend(self.code.as_bytes(), self.message.as_bytes())
    }

    /// Appends it as an ErrorResponse.
    ///
    /// # Errors
    /// A NUL in a text, or more than 1 GiB.
    pub fn encode_error(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        self.with_fields(|fields| write(out, fields.iter().copied()))
    }

    /// Appends it as a NoticeResponse.
    ///
    /// # Errors
    /// A NUL in a text, or more than 1 GiB.
    pub fn encode_notice(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        self.with_fields(|fields| write_notice(out, fields.iter().copied()))
    }

    /// Lists the fields in the order of the server (send_message_to_frontend in
    /// utils/error/elog.c).
    fn with_fields<T>(&self, then: impl FnOnce(&[(u8, &[u8])]) -> T) -> T {
        let numbers = [self.position, self.internal_position, self.line]
            .map(|number| number.map(|number| number.to_string()));
        let [position, internal_position, line] = &numbers;
        let mut fields = vec![
            (field::SEVERITY, self.severity.as_bytes()),
            (field::SEVERITY_NONLOCALIZED, self.severity.as_bytes()),
            (field::CODE, self.code.as_bytes()),
            (field::MESSAGE, self.message.as_bytes()),
        ];
        let optional = [
            (field::DETAIL, &self.detail),
            (field::HINT, &self.hint),
            (field::WHERE, &self.where_),
            (field::SCHEMA, &self.schema),
            (field::TABLE, &self.table),
            (field::COLUMN, &self.column),
            (field::DATA_TYPE, &self.data_type),
            (field::CONSTRAINT, &self.constraint),
            (field::POSITION, position),
            (field::INTERNAL_POSITION, internal_position),
            (field::INTERNAL_QUERY, &self.internal_query),
            (field::FILE, &self.file),
            (field::LINE, line),
            (field::ROUTINE, &self.routine),
        ];
        fields.extend(
            optional
                .iter()
                .filter_map(|(letter, text)| text.as_ref().map(|text| (*letter, text.as_bytes()))),
        );
        fields.extend(self.unknown.iter().map(|(letter, text)| (*letter, text.as_bytes())));
        then(&fields)
    }

    fn set(&mut self, letter: u8, value: &[u8]) {
        let text = String::from_utf8_lossy(value).into_owned();
        let slot = match letter {
            // The untranslated severity is preferred, wherever it is in the list.
            field::SEVERITY if !self.severity.is_empty() => return,
            field::SEVERITY | field::SEVERITY_NONLOCALIZED => return self.severity = text,
            field::CODE => return self.code = text,
            field::MESSAGE => return self.message = text,
            field::POSITION => return self.position = text.parse().ok(),
            field::INTERNAL_POSITION => return self.internal_position = text.parse().ok(),
            field::LINE => return self.line = text.parse().ok(),
            field::DETAIL => &mut self.detail,
            field::HINT => &mut self.hint,
            field::INTERNAL_QUERY => &mut self.internal_query,
            field::WHERE => &mut self.where_,
            field::SCHEMA => &mut self.schema,
            field::TABLE => &mut self.table,
            field::COLUMN => &mut self.column,
            field::DATA_TYPE => &mut self.data_type,
            field::CONSTRAINT => &mut self.constraint,
            field::FILE => &mut self.file,
            field::ROUTINE => &mut self.routine,
            _ if self.unknown.len() < UNKNOWN_MAX => return self.unknown.push((letter, text)),
            _ => return,
        };
        *slot = Some(text);
    }
}

impl From<ErrorFields<'_>> for ServerError {
    fn from(fields: ErrorFields<'_>) -> Self {
        let mut error = ServerError::default();
        for (letter, value) in fields {
            error.set(letter, value);
        }
        error
    }
}

impl From<ErrorResponse<'_>> for ServerError {
    fn from(response: ErrorResponse<'_>) -> Self {
        response.fields.into()
    }
}

impl From<NoticeResponse<'_>> for ServerError {
    fn from(response: NoticeResponse<'_>) -> Self {
        response.fields.into()
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = match self.message.as_str() {
            "" => "the server gave no reason".into(),
            message => one_line(message),
        };
        match self.code.as_str() {
            "" => f.write_str(&message),
            code => write!(f, "{message} (SQLSTATE {code})"),
        }
    }
}

/// A text in one line: what a function of the user's raises may have several.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(['\n', '\r']) {
        return text.into();
    }
    let lines = text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ").into()
}

impl std::error::Error for ServerError {}
