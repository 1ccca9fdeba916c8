//! Where commands go: to the connection that all share, to one of their own, onto that of a
//! session, or into a list.

use std::sync::Arc;
use std::time::Duration;

use onetrip_client::redis::Packed;
use onetrip_engine::Time;
use onetrip_engine::pool::{Cause, Limits};
use onetrip_redis::client::cache::{Found, Writes};
use onetrip_redis::client::repeat::{Repeat, Repeats};
use onetrip_redis::client::session::{On, Traces, refusal};
use onetrip_redis::client::shape::Shape;
use onetrip_redis::{Command, Place, Spec as Known};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::cache::RedisCache;
use super::cluster::Router;
use super::encode::arguments;
use super::request::{Request, Spec};
use super::sentinel::Sentinel;
use crate::call::{Call, Want, unsent};
use crate::core::Core;
use crate::failure::Failure;
use crate::local::Local;

/// After so many calls that were answered from the cache one goes to the server.
const HITS_MAX: u32 = 1_000;

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
    how: How,
    /// Commands that run as one.
    list: Option<Vec<Py<Call>>>,
    /// Nothing goes there any more: why.
    over: Option<(&'static str, String)>,
    traces: Traces,
}

/// How commands are sent, and what their replies are made into.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct How {
    /// The replies that are kept, if any are, and whether its commands get them.
    cache: Option<Py<RedisCache>>,
    caches: bool,
    raw: bool,
    repeatable: bool,
    repeat_reads: bool,
    attempts_max: u32,
    /// Who knows the servers, if Sentinels do, and the connection to a replica, if there is one.
    sentinel: Option<Py<Sentinel>>,
    replica: Option<Py<Core>>,
    /// Each command has a connection of its own.
    alone: bool,
    /// The time that a command has; 0 for no limit.
    timeout_ms: u64,
}

impl RedisScope {
    fn call<'py>(&self, py: Python<'py>, want: Want, is_own: bool) -> PyResult<Bound<'py, Call>> {
        let is_home = !is_own || (self.router.is_some() && self.number == 0);
        let core = if is_home { &self.shared } else { &self.own };
        RedisScope::call_on(py, want, core)
    }

    fn call_on<'py>(py: Python<'py>, want: Want, core: &Py<Core>) -> PyResult<Bound<'py, Call>> {
        // What another thread has made must not be kept.
        core.get().check(py)?;
        Bound::new(py, Call::new(core.clone_ref(py).into_any(), want, None, 0, None))
    }

    /// A call that was not to be.
    fn failed<'py>(&self, py: Python<'py>, failure: Failure) -> PyResult<Bound<'py, Call>> {
        let call = self.call(py, Want::Checkout, false)?;
        Core::run(self.shared.bind(py), |state, py, _| state.fail(py, &call, failure))?;
        Ok(call)
    }

    /// Why a command can't go there.
    fn refused(&self, name: &str, place: Place) -> Option<Failure> {
        if let Some((code, message)) = &self.over {
            return Some(unsent(code, message.as_str()));
        }
        let on = match (&self.list, self.number) {
            (Some(_), _) => On::List,
            (None, 0) => On::Client,
            (None, _) => On::Session,
        };
        refusal(name, place, on).map(|why| unsent("wrong_place", why))
    }

    /// Sends a command, as `pack` has it. `front`: its first argument. `is_free`: it may go anywhere.
    fn send_as<'py>(
        &mut self,
        py: Python<'py>,
        (spec, front): (&Spec, Option<&str>),
        args: &Bound<'py, PyTuple>,
        is_free: bool,
        pack: impl FnOnce(Option<&'static Known>, &Command) -> Packed,
    ) -> PyResult<Bound<'py, Call>> {
        let _turn = self.shared.get().enter(py)?;
        let mut command = Command::new(&spec.name);
        front.into_iter().for_each(|front| command.push(front.as_bytes()));
        if let Err(why) = arguments(&mut command, &spec.name, args) {
            return self.failed(py, unsent("parameter", why));
        }
        let known = Known::of(&command);
        let place = known.map_or(Place::Shared, |known| known.place(&command));
        if let Some(failure) = self.refused(&spec.name, place).filter(|_| !is_free) {
            return self.failed(py, failure);
        }
        let number = self.number;
        if number != 0 && self.traces.note(known, &command) {
            Core::run(self.own.bind(py), |state, _, _| state.send_scripts_as_texts(number))?;
        }
        let mut request = self.request(py, &spec.name, pack(known, &command));
        request.shape = spec.shape;
        request.blocks = place == Place::Own;
        request.is_own |= request.blocks;
        if number == 0 && self.list.is_none() {
            let How { repeatable: all, repeat_reads: reads, attempts_max, .. } = self.how;
            let seed = self.shared.get().time().since(Time::ZERO).as_nanos() as u64;
            let repeats = Repeats { all, reads, attempts_max };
            let repeat = repeats.of(known, seed);
            let unsent = || self.how.sentinel.as_ref().map(|_| Repeat::unsent(seed));
            request.repeat = repeat.or_else(unsent).map(Local::new);
            request.only_reads = !request.is_own && known.is_some_and(Known::is_readonly);
        }
        if request.cache.is_some() {
            request.writes = Writes::of(&command);
            let is_shared = number == 0 && self.list.is_none() && !request.is_own;
            // What is not kept is not asked of the master for the cache's sake.
            let is_on = || request.cache.as_ref().is_some_and(|cache| cache.get().is_on());
            let is_shared = is_shared && (self.replica(&request).is_none() || is_on());
            if is_shared && self.how.caches && known.is_some_and(Known::is_cacheable) {
                return self.look_up(py, (&command, known), request);
            }
        }
        self.submit(py, request)
    }

    /// What a command sends, with a deadline from now on.
    fn request(&self, py: Python<'_>, name: &Arc<str>, packed: Packed) -> Request {
        let How { raw, alone: is_own, timeout_ms, .. } = self.how;
        let after = |ms| self.shared.get().time().after(Duration::from_millis(ms));
        let deadline = Some(timeout_ms).filter(|it| *it > 0).map(after);
        let cache = self.how.cache.as_ref().map(|cache| cache.clone_ref(py));
        let name = name.clone();
        Request { name, packed, raw, is_own, deadline, cache, ..Request::default() }
    }

    /// Answers a command from the cache, or with the reply to the same one of another caller, or
    /// sends it.
    fn look_up<'py>(
        &mut self,
        py: Python<'py>,
        (command, known): (&Command, Option<&'static Known>),
        request: Request,
    ) -> PyResult<Bound<'py, Call>> {
        let (cache, deadline) =
            (self.how.cache.as_ref().map(|it| it.clone_ref(py)), request.deadline);
        let call = self.call(py, Want::Redis(Box::new(request)), false)?;
        let join = || call.clone().unbind();
        let found = cache.map_or(Found::Nothing, |it| it.get().look_up(command, known, join));
        Core::run(self.shared.bind(py), |state, py, now| match found {
            // A task that is answered here again and again lets the event loop have its turn, which
            // reads that what is kept is not true any more.
            Found::Hit(_) if state.hits >= HITS_MAX => state.place(py, now, &call),
            Found::Hit(reply) => {
                state.hits += 1;
                let _ = call.get().now.with(|it| it.blocks = vec![reply]);
                state.finish(py, call.as_unbound(), None);
            }
            Found::Joined => state.wait(now, deadline, &call),
            Found::Fetch(fetch) => {
                if let Want::Redis(request) = &call.get().want {
                    let _ = request.fetch.set(fetch);
                }
                state.place(py, now, &call);
            }
            Found::Nothing => state.place(py, now, &call),
        })?;
        Ok(call)
    }

    /// The connection to a replica, where that answers this command.
    fn replica(&self, request: &Request) -> Option<&Py<Core>> {
        let sentinel = self.how.sentinel.as_ref()?;
        self.how.replica.as_ref().filter(|_| sentinel.get().is_for_replica(request.only_reads))
    }

    fn submit<'py>(&mut self, py: Python<'py>, request: Request) -> PyResult<Bound<'py, Call>> {
        let is_own = self.number != 0 || request.is_own;
        if let (Some(cache), None) = (&request.cache, &self.list) {
            cache.get().wrote(&request.writes);
        }
        if let Some(replica) = self.replica(&request) {
            let call = RedisScope::call_on(py, Want::Redis(Box::new(request)), replica)?;
            Core::run(replica.bind(py), |state, py, now| state.place(py, now, &call))?;
            return Ok(call);
        }
        let call = self.call(py, Want::Redis(Box::new(request)), is_own)?;
        if let Some(list) = &mut self.list {
            call.get().now.with(|it| it.is_kept = true)?;
            list.push(call.clone().unbind());
            return Ok(call);
        }
        let core = if is_own { &self.own } else { &self.shared };
        match (&self.router, self.number) {
            (Some(router), 0) => Router::submit(router.bind(py), &call)?,
            (_, number) => Core::run(core.bind(py), |state, py, now| match number {
                0 if is_own => state.checkout(py, now, &call),
                0 => state.place(py, now, &call),
                number => state.enqueue(py, now, number, &call),
            })?,
        }
        Ok(call)
    }
}

#[pymethods]
impl RedisScope {
    #[new]
    #[pyo3(signature = (shared, own, how, number=0, list=false, router=None))]
    fn new(
        shared: Py<Core>,
        own: Py<Core>,
        how: How,
        number: u32,
        list: bool,
        router: Option<Py<Router>>,
    ) -> RedisScope {
        let (list, traces) = (list.then(Vec::new), Traces::default());
        RedisScope { shared, router, own, number, how, list, over: None, traces }
    }

    /// Sends a command.
    #[pyo3(signature = (spec, /, *args))]
    fn _send<'py>(
        &mut self,
        spec: &Bound<'py, Spec>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, Call>> {
        self.send_as(spec.py(), (spec.get(), None), args, false, Packed::command)
    }

    /// Calls a script: by its hash where the server has it, by its text otherwise.
    fn _script<'py>(
        &mut self,
        text: &Bound<'py, PyString>,
        sha: &str,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, Call>> {
        let (py, text) = (text.py(), text.to_str()?);
        // In a list by its text: were the hash unknown, EXEC would run the others without it.
        let (name, front) = if self.list.is_some() { ("EVAL", text) } else { ("EVALSHA", sha) };
        let spec = Spec { name: name.into(), shape: Shape::Plain };
        self.send_as(py, (&spec, Some(front)), args, false, |known, command| match name {
            "EVAL" => Packed::command(known, command),
            _ => Packed::script(text.as_bytes(), command),
        })
    }

    /// Sends a command that the server confirms once for each of these names.
    #[pyo3(signature = (spec, /, *names))]
    fn _confirm<'py>(
        &mut self,
        spec: &Bound<'py, Spec>,
        names: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, Call>> {
        let pushes = names.len() as u32;
        let pack = |_, command: &Command| Packed::confirmed(command, pushes);
        self.send_as(spec.py(), (spec.get(), None), names, true, pack)
    }

    /// Sends the commands of a list: MULTI, the commands, EXEC.
    fn _exec<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, Call>> {
        let Some(parts) = self.list.take() else {
            return Err(PyRuntimeError::new_err("this is no list, or it was sent"));
        };
        let packed = Packed::list(parts.iter().filter_map(|part| match &part.get().want {
            Want::Redis(request) => Some(&request.packed),
            _ => None,
        }));
        let mut writes = Writes::Nothing;
        for part in &parts {
            part.get().now.with(|it| it.is_kept = false)?;
            if let Want::Redis(request) = &part.get().want {
                writes.extend(request.writes.clone());
            }
        }
        let request = self.request(py, &"EXEC".into(), packed);
        self.submit(py, Request { parts, writes, is_own: false, ..request })
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
    fn _end(&mut self, py: Python<'_>, message: String) -> PyResult<()> {
        self.shared.get().check(py)?;
        self.over = Some(("over", message));
        Ok(())
    }

    /// Nothing goes there any more: the client was closed.
    fn _closes(&mut self, py: Python<'_>) -> PyResult<()> {
        self.shared.get().check(py)?;
        let cause = Cause::Closed;
        self.over = Some((cause.code(), cause.told(&Limits::default())));
        Ok(())
    }

    /// Nothing is watched any more.
    fn _unwatched(&mut self) {
        self.traces.watches = false;
    }

    /// The connection of a session goes back, or ends where it was changed.
    fn _release(&mut self, py: Python<'_>) -> PyResult<()> {
        let (number, spoiled) = (self.number, self.traces.is_changed || self.traces.watches);
        Core::run(self.own.bind(py), |state, py, now| {
            if spoiled {
                state.spoil(number);
            }
            state.release(py, now, number);
        })
    }
}
