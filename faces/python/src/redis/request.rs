//! A command as it is sent, or a list of commands that run as one.

use std::sync::Arc;

use bytes::BytesMut;
use onetrip_abi::completion::outcome;
use onetrip_abi::host::Commands;
use onetrip_engine::Outcome;
use onetrip_redis::protocol::outcome_of_frame;
use onetrip_redis::{Command, Place, Reply};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::cluster::Router;
use super::encode::arguments;
use super::shape::Shape;
use crate::call::Call;
use crate::failure::Failure;

/// A command by its name, and what becomes of its reply. Made once for each method.
#[pyclass(frozen, module = "onetrip._native")]
#[derive(Debug)]
pub(crate) struct Spec {
    pub(super) name: Arc<str>,
    pub(super) shape: Shape,
}

#[pymethods]
impl Spec {
    #[new]
    #[pyo3(signature = (name, shape=""))]
    fn new(name: &str, shape: &str) -> PyResult<Spec> {
        let words: Vec<_> = name.split_whitespace().map(str::to_uppercase).collect();
        if words.is_empty() {
            return Err(PyTypeError::new_err("a command has a name"));
        }
        let shape = Shape::of(shape)
            .ok_or_else(|| PyTypeError::new_err(format!("there is no shape {shape}")))?;
        Ok(Spec { name: words.join(" ").into(), shape })
    }
}

impl Spec {
    /// The command with its arguments, or why it can't be sent.
    pub(super) fn command(&self, args: &Bound<'_, PyTuple>) -> Result<Command, String> {
        let mut command = Command::new(&self.name);
        arguments(&mut command, &self.name, args)?;
        Ok(command)
    }
}

/// What a call of Redis sends.
#[derive(Debug)]
pub(crate) struct Request {
    pub(super) name: Arc<str>,
    /// The text of a script, and the commands behind it.
    pub(super) bytes: BytesMut,
    pub(super) text_len: usize,
    /// How many replies come; 0 for one, whose error ends it.
    pub(super) replies: u32,
    pub(super) flags: u32,
    pub(super) shape: Shape,
    /// Replies have bytes in place of texts.
    pub(super) raw: bool,
    /// Its effects before an error remain.
    pub(super) leaves: bool,
    /// It has a connection to itself.
    pub(crate) is_own: bool,
    /// The commands of a list.
    pub(super) parts: Vec<Py<Call>>,
    /// Nobody awaits it but the router of a cluster.
    pub(super) flight: Option<Flight>,
}

/// What the router of a cluster has sent.
#[derive(Debug)]
pub(super) enum Flight {
    Sent {
        router: Py<Router>,
        token: u32,
        number: u32,
        is_asking: bool,
    },
    /// The question for the topology, and who is asked.
    Topology {
        router: Py<Router>,
        host: String,
        port: u16,
    },
}

impl Request {
    pub(super) fn new(spec: &Spec, command: &Command, raw: bool) -> Request {
        let known = onetrip_redis::Spec::of(command);
        let leaves = known.is_none_or(onetrip_redis::Spec::may_leave_effects);
        let mut bytes = BytesMut::new();
        command.encode(&mut bytes);
        Request {
            name: spec.name.clone(),
            bytes,
            text_len: 0,
            replies: 0,
            flags: if leaves { onetrip_abi::host::commands_flag::LEAVES } else { 0 },
            shape: spec.shape,
            raw,
            leaves,
            is_own: place(command) == Place::Own,
            parts: Vec::new(),
            flight: None,
        }
    }

    pub(super) fn of_flight(name: &str, bytes: BytesMut, flight: Flight) -> Request {
        Request {
            name: name.into(),
            bytes,
            text_len: 0,
            replies: 0,
            flags: 0,
            shape: Shape::Nothing,
            raw: false,
            leaves: false,
            is_own: false,
            parts: Vec::new(),
            flight: Some(flight),
        }
    }

    pub(crate) fn is_flight(&self) -> bool {
        self.flight.is_some()
    }

    pub(crate) fn commands(&self) -> Option<Commands<'_>> {
        Commands::read(self.flags, self.replies, &self.bytes, self.text_len)
    }

    /// Whether it is a list, whose commands have calls of their own.
    pub(crate) fn is_list(&self) -> bool {
        self.flags & onetrip_abi::host::commands_flag::ATOMIC != 0
    }

    pub(crate) fn parts(&self) -> &[Py<Call>] {
        &self.parts
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

pub(super) fn place(command: &Command) -> Place {
    onetrip_redis::Spec::of(command).map_or(Place::Shared, |spec| spec.place(command))
}

/// What an error of the server means for its command; any other failure stays as it is.
pub(crate) fn refusal(request: &Request, failure: Failure) -> Failure {
    if request.is_flight() {
        return failure;
    }
    let Failure::Server { block, outcome, .. } = failure else { return failure };
    answer(&request.name, &block, outcome)
}

/// An error reply to this command.
pub(super) fn answer_of(request: &Request, frame: &[u8]) -> Failure {
    let outcome = outcome_of_frame(frame, request.leaves);
    answer(&request.name, frame, code(outcome))
}

pub(super) fn code(outcome: Outcome) -> u32 {
    match outcome {
        Outcome::NotSent => outcome::NOT_SENT,
        Outcome::Rejected => outcome::REJECTED,
        Outcome::Applied => outcome::APPLIED,
        Outcome::Unknown => outcome::UNKNOWN,
    }
}

/// An error reply.
pub(super) fn answer(name: &Arc<str>, frame: &[u8], outcome: u32) -> Failure {
    match Reply::read(frame) {
        Ok((Reply::Error(error), _)) => Failure::Answer {
            command: name.clone(),
            text: String::from_utf8_lossy(error.text()).into_owned(),
            outcome,
        },
        _ => Failure::said("protocol", outcome::UNKNOWN, "an error of the server can't be read"),
    }
}
