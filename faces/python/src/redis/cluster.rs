//! A cluster: the layer below says what is sent to which node; here it is carried out. Each node
//! has clients of its own, which the host makes.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use onetrip_abi::Cluster;
use onetrip_abi::completion::{cluster_why, kind, outcome};
use onetrip_abi::host::{Packed, Record, Unanswered, cluster_flag};
use onetrip_engine::{Outcome, Time};
use onetrip_redis::client::list::is_error;
use onetrip_redis::client::router::Limits;
use onetrip_redis::slots::slot_of;
use onetrip_redis::{Command, Reply};
use pyo3::intern;
use pyo3::prelude::*;

use super::ending::{refusal, settle};
use super::reply::joined;
use super::request::Request;
use crate::call::{Call, Stage, Want};
use crate::core::Core;
use crate::failure::Failure;
use crate::local::Local;

/// Commands that wait for a node at most.
const HELD_MAX: usize = 1_000_000;

/// The router of a cluster.
#[pyclass(frozen, module = "onetrip._native")]
#[derive(Debug)]
pub(crate) struct Router {
    /// The servers that were named: they are asked for the topology first.
    home: Py<Core>,
    /// `onetrip.redis._cluster.Nodes`.
    host: Py<PyAny>,
    from_replica: bool,
    now: Local<Now>,
}

struct Now {
    cluster: Cluster,
    entries: HashMap<u32, Entry>,
    nodes: HashMap<u32, Node>,
    tokens: u32,
    is_settling: bool,
    armed: Time,
}

impl std::fmt::Debug for Now {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Now").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

/// A command, and its flights.
struct Entry {
    call: Py<Call>,
    flights: Vec<(Py<Core>, Py<Call>)>,
}

struct Node {
    shared: Py<Core>,
    own: Py<Core>,
    /// Where it is.
    at: (String, u16),
}

/// What the router has sent.
#[derive(Debug)]
pub(super) struct Flight {
    router: Py<Router>,
    of: Of,
}

#[derive(Debug)]
enum Of {
    Command {
        token: u32,
        number: u32,
        is_asking: bool,
    },
    /// The question for the topology, and who is asked.
    Topology(String, u16),
}

impl Router {
    fn time(&self) -> Time {
        self.home.get().time()
    }

    /// Takes a command of a caller.
    pub(super) fn submit(router: &Bound<'_, Self>, call: &Bound<'_, Call>) -> PyResult<()> {
        let (it, now) = (router.get(), router.get().time());
        let Want::Redis(request) = &call.get().want else { return Ok(()) };
        let flags = [
            (request.repeat.is_some(), cluster_flag::REPEATABLE),
            (it.from_replica, cluster_flag::FROM_REPLICA),
            (request.is_own, cluster_flag::OWN),
            (request.packed.is_whole(), cluster_flag::WHOLE),
        ];
        let flags = flags.iter().filter(|it| it.0).fold(0, |flags, it| flags | it.1);
        it.now.with(|state| {
            state.tokens = state.tokens % u32::MAX + 1;
            let token = state.tokens;
            let entry = Entry { call: call.clone().unbind(), flights: Vec::new() };
            state.entries.insert(token, entry);
            call.get().now.with(|it| it.stage = Stage::Routed(token))?;
            let (commands, deadline) = (request.packed.commands(), request.deadline);
            state.cluster.submit(now, token, flags, commands, deadline);
            Ok::<_, PyErr>(())
        })??;
        Router::settle(router)
    }

    /// Carries out what is to be done, until nothing is.
    fn settle(router: &Bound<'_, Self>) -> PyResult<()> {
        let it = router.get();
        if it.now.with(|state| std::mem::replace(&mut state.is_settling, true))? {
            return Ok(());
        }
        loop {
            let records: Vec<_> = it.now.with(|state| state.cluster.drain().collect())?;
            if records.is_empty() {
                break;
            }
            for record in records {
                if let Err(error) = Router::act(router, record) {
                    error.write_unraisable(router.py(), None);
                }
            }
        }
        let now = it.time();
        let next = it.now.with(|state| {
            state.is_settling = false;
            let at = state.cluster.deadline();
            let is_sooner = at < state.armed;
            state.armed = state.armed.min(at);
            is_sooner.then(|| at.since(now) + Duration::from_millis(1))
        })?;
        if let Some(after) = next {
            let name = intern!(router.py(), "arm");
            it.host.call_method1(router.py(), name, (after.as_secs_f64(),))?;
        }
        Ok(())
    }

    fn act(router: &Bound<'_, Self>, record: Record) -> PyResult<()> {
        let (py, it) = (router.py(), router.get());
        let Record { kind, token, a, b, block } = record;
        let failure = match kind {
            kind::CLUSTER_SEND => return Router::send(router, token, (a, b), false),
            kind::CLUSTER_SEND_ASKING => return Router::send(router, token, (a, b), true),
            kind::CLUSTER_ASK => return Router::ask(router, a),
            kind::CLUSTER_OPEN => {
                let host = String::from_utf8_lossy(&block).into_owned();
                let made = it.host.call_method1(py, intern!(py, "open"), (a, &host, b))?;
                let (shared, own) = made.extract::<(Py<Core>, Py<Core>)>(py)?;
                let node = Node { shared, own, at: (host, u16::try_from(b)?) };
                drop(it.now.with(|state| state.nodes.insert(a, node))?);
                return Ok(());
            }
            kind::CLUSTER_CLOSE => {
                drop(it.now.with(|state| state.nodes.remove(&a))?);
                return it.host.call_method1(py, intern!(py, "shut"), (a,)).map(drop);
            }
            kind::CLUSTER_REPLY if !is_error(&block) => None,
            kind::CLUSTER_REPLY => Some(Failure::Server {
                about: "".into(),
                block: block.clone(),
                outcome: outcome::REJECTED,
            }),
            kind::CLUSTER_ERROR => {
                Some(Failure::Server { about: "".into(), block: block.clone(), outcome: b })
            }
            _ => Some(Failure::said(cluster_why::word(a), b, String::from_utf8_lossy(&block))),
        };
        Router::finish(router, token, block, failure)
    }

    /// A command is answered, or failed.
    fn finish(
        router: &Bound<'_, Self>,
        token: u32,
        block: Bytes,
        failure: Option<Failure>,
    ) -> PyResult<()> {
        let (py, it) = (router.py(), router.get());
        let Some(Entry { call, flights }) = it.now.with(|state| state.entries.remove(&token))?
        else {
            return Ok(());
        };
        let Want::Redis(request) = &call.get().want else { return Ok(()) };
        call.get().now.with(|it| it.blocks = vec![block])?;
        Core::run(it.home.bind(py), |state, py, _| settle(state, py, (&call, request), failure))?;
        // A connection of its own may stay blocked for ever.
        for (core, flight) in flights.iter().filter(|_| request.is_own) {
            Core::give_up(core.bind(py), flight.bind(py))?;
        }
        Ok(())
    }

    // --- flights ---

    fn send(
        router: &Bound<'_, Self>,
        token: u32,
        (number, node): (u32, u32),
        is_asking: bool,
    ) -> PyResult<()> {
        let (py, it) = (router.py(), router.get());
        let found = it.now.with(|state| {
            let call = state.entries.get(&token)?.call.clone_ref(py);
            let node = state.nodes.get(&node)?;
            let Want::Redis(request) = &call.get().want else { return None };
            let core = if request.is_own { &node.own } else { &node.shared }.clone_ref(py);
            let packed = state.cluster.flight(number, &request.packed, is_asking)?;
            let (is_own, deadline) = (request.is_own, request.deadline);
            let request = Request::new(request.name.clone(), packed);
            Some((core, Request { is_own, deadline, ..request }))
        })?;
        let Some((core, request)) = found else {
            let (now, why) = (it.time(), Unanswered::Lost(Outcome::NotSent));
            return Ok(it.now.with(|state| state.cluster.unanswered(now, number, why))?);
        };
        let of = Of::Command { token, number, is_asking };
        Router::fly(router, &core, request, of, |state, flight| {
            if let Some(entry) = state.entries.get_mut(&token) {
                entry.flights.push(flight);
            }
        })
    }

    /// Asks a node for the topology; 0 for the servers that were named.
    fn ask(router: &Bound<'_, Self>, node: u32) -> PyResult<()> {
        let (py, it) = (router.py(), router.get());
        let of = it.now.with(|state| {
            state.nodes.get(&node).map(|node| (node.shared.clone_ref(py), node.at.clone()))
        })?;
        let (core, (host, port)) = match of {
            Some(of) => of,
            None => {
                let named = it.host.call_method0(py, intern!(py, "named"))?;
                (it.home.clone_ref(py), named.extract(py)?)
            }
        };
        let packed = Packed::command(None, &Command::new("CLUSTER SLOTS"));
        let request = Request::new("CLUSTER SLOTS".into(), packed);
        Router::fly(router, &core, request, Of::Topology(host, port), |_, _| ())
    }

    fn fly(
        router: &Bound<'_, Self>,
        core: &Py<Core>,
        request: Request,
        of: Of,
        keep: impl FnOnce(&mut Now, (Py<Core>, Py<Call>)),
    ) -> PyResult<()> {
        let py = router.py();
        let is_own = request.is_own;
        let flight = Some(Flight { router: router.clone().unbind(), of });
        let want = Want::Redis(Box::new(Request { flight, ..request }));
        let flight = Call::new(core.clone_ref(py).into_any(), want, None, 0, None);
        let flight = Bound::new(py, flight)?;
        let kept = (core.clone_ref(py), flight.clone().unbind());
        router.get().now.with(|state| keep(state, kept))?;
        Core::run(core.bind(py), |state, py, now| match is_own {
            true => state.checkout(py, now, &flight),
            false => state.place(py, now, &flight),
        })
    }

    /// A flight has ended.
    pub(crate) fn landed(call: &Bound<'_, Call>) -> PyResult<()> {
        let py = call.py();
        let (blocks, failure) =
            call.get().now.with(|it| (std::mem::take(&mut it.blocks), it.failure.take()))?;
        let Want::Redis(request) = &call.get().want else { return Ok(()) };
        let Some(Flight { router, of }) = &request.flight else { return Ok(()) };
        let router = router.bind(py);
        let (it, now) = (router.get(), router.get().time());
        let reply = match failure {
            None => Ok(joined(&blocks)),
            Some(Failure::Server { block, .. }) => Ok(block),
            Some(failure) => Err(failure),
        };
        match (of, reply) {
            (Of::Topology(host, port), reply) => {
                let reply = reply.unwrap_or_default();
                it.now.with(|state| state.cluster.topology(now, &reply, (host, *port)))?;
            }
            (Of::Command { number, .. }, Err(failure)) => {
                let why = match failure {
                    Failure::Said { code: "cancelled", .. } => Unanswered::TakenBack,
                    Failure::Said { code: "timeout", .. } => Unanswered::Expired(failure.known()),
                    failure => Unanswered::Lost(failure.known()),
                };
                it.now.with(|state| state.cluster.unanswered(now, *number, why))?;
            }
            (Of::Command { token, number, is_asking }, Ok(mut reply)) => {
                if *is_asking && let Ok((_, rest)) = Reply::read(&reply) {
                    reply = reply.slice(reply.len() - rest.len()..);
                }
                let is_list = request.packed.is_list();
                let replied = |state: &mut Now| {
                    let is_final = state.cluster.replied(now, *number, &reply, is_list);
                    let call = is_final.then(|| state.entries.get(token)).flatten()?;
                    Some(call.call.clone_ref(py))
                };
                if let Some(call) = it.now.with(replied)?
                    && let Want::Redis(request) = &call.get().want
                {
                    let failure = refusal(&reply, request.packed.leaves()).filter(|_| !is_list);
                    Router::finish(router, *token, reply, failure)?;
                }
            }
        }
        Router::settle(router)
    }
}

#[pymethods]
impl Router {
    #[new]
    fn new(
        home: Py<Core>,
        host: Py<PyAny>,
        redirects_max: u32,
        held_ms: u64,
        from_replica: bool,
        seed: u64,
    ) -> Router {
        let held_time_max = Duration::from_millis(held_ms);
        let limits =
            Limits { redirects_max, held_max: HELD_MAX, held_time_max, ..Limits::default() };
        let now = Now {
            cluster: Cluster::new(limits, seed),
            entries: HashMap::new(),
            nodes: HashMap::new(),
            tokens: 0,
            is_settling: false,
            armed: Time::NEVER,
        };
        Router { home, host, from_replica, now: Local::new(now) }
    }

    /// It is so late.
    fn tick(slf: &Bound<'_, Self>) -> PyResult<()> {
        let now = slf.get().time();
        slf.get().now.with(|state| {
            state.armed = Time::NEVER;
            state.cluster.time(now);
        })?;
        Router::settle(slf)
    }

    /// Nobody waits for a command any more.
    fn give_up(slf: &Bound<'_, Self>, token: u32) -> PyResult<()> {
        let (py, it, now) = (slf.py(), slf.get(), slf.get().time());
        let flights = it.now.with(|state| {
            let entry = state.entries.get_mut(&token);
            entry.map(|entry| std::mem::take(&mut entry.flights)).unwrap_or_default()
        })?;
        it.now.with(|state| state.cluster.give_up(now, token))?;
        for (core, flight) in &flights {
            Core::give_up(core.bind(py), flight.bind(py))?;
        }
        Router::settle(slf)
    }

    /// Commands that are not answered.
    fn pending(&self) -> PyResult<usize> {
        Ok(self.now.with(|state| state.entries.len())?)
    }

    /// Nothing is sent any more.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().now.with(|state| state.cluster.close())?;
        Router::settle(slf)
    }

    /// The connections of one's own of the node that has this key; none where no node has it.
    fn node_of(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Py<Core>>> {
        Ok(self.now.with(|state| {
            let number = state.cluster.node_at(Some(slot_of(key)));
            state.nodes.get(&number).map(|node| node.own.clone_ref(py))
        })?)
    }
}
