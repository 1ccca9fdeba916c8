//! Why a call failed, until somebody asks for it.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use onetrip_client::completion::{end, outcome, outcome_of};
use onetrip_client::postgres::Refused;
use onetrip_engine::Outcome;
use onetrip_postgres::client::said::{self, Said};
use onetrip_postgres::client::types::attributes::attributes_changed;
use onetrip_postgres::client::{first_use, migrated};
use onetrip_postgres::message::ErrorResponse;
use onetrip_postgres::message::error_response::field;
use onetrip_postgres::outdated::means_stale;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::messages::Messages;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The server said so; and what was said on the way.
    Server { about: Cow<'static, str>, block: Bytes, outcome: u32 },
    /// Redis said so.
    Answer { command: Arc<str>, text: String, outcome: u32 },
    /// This side does.
    Said { code: &'static str, outcome: u32, message: String, cause: Cause },
    /// Something of Python's.
    Raised(PyErr),
}

/// What is behind what this side says.
#[derive(Debug)]
pub(crate) enum Cause {
    Nothing,
    Raised(Py<PyAny>),
    /// What the server said.
    Server(Bytes),
}

impl Cause {
    fn clone_ref(&self, py: Python<'_>) -> Cause {
        match self {
            Cause::Nothing => Cause::Nothing,
            Cause::Raised(error) => Cause::Raised(error.clone_ref(py)),
            Cause::Server(block) => Cause::Server(block.clone()),
        }
    }

    fn raised(self, py: Python<'_>, outcome: u32) -> Option<Py<PyAny>> {
        match self {
            Cause::Nothing => None,
            Cause::Raised(error) => Some(error),
            Cause::Server(block) => {
                let about = Cow::Borrowed("");
                let error = Failure::Server { about, block, outcome }.raised(py);
                Some(error.into_value(py).into_any())
            }
        }
    }
}

impl Failure {
    pub(crate) fn said(code: &'static str, outcome: u32, message: impl Into<String>) -> Failure {
        Failure::Said { code, outcome, message: message.into(), cause: Cause::Nothing }
    }

    /// What every language says of it.
    fn told(said: Said, outcome: u32) -> Failure {
        Failure::said(said.code, outcome, said.text)
    }

    /// Of what was undone with its transaction.
    pub(crate) fn rolled_back() -> Failure {
        Failure::told(said::ROLLED_BACK, outcome::REJECTED)
    }

    /// The same for another, of which this is known.
    pub(crate) fn again(&self, py: Python<'_>, outcome: u32) -> Failure {
        match self {
            Failure::Server { about, block, .. } => {
                Failure::Server { about: about.clone(), block: block.clone(), outcome }
            }
            Failure::Answer { command, text, .. } => {
                Failure::Answer { command: command.clone(), text: text.clone(), outcome }
            }
            Failure::Said { code, message, cause, .. } => {
                let cause = cause.clone_ref(py);
                Failure::Said { code, outcome, message: message.clone(), cause }
            }
            Failure::Raised(error) => Failure::Raised(error.clone_ref(py)),
        }
    }

    /// The failure of a statement that was completed, and undone for this reason.
    pub(crate) fn undoing(&self, py: Python<'_>) -> Failure {
        match self {
            Failure::Server { block, outcome: outcome::REJECTED, .. } => {
                let Said { code, text } = said::ROLLED_BACK;
                let cause = Cause::Server(block.clone());
                let outcome = outcome::REJECTED;
                Failure::Said { code, outcome, message: text.to_owned(), cause }
            }
            _ if self.outcome() == outcome::REJECTED => Failure::rolled_back(),
            _ => self.again(py, self.outcome()),
        }
    }

    /// The same of what was sent again, where it may have run before.
    pub(crate) fn after(mut self, may_have_run: bool) -> Failure {
        let over_all = number(self.known().over_attempts(may_have_run));
        match &mut self {
            Failure::Server { outcome, .. }
            | Failure::Answer { outcome, .. }
            | Failure::Said { outcome, .. } => *outcome = over_all,
            Failure::Raised(_) => {}
        }
        self
    }

    /// What the end of a request means; none where it did not fail. `lost`: what became of its
    /// connection.
    pub(crate) fn of_end(how: u32, block: &Bytes, lost: &Loss) -> Option<Failure> {
        let (how, outcome) = (how & 0xff, how >> 8);
        if let Some(said) = end::said(how, outcome) {
            return Some(Failure::told(said, outcome));
        }
        let about = match how {
            end::COMPLETE | end::PROVISIONAL => return None,
            end::CLOSED => return Some(lost.failure(outcome)),
            end::BEGIN => "BEGIN failed: ",
            end::SAVEPOINT => "SAVEPOINT failed: ",
            end::ROLLED_BACK => {
                let text = block.split(|byte| *byte == 0).next().unwrap_or_default();
                let mut message = String::from_utf8_lossy(text).into_owned();
                let behind = block.slice(block.len().min(text.len() + 1)..);
                let mut cause = Cause::Nothing;
                if let Some((_, body)) = (Messages { rest: &behind }).next()
                    && let Ok(error) = ErrorResponse::decode(body)
                {
                    let error = onetrip_postgres::message::ServerError::from(error);
                    message += &format!(": {error}");
                    cause = Cause::Server(behind);
                }
                return Some(Failure::Said { code: "rolled_back", outcome, message, cause });
            }
            _ => "",
        };
        Some(Failure::Server { about: about.into(), block: block.clone(), outcome })
    }

    /// Nothing of it was sent.
    pub(crate) fn refused(refused: Refused, lost: &Loss) -> Failure {
        let said = match refused {
            Refused::Closed => return lost.failure(outcome::NOT_SENT),
            Refused::Full => said::QUEUE_FULL,
            Refused::Malformed => said::UNENCODABLE,
            Refused::NameTaken => said::NAME_TAKEN,
            Refused::NoMemory => said::NO_MEMORY,
            Refused::TooLong => said::TOO_LONG,
        };
        Failure::told(said, outcome::NOT_SENT)
    }

    /// The same, said of this statement of a pipeline; they count from 0 here.
    pub(crate) fn of_statement(mut self, number: usize) -> Failure {
        if let Failure::Server { about, .. } = &mut self {
            *about = format!("statement {} of the pipeline: {about}", number + 1).into();
        }
        self
    }

    /// The same, with these words in front.
    pub(crate) fn told_first(mut self, words: &'static str) -> Failure {
        if let Failure::Server { about, .. } = &mut self {
            *about = words.into();
        }
        self
    }

    pub(crate) fn outcome(&self) -> u32 {
        match self {
            Failure::Server { outcome, .. }
            | Failure::Answer { outcome, .. }
            | Failure::Said { outcome, .. } => *outcome,
            Failure::Raised(_) => outcome::NOT_SENT,
        }
    }

    /// The same as the layer below has it.
    pub(crate) fn known(&self) -> Outcome {
        outcome_of(self.outcome())
    }

    /// Whether a value did not fit.
    pub(crate) fn is_about_value(&self) -> bool {
        matches!(self, Failure::Said { code: "parameter", .. })
    }

    /// Whether its connection had no room for it, so that nothing of it was sent.
    pub(crate) fn is_of_room(&self) -> bool {
        matches!(self, Failure::Said { code: "queue_full", .. })
    }

    /// Whether its connection was lost.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Failure::Said { code: "connection_lost", .. })
    }

    /// Whether all took effect, and only its reply is not kept.
    pub(crate) fn is_of_reading(&self) -> bool {
        matches!(self, Failure::Said { outcome: outcome::APPLIED, .. })
    }

    /// Whether it was skipped, since what stands in front of it has failed.
    pub(crate) fn is_aborted(&self) -> bool {
        matches!(self, Failure::Said { code: "aborted", .. })
    }

    /// Whether a deadline or a cancel of its caller's ended it, which holds everywhere.
    pub(crate) fn is_callers(&self) -> bool {
        matches!(self, Failure::Said { code: "timeout" | "wait_timeout" | "cancelled", .. })
    }

    /// Whether its deadline has passed.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Failure::Said { code: "timeout", .. })
    }

    /// The SQLSTATE, where the server said it.
    pub(crate) fn sqlstate(&self) -> Option<&str> {
        self.field(field::CODE)
    }

    /// Whether the server can't use the statement that it has, which has not started.
    pub(crate) fn is_stale(&self) -> bool {
        means_stale(self.sqlstate().map(str::as_bytes), self.routine().map(str::as_bytes))
    }

    /// Whether it says that the columns of a statement have changed.
    pub(crate) fn columns_changed(&self) -> bool {
        migrated::columns_changed(self.sqlstate(), self.routine())
    }

    pub(crate) fn shows_change(&self) -> bool {
        migrated::shows_change(self.sqlstate(), self.routine())
            || self
                .field(field::MESSAGE)
                .is_some_and(|message| attributes_changed(self.sqlstate(), message))
    }

    /// Whether it ends what was learned of all texts, if it is of one that was described before.
    pub(crate) fn ends_all(&self) -> bool {
        let has_context = self.field(field::WHERE).is_some();
        migrated::ends_all(self.sqlstate(), self.routine(), has_context)
    }

    /// Whether what was learned of its text may be the cause.
    pub(crate) fn may_be_outdated(&self) -> bool {
        first_use::may_be_outdated(self.sqlstate(), self.routine()) || self.is_stale()
    }

    /// The function of the server that reported it.
    pub(crate) fn routine(&self) -> Option<&str> {
        self.field(field::ROUTINE)
    }

    fn field(&self, letter: u8) -> Option<&str> {
        let Failure::Server { block, .. } = self else { return None };
        let (_, body) = (Messages { rest: block }).next()?;
        let fields = ErrorResponse::decode(body).ok()?.fields;
        str::from_utf8(fields.value(letter)?).ok()
    }

    /// As Python raises it.
    pub(crate) fn raised(self, py: Python<'_>) -> PyErr {
        match self {
            Failure::Raised(error) => error,
            Failure::Answer { command, text, outcome } => {
                crate::python::answer(py, (&command, word(outcome), &text))
            }
            Failure::Said { code, outcome, message, cause } => {
                let cause = cause.raised(py, outcome);
                crate::python::error(py, (code, word(outcome), &message), None, cause)
            }
            Failure::Server { about, block, outcome } => {
                let fields = fields_of(py, &block);
                crate::python::error(py, ("server", word(outcome), &about), Some(fields), None)
            }
        }
    }
}

/// The fields of an ErrorResponse or NoticeResponse, by their letters.
pub(crate) fn fields_of<'py>(py: Python<'py>, block: &[u8]) -> Bound<'py, PyAny> {
    let fields = PyDict::new(py);
    if let Some((_, body)) = (Messages { rest: block }).next()
        && let Ok(error) = ErrorResponse::decode(body)
    {
        for (letter, value) in error.fields {
            let name = char::from(letter).to_string();
            let _ = fields.set_item(name, String::from_utf8_lossy(value));
        }
    }
    fields.into_any()
}

/// A text in one line.
#[pyfunction]
pub(crate) fn one_line(text: &str) -> String {
    onetrip_postgres::message::one_line(text).into_owned()
}

/// The same for Python.
#[pyfunction]
pub(crate) fn fields<'py>(py: Python<'py>, block: &[u8]) -> Bound<'py, PyAny> {
    fields_of(py, block)
}

/// What became of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    message: String,
    /// What the server said last, if it did.
    said: Bytes,
}

impl Loss {
    pub(crate) fn lost(message: &str) -> Loss {
        Loss { message: format!("the connection was lost: {message}"), said: Bytes::new() }
    }

    /// The server said why.
    pub(crate) fn told(block: &Bytes) -> Loss {
        let body = (Messages { rest: block }).next().map(|(_, body)| body);
        let error = body.and_then(|body| ErrorResponse::decode(body).ok());
        let error = error.map(onetrip_postgres::message::ServerError::from);
        let message = error.map_or_else(String::new, |error| error.to_string());
        Loss { said: block.clone(), ..Loss::lost(&message) }
    }

    /// Why, in one line.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What a request ends with that was on it.
    pub(crate) fn failure(&self, outcome: u32) -> Failure {
        let cause = match self.said.is_empty() {
            true => Cause::Nothing,
            false => Cause::Server(self.said.clone()),
        };
        let message = self.message.clone();
        Failure::Said { code: "connection_lost", outcome, message, cause }
    }
}

/// What is known of a request, as the layer below numbers it.
pub(crate) fn number(outcome: Outcome) -> u32 {
    match outcome {
        Outcome::NotSent => outcome::NOT_SENT,
        Outcome::Rejected => outcome::REJECTED,
        Outcome::Applied => outcome::APPLIED,
        Outcome::Unknown => outcome::UNKNOWN,
    }
}

pub(crate) fn word(number: u32) -> &'static str {
    match number {
        outcome::NOT_SENT => "NotSent",
        outcome::REJECTED => "Rejected",
        outcome::APPLIED => "Applied",
        _ => "Unknown",
    }
}
