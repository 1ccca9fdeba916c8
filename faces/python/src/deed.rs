//! What is to be done once the state of a client is borrowed no more: then code of Python's may
//! run.

use std::time::Duration;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::Call;
use crate::failure::Failure;

/// What is to be done once the state is borrowed no more.
#[derive(Debug)]
pub(crate) enum Deed {
    /// A future is done.
    Wake(Py<PyAny>),
    /// Bytes go to the transport of a connection, by its method.
    Write(u32, Py<PyAny>, Py<PyBytes>),
    /// The host is called by this name, with the number of a connection, or 0, and what else there
    /// is.
    Tell(&'static str, u32, Option<Said>),
    /// A question of the client's own has ended.
    Step(Py<Call>),
    /// A call whose connection was lost is sent again.
    Begin(Py<Call>),
    /// A call was answered on this connection: its rows are looked at before they are read.
    Check(Py<Call>, u32),
    /// A read does what it does next; or has failed on a replica.
    Move(Py<Call>, Option<Failure>),
    /// What waits on a connection may go on.
    Advance(u32),
    /// A part of a long result has come.
    Read(Py<Call>),
    /// It is of no use. Code of Python's may run as it is freed.
    Drop(Py<PyAny>),
    /// Bytes are written when this turn is over.
    Schedule,
    /// It is to be told what time it is.
    Arm(Duration),
}

/// What a host is told.
#[derive(Debug)]
pub(crate) enum Said {
    Bytes(Bytes),
    Flag(bool),
    /// Why a login was refused: as text, and as the server's message if it was the server.
    /// Whether time may mend it is said by the flag, of a server without such a message.
    Refusal(String, Option<Bytes>, bool),
}
