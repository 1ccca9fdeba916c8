//! The protocol of a transport: bytes in, whether bytes may go out, its end. `onetrip._wire.Wire`
//! is derived from it and from `asyncio.BufferedProtocol`.

use std::cell::OnceCell;

use onetrip_client::Connection;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

use crate::core::Core;
use crate::deed::Said;
use crate::link::Link;
use crate::local::Local;
use crate::settings::pairs;

/// Bytes that are read at a time.
const ROOM: usize = 1 << 18;

/// A transport's other side.
#[pyclass(subclass, frozen, module = "onetrip._native")]
#[derive(Debug)]
pub(crate) struct Wire {
    core: Py<Core>,
    number: u32,
    now: Local<Now>,
}

#[derive(Debug, Default)]
struct Now {
    transport: Option<Py<PyAny>>,
    /// It waits for the byte that answers the question for TLS.
    answer: Option<Py<PyAny>>,
    /// The engine has a connection on it.
    is_bound: bool,
    is_over: bool,
}

/// Where all transports of this thread read to: a memoryview, and what it is of. What was read is
/// copied before anything else is read there. Another thread may read at the same time, for which an
/// event loop lets go of the interpreter, so each has a room of its own.
fn room(py: Python<'_>) -> PyResult<Room> {
    thread_local!(static ROOM_OF_ALL: OnceCell<Room> = const { OnceCell::new() });
    ROOM_OF_ALL.with(|room| {
        if let Some((view, bytes)) = room.get() {
            return Ok((view.clone_ref(py), bytes.clone_ref(py)));
        }
        let bytes = PyByteArray::new_with(py, ROOM, |_| Ok(()))?;
        let made = (PyMemoryView::from(bytes.as_any())?.unbind(), bytes.unbind());
        let (view, bytes) = room.get_or_init(|| made);
        Ok((view.clone_ref(py), bytes.clone_ref(py)))
    })
}

type Room = (Py<PyMemoryView>, Py<PyByteArray>);

#[pymethods]
impl Wire {
    #[new]
    fn new(core: Py<Core>, number: u32) -> Wire {
        Wire { core, number, now: Local::new(Now::default()) }
    }

    #[getter]
    fn transport(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.now.with(|now| now.transport.as_ref().map(|it| it.clone_ref(py)))?)
    }

    /// From now on another transport, as behind `start_tls`.
    fn connection_made(&self, transport: Py<PyAny>) -> PyResult<()> {
        let old = self.now.with(|now| now.transport.replace(transport))?;
        drop(old);
        Ok(())
    }

    fn connection_lost(&self, py: Python<'_>, error: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let (answer, _) = self.now.with(|now| {
            now.is_over = true;
            (now.answer.take(), now.transport.take())
        })?;
        if let Some(answer) = answer {
            answer.call_method1(py, intern!(py, "set"), (py.None(),))?;
        }
        let message = error.map(|error| error.to_string());
        let core = self.core.bind(py);
        Core::run(core, |state, py, now| {
            state.peer_closed(py, now, self.number, message.as_deref());
            state.tell("gone", self.number, None);
        })
    }

    fn eof_received(&self) -> bool {
        false
    }

    fn pause_writing(&self) -> PyResult<()> {
        self.core.get().state.with(|state| {
            if let Some(link) = state.links.get_mut(&self.number) {
                link.is_paused = true;
            }
        })?;
        Ok(())
    }

    fn resume_writing(&self, py: Python<'_>) -> PyResult<()> {
        Core::run(self.core.bind(py), |state, py, now| {
            if let Some(link) = state.links.get_mut(&self.number) {
                link.is_paused = false;
            }
            state.write(py, now, self.number);
        })
    }

    fn get_buffer(&self, py: Python<'_>, _hint: isize) -> PyResult<Py<PyMemoryView>> {
        Ok(room(py)?.0)
    }

    #[allow(unsafe_code)]
    fn buffer_updated(&self, py: Python<'_>, len: usize) -> PyResult<()> {
        let bytes = room(py)?.1.into_bound(py);
        let answer = self.now.with(|now| if now.is_bound { None } else { now.answer.take() })?;
        // SAFETY: nothing of Python's runs while the slice is looked at, and only this thread has
        // its room, so nobody writes to it. A bytearray with a memoryview is never resized.
        let bytes = unsafe { &bytes.as_bytes()[..len.min(ROOM)] };
        if let Some(answer) = answer {
            let bytes = PyBytes::new(py, bytes);
            answer.call_method1(py, intern!(py, "set"), (bytes,))?;
            return Ok(());
        }
        Core::run(self.core.bind(py), |state, py, now| {
            state.received(py, now, self.number, bytes);
        })
    }

    /// What comes next is not for the engine: it is told to `answer.set`, or None at the end.
    fn ask(&self, py: Python<'_>, answer: Py<PyAny>) -> PyResult<()> {
        let is_over = self.now.with(|now| {
            now.answer = Some(answer);
            now.is_over
        })?;
        if is_over { self.connection_lost(py, None) } else { Ok(()) }
    }

    /// Logs in. `settings`: those of the engine; `nonce`: 18 random bytes, none for Redis.
    #[pyo3(signature = (settings, nonce=None))]
    fn log_in(
        &self,
        py: Python<'_>,
        settings: Vec<(String, String)>,
        nonce: Option<[u8; 18]>,
    ) -> PyResult<()> {
        let settings = pairs(&settings)?;
        let transport = self.now.with(|now| {
            now.is_bound = true;
            now.transport.as_ref().map(|it| it.clone_ref(py))
        })?;
        let core = self.core.bind(py);
        let Some(transport) = transport else {
            let said = Said::Refusal("the server closed it".to_owned(), None, false);
            return Core::run(core, |state, _, _| state.tell("refused", self.number, Some(said)));
        };
        let write = transport.getattr(py, intern!(py, "write"))?;
        let now = core.get().time();
        let connection = match nonce {
            Some(nonce) => Connection::postgres(now, &settings, nonce),
            None => Connection::redis(now, &settings),
        };
        Core::run(core, |state, py, now| {
            state.links.insert(self.number, Link::new(connection, write));
            state.walk(py, now, self.number);
            state.write(py, now, self.number);
        })
    }

    /// The login came to nothing: the engine forgets it.
    fn unbind(&self, py: Python<'_>) -> PyResult<()> {
        Core::run(self.core.bind(py), |state, _, _| _ = state.links.remove(&self.number))
    }
}
