//! A cluster: the layer below says what is sent to which node; here it is carried out. Each node
//! has clients of its own, which the host makes.

use std::collections::HashMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use onetrip_abi::Cluster;
use onetrip_abi::completion::{cluster_why, kind, outcome};
use onetrip_abi::host::{Record, Unanswered, cluster_flag, commands_flag};
use onetrip_engine::{Outcome, Time};
use onetrip_redis::client::router::Limits;
use onetrip_redis::client::scripts::write_as_text;
use onetrip_redis::slots::slot_of;
use onetrip_redis::{Command, Reply};
use pyo3::intern;
use pyo3::prelude::*;

use super::reply::joined;
use super::request::{Flight, Request, answer};
use super::shape::Shape;
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
    /// The shared and the own connections of each node, and its address.
    nodes: HashMap<u32, (Py<Core>, Py<Core>, String, u16)>,
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

impl Router {
    fn time(&self) -> Time {
        self.home.get().time()
    }

    /// Takes a command of a caller.
    pub(super) fn submit(router: &Bound<'_, Self>, call: &Bound<'_, Call>) -> PyResult<()> {
        let (it, now) = (router.get(), router.get().time());
        let Want::Redis(request) = &call.get().want else { return Ok(()) };
        let is_whole = request.is_list() || request.text_len > 0;
        let flags = [
            (it.from_replica, cluster_flag::FROM_REPLICA),
            (request.is_own, cluster_flag::OWN),
            (is_whole, cluster_flag::WHOLE),
        ];
        let flags = flags.iter().filter(|it| it.0).fold(0, |flags, it| flags | it.1);
        let token = it.now.with(|state| {
            loop {
                state.tokens = state.tokens.wrapping_add(1);
                if state.tokens != 0 && !state.entries.contains_key(&state.tokens) {
                    break;
                }
            }
            let entry = Entry { call: call.clone().unbind(), flights: Vec::new() };
            state.entries.insert(state.tokens, entry);
            state.tokens
        })?;
        call.get().now.with(|it| it.stage = Stage::Routed(token))?;
        let commands = &request.bytes[request.text_len..];
        it.now.with(|state| state.cluster.submit(now, token, flags, commands, Time::NEVER))?;
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
        match kind {
            kind::CLUSTER_SEND => Router::send(router, token, (a, b), false),
            kind::CLUSTER_SEND_ASKING => Router::send(router, token, (a, b), true),
            kind::CLUSTER_ASK => Router::ask(router, a),
            kind::CLUSTER_OPEN => {
                let host = String::from_utf8_lossy(&block).into_owned();
                let made = it.host.call_method1(py, intern!(py, "open"), (a, &host, b))?;
                let (shared, own) = made.extract::<(Py<Core>, Py<Core>)>(py)?;
                let port = u16::try_from(b).unwrap_or_default();
                let old = it.now.with(|state| state.nodes.insert(a, (shared, own, host, port)))?;
                drop(old);
                Ok(())
            }
            kind::CLUSTER_CLOSE => {
                let old = it.now.with(|state| state.nodes.remove(&a))?;
                drop(old);
                it.host.call_method1(py, intern!(py, "shut"), (a,)).map(drop)
            }
            _ => {
                let Some(entry) = it.now.with(|state| state.entries.remove(&token))? else {
                    return Ok(());
                };
                let Want::Redis(request) = &entry.call.get().want else { return Ok(()) };
                let is_error = matches!(block.first(), Some(b'-' | b'!'));
                let failure = match kind {
                    kind::CLUSTER_REPLY if !is_error && !request.is_list() => None,
                    // A list has a reply here only where it was refused.
                    kind::CLUSTER_REPLY => Some(answer(&request.name, &block, outcome::REJECTED)),
                    kind::CLUSTER_ERROR => Some(answer(&request.name, &block, b)),
                    _ => {
                        let text = String::from_utf8_lossy(&block).into_owned();
                        Some(Failure::said(code_of(a), b, text))
                    }
                };
                Router::finish(router, entry, block, failure)
            }
        }
    }

    /// A command is answered, or failed.
    fn finish(
        router: &Bound<'_, Self>,
        entry: Entry,
        block: Bytes,
        failure: Option<Failure>,
    ) -> PyResult<()> {
        let py = router.py();
        let call = &entry.call;
        let Want::Redis(request) = &call.get().want else { return Ok(()) };
        call.get().now.with(|it| it.blocks = vec![block])?;
        Core::run(router.get().home.bind(py), |state, py, _| match request.is_list() {
            true => super::settle(state, py, call, request, failure),
            false => state.finish(py, call, failure),
        })?;
        // A connection of its own may stay blocked for ever.
        for (core, flight) in entry.flights.iter().filter(|_| request.is_own) {
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
            let (shared, own, ..) = state.nodes.get(&node)?;
            let Want::Redis(request) = &call.get().want else { return None };
            let core = if request.is_own { own } else { shared }.clone_ref(py);
            let is_whole = request.is_list() || request.text_len > 0;
            let mut bytes = BytesMut::new();
            match is_whole {
                true => bytes.extend_from_slice(&request.bytes),
                false => {
                    let (head, body) = state.cluster.command(number)?;
                    bytes.extend_from_slice(&head);
                    bytes.extend_from_slice(body);
                }
            }
            Some((call, core, bytes))
        })?;
        let Some((call, core, bytes)) = found else {
            return Router::unanswered(router, number, Unanswered::Lost(Outcome::NotSent));
        };
        let Want::Redis(of) = &call.get().want else { return Ok(()) };
        let flight = Flight::Sent { router: router.clone().unbind(), token, number, is_asking };
        let mut request = Request {
            name: of.name.clone(),
            bytes,
            text_len: of.text_len,
            replies: of.replies,
            flags: of.flags,
            shape: Shape::Nothing,
            raw: false,
            leaves: of.leaves,
            is_own: of.is_own,
            parts: Vec::new(),
            flight: Some(flight),
        };
        if is_asking {
            ask_in_front(&mut request);
        }
        let flight = flight_on(&core, py, request)?;
        let kept = flight.clone().unbind();
        it.now.with(|state| {
            if let Some(entry) = state.entries.get_mut(&token) {
                entry.flights.push((core.clone_ref(py), kept));
            }
        })?;
        Core::run(core.bind(py), |state, py, now| match of.is_own {
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
        match &request.flight {
            Some(Flight::Sent { router, token, number, is_asking }) => {
                let router = router.bind(py);
                let (mut reply, why) = match failure {
                    None => (joined(&blocks), None),
                    Some(Failure::Server { block, .. }) => (block, None),
                    Some(Failure::Said { code: "cancelled", .. }) => {
                        (Bytes::new(), Some(Unanswered::TakenBack))
                    }
                    Some(failure) => {
                        let outcome = match failure.outcome() {
                            outcome::NOT_SENT => Outcome::NotSent,
                            outcome::REJECTED => Outcome::Rejected,
                            _ => Outcome::Unknown,
                        };
                        (Bytes::new(), Some(Unanswered::Lost(outcome)))
                    }
                };
                if let Some(why) = why {
                    return Router::unanswered(router, *number, why);
                }
                if *is_asking && let Ok((_, rest)) = Reply::read(&reply) {
                    reply = reply.slice(reply.len() - rest.len()..);
                }
                Router::replied(router, (*token, *number), reply, request.is_list())
            }
            Some(Flight::Topology { router, host, port }) => {
                let router = router.bind(py);
                let (it, now) = (router.get(), router.get().time());
                let reply = if failure.is_some() { Bytes::new() } else { joined(&blocks) };
                it.now.with(|state| state.cluster.topology(now, &reply, (host, *port)))?;
                Router::settle(router)
            }
            None => Ok(()),
        }
    }

    fn replied(
        router: &Bound<'_, Self>,
        (token, number): (u32, u32),
        reply: Bytes,
        is_list: bool,
    ) -> PyResult<()> {
        let (it, now) = (router.get(), router.get().time());
        let entry = it.now.with(|state| {
            let is_final = state.cluster.replied(now, number, &reply, is_list);
            is_final.then(|| state.entries.remove(&token)).flatten()
        })?;
        if let Some(entry) = entry {
            let Want::Redis(request) = &entry.call.get().want else { return Ok(()) };
            let is_error = !is_list && matches!(reply.first(), Some(b'-' | b'!'));
            let failure = is_error.then(|| super::request::answer_of(request, &reply));
            Router::finish(router, entry, reply, failure)?;
        }
        Router::settle(router)
    }

    fn unanswered(router: &Bound<'_, Self>, number: u32, why: Unanswered) -> PyResult<()> {
        let (it, now) = (router.get(), router.get().time());
        it.now.with(|state| state.cluster.unanswered(now, number, why))?;
        Router::settle(router)
    }

    /// Asks a node for the topology; 0 for the servers that were named.
    fn ask(router: &Bound<'_, Self>, node: u32) -> PyResult<()> {
        let (py, it) = (router.py(), router.get());
        let of = it.now.with(|state| {
            let (shared, _, host, port) = state.nodes.get(&node)?;
            Some((shared.clone_ref(py), host.clone(), *port))
        })?;
        let (core, host, port) = match of {
            Some(of) => of,
            None => {
                let named = it.host.call_method0(py, intern!(py, "named"))?;
                let (host, port) = named.extract::<(String, u16)>(py)?;
                (it.home.clone_ref(py), host, port)
            }
        };
        let mut bytes = BytesMut::new();
        Command::new("CLUSTER SLOTS").encode(&mut bytes);
        let flight = Flight::Topology { router: router.clone().unbind(), host, port };
        let request = Request::of_flight("CLUSTER SLOTS", bytes, flight);
        let flight = flight_on(&core, py, request)?;
        Core::run(core.bind(py), |state, py, now| state.place(py, now, &flight))
    }
}

fn flight_on<'py>(
    core: &Py<Core>,
    py: Python<'py>,
    request: Request,
) -> PyResult<Bound<'py, Call>> {
    let want = Want::Redis(Box::new(request));
    Bound::new(py, Call::new(core.clone_ref(py).into_any(), want, None, 0, None))
}

/// The command, or the list, behind ASKING. A script goes as its text.
fn ask_in_front(request: &mut Request) {
    let mut bytes = BytesMut::new();
    Command::new("ASKING").encode(&mut bytes);
    if request.text_len > 0 {
        let (text, call) = request.bytes.split_at(request.text_len);
        let sha = hash_of(call);
        write_as_text(call, sha, text, &mut bytes);
        request.text_len = 0;
    } else {
        bytes.extend_from_slice(&request.bytes);
    }
    request.bytes = bytes;
    request.replies = if request.is_list() { request.replies + 1 } else { 2 };
    request.flags &= commands_flag::ATOMIC;
}

/// The hash that a call of a script names: its second argument.
fn hash_of(call: &[u8]) -> &[u8] {
    let mut lines = call.split(|byte| *byte == b'\n').skip(4);
    lines.next().map_or(&[][..], |line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn code_of(why: u32) -> &'static str {
    match why {
        cluster_why::LOST => "connection_lost",
        cluster_why::UNSERVED => "unserved_slot",
        cluster_why::MISMATCH => "mismatch",
        cluster_why::GIVEN_UP => "cancelled",
        cluster_why::NO_MEMORY => "no_memory",
        cluster_why::CLOSED => "closed",
        cluster_why::CROSS_SLOT => "cross_slot",
        cluster_why::KEYS_UNKNOWN => "keys_unknown",
        cluster_why::NODE_BY_NODE => "node_by_node",
        cluster_why::FULL => "queue_full",
        _ => "cluster",
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
        let limits = Limits {
            redirects_max,
            held_max: HELD_MAX,
            held_time_max: Duration::from_millis(held_ms),
            ..Limits::default()
        };
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
            state.nodes.get(&number).map(|(_, own, ..)| own.clone_ref(py))
        })?)
    }
}
