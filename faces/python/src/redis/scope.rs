//! Where commands go: to the connection that all share, to one of their own, onto that of a
//! session, or into a list.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use onetrip_abi::host::commands_flag;
use onetrip_redis::{Command, Place};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::cluster::Router;
use super::request::{Request, Spec, place};
use super::shape::Shape;
use crate::call::{Call, Want, unsent};
use crate::core::Core;
use crate::failure::Failure;

/// Where commands go.
#[pyclass(subclass, module = "onetrip._native")]
#[derive(Debug)]
pub(crate) struct RedisScope {
    /// The shared connection.
    shared: Py<Core>,
    /// The router of a cluster, in place of both.
    router: Option<Py<Router>>,
    /// Connections that one caller has.
    own: Py<Core>,
    /// That of a session; 0 for none.
    number: u32,
    raw: bool,
    /// Commands that run as one.
    list: Option<Vec<Py<Call>>>,
    /// Nothing goes there any more: why.
    over: Option<String>,
    /// The session was changed, so nobody else may have its connection.
    is_changed: bool,
    is_watching: bool,
}

impl RedisScope {
    fn call<'py>(&self, py: Python<'py>, want: Want, is_own: bool) -> PyResult<Bound<'py, Call>> {
        let is_home = !is_own || (self.router.is_some() && self.number == 0);
        let core = if is_home { &self.shared } else { &self.own };
        // What another thread has made must not be kept.
        core.get().state.with(|_| ())?;
        Bound::new(py, Call::new(core.clone_ref(py).into_any(), want, None, 0, None))
    }

    /// A call that was not to be.
    fn failed<'py>(&self, py: Python<'py>, failure: Failure) -> PyResult<Bound<'py, Call>> {
        let call = self.call(py, Want::Checkout, false)?;
        Core::run(self.shared.bind(py), |state, py, _| state.fail(py, &call, failure))?;
        Ok(call)
    }

    fn refused(&self, name: &str, place: Place) -> Option<Failure> {
        if let Some(message) = &self.over {
            return Some(unsent("over", message.as_str()));
        }
        match place {
            Place::Refused(advice) => {
                Some(unsent("wrong_place", format!("{name} can't be sent as a command: {advice}")))
            }
            Place::Session(advice) if self.number == 0 || self.list.is_some() => Some(unsent(
                "wrong_place",
                format!("{name} can't go over the shared connection: {advice}"),
            )),
            Place::Own if self.list.is_some() => Some(unsent(
                "wrong_place",
                format!("{name} does not wait in a list that runs as one: send it by itself"),
            )),
            _ => None,
        }
    }

    /// What a command does to the connection of its session.
    fn note(&mut self, name: &str, place: Place, is_known: bool) {
        match name {
            "WATCH" => self.is_watching = true,
            "UNWATCH" => self.is_watching = false,
            "WAIT" | "WAITAOF" => {}
            _ => self.is_changed |= !is_known || matches!(place, Place::Session(_)),
        }
    }

    fn submit<'py>(&mut self, py: Python<'py>, request: Request) -> PyResult<Bound<'py, Call>> {
        let is_own = self.number != 0 || request.is_own;
        let call = self.call(py, Want::Redis(Box::new(request)), is_own)?;
        if let Some(list) = &mut self.list {
            list.push(call.clone().unbind());
            return Ok(call);
        }
        self.send(py, &call, is_own)?;
        Ok(call)
    }

    fn send(&self, py: Python<'_>, call: &Bound<'_, Call>, is_own: bool) -> PyResult<()> {
        if let Some(router) = self.router.as_ref().filter(|_| self.number == 0) {
            return Router::submit(router.bind(py), call);
        }
        match (self.number, is_own) {
            (0, false) => Core::run(self.shared.bind(py), |state, py, now| {
                state.place(py, now, call);
            }),
            (0, true) => Core::run(self.own.bind(py), |state, py, now| {
                state.checkout(py, now, call);
            }),
            (number, _) => {
                Core::run(self.own.bind(py), |state, py, _| state.enqueue(py, number, call))
            }
        }
    }
}

#[pymethods]
impl RedisScope {
    #[new]
    #[pyo3(signature = (shared, own, number=0, raw=false, list=false, router=None))]
    fn new(
        shared: Py<Core>,
        own: Py<Core>,
        number: u32,
        raw: bool,
        list: bool,
        router: Option<Py<Router>>,
    ) -> RedisScope {
        RedisScope {
            router,
            shared,
            own,
            number,
            raw,
            list: list.then(Vec::new),
            over: None,
            is_changed: false,
            is_watching: false,
        }
    }

    /// Sends a command.
    #[pyo3(signature = (spec, /, *args))]
    fn _send<'py>(
        &mut self,
        spec: &Bound<'py, Spec>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, Call>> {
        let (py, spec) = (spec.py(), spec.get());
        let command = match spec.command(args) {
            Ok(command) => command,
            Err(why) => return self.failed(py, unsent("parameter", why)),
        };
        let (place, is_known) = (place(&command), onetrip_redis::Spec::of(&command).is_some());
        if let Some(failure) = self.refused(&spec.name, place) {
            return self.failed(py, failure);
        }
        if self.number != 0 {
            self.note(&spec.name, place, is_known);
        }
        let request = Request::new(spec, &command, self.raw);
        self.submit(py, request)
    }

    /// Calls a script: by its hash where the server has it, by its text otherwise.
    fn _script<'py>(
        &mut self,
        text: &Bound<'py, pyo3::types::PyString>,
        sha: &str,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, Call>> {
        let (py, text) = (text.py(), text.to_str()?);
        let name: Arc<str> = "EVALSHA".into();
        if let Some(failure) = self.refused(&name, Place::Shared) {
            return self.failed(py, failure);
        }
        // In a list by its text: were the hash unknown, EXEC would run the others without it.
        let mut command = match self.list {
            Some(_) => Command::new("EVAL").arg(text),
            None => Command::new("EVALSHA").arg(sha),
        };
        if let Err(why) = super::encode::arguments(&mut command, &name, args) {
            return self.failed(py, unsent("parameter", why));
        }
        let spec = Spec { name, shape: Shape::Plain };
        let mut request = Request::new(&spec, &command, self.raw);
        if self.list.is_none() {
            let mut bytes = BytesMut::with_capacity(text.len() + request.bytes.len());
            bytes.put_slice(text.as_bytes());
            bytes.put_slice(&request.bytes);
            (request.bytes, request.text_len) = (bytes, text.len());
        }
        self.submit(py, request)
    }

    /// Sends a command that the server confirms once for each of these names.
    #[pyo3(signature = (spec, /, *names))]
    fn _confirm<'py>(
        &mut self,
        spec: &Bound<'py, Spec>,
        names: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, Call>> {
        let (py, spec) = (spec.py(), spec.get());
        let command = match spec.command(names) {
            Ok(command) => command,
            Err(why) => return self.failed(py, unsent("parameter", why)),
        };
        let mut request = Request::new(spec, &command, true);
        request.flags = commands_flag::CONFIRMED;
        request.replies = names.len() as u32;
        self.submit(py, request)
    }

    /// Sends the commands of a list: MULTI, the commands, EXEC.
    fn _exec<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, Call>> {
        let Some(parts) = self.list.take() else {
            return Err(PyRuntimeError::new_err("this is no list, or it was sent"));
        };
        let name: Arc<str> = "EXEC".into();
        let spec = Spec { name, shape: Shape::Nothing };
        let mut request = Request::new(&spec, &Command::new("MULTI"), false);
        for part in &parts {
            if let Want::Redis(part) = &part.get().want {
                request.bytes.extend_from_slice(&part.bytes);
            }
        }
        Command::new("EXEC").encode(&mut request.bytes);
        request.flags = commands_flag::ATOMIC;
        request.replies = parts.len() as u32 + 2;
        request.parts = parts;
        self.submit(py, request)
    }

    /// The commands of a list are not sent.
    fn _drop(&mut self, py: Python<'_>) -> PyResult<()> {
        for call in self.list.take().unwrap_or_default() {
            let failure = unsent("list_left", "its list was left by an error before it was sent");
            let core = if self.number != 0 { &self.own } else { &self.shared };
            let call = call.into_bound(py);
            Core::run(core.bind(py), |state, py, _| state.fail(py, &call, failure))?;
        }
        Ok(())
    }

    /// Nothing goes there any more.
    fn _end(&mut self, message: String) {
        self.over = Some(message);
    }

    /// Nothing is watched any more.
    fn _unwatched(&mut self) {
        self.is_watching = false;
    }

    /// The connection of a session goes back, or ends where it was changed.
    fn _release(&mut self, py: Python<'_>) -> PyResult<()> {
        let (number, spoiled) = (self.number, self.is_changed || self.is_watching);
        Core::run(self.own.bind(py), |state, py, now| {
            if spoiled {
                state.spoil(number);
            }
            state.release(py, now, number);
        })
    }
}
