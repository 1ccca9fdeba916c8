//! A cluster: the layer below says what is sent to which node; here it is carried out. Each node
//! has clients of its own, which the host makes.

use std::time::Duration;

use bytes::Bytes;
use onetrip_client::cluster::Unanswered;
use onetrip_client::completion::{Record, cluster_why, kind, outcome};
use onetrip_client::redis::Packed;
use onetrip_client::routing::{Flight, Routed, Routing};
use onetrip_engine::Time;
use onetrip_redis::Command;
use onetrip_redis::client::list::is_error;
use onetrip_redis::client::router::{Limits, TOPOLOGY_TIMEOUT};
use onetrip_redis::slots::slot_of;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

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
pub(crate) struct Router {
    /// The servers that were named: they are asked for the topology first.
    home: Py<Core>,
    /// `onetrip.redis._cluster.Nodes`.
    host: Py<PyAny>,
    from_replica: bool,
    now: Local<Now>,
}

/// A call on the client of a node.
type Sent = (Py<Core>, Py<Call>);

/// The clients of a node: of its shared connection, and of those that calls have to themselves.
type Node = (Py<Core>, Py<Core>);

struct Now {
    routing: Routing<Py<Call>, Sent, Node>,
    is_settling: bool,
}

impl Router {
    fn time(&self) -> Time {
        self.home.get().time()
    }

    /// Takes a command of a caller.
    pub(super) fn submit(router: &Bound<'_, Self>, call: &Bound<'_, Call>) -> PyResult<()> {
        let (it, now) = (router.get(), router.get().time());
        let Want::Redis(request) = &call.get().want else { return Ok(()) };
        let how = Routed {
            is_repeatable: request.repeat.is_some(),
            from_replica: it.from_replica,
            is_own: request.is_own,
            deadline: request.deadline.unwrap_or(Time::NEVER),
        };
        it.now.with(|state| {
            state.routing.submit(now, &request.packed, how, |token| {
                let _ = call.get().now.with(|it| it.stage = Stage::Routed(token));
                call.clone().unbind()
            });
        })?;
        Router::settle(router)
    }

    /// Carries out what is to be done, until nothing is.
    fn settle(router: &Bound<'_, Self>) -> PyResult<()> {
        let it = router.get();
        if it.now.with(|state| std::mem::replace(&mut state.is_settling, true))? {
            return Ok(());
        }
        loop {
            let records = it.now.with(|state| state.routing.drain())?;
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
            state.routing.wait(now)
        })?;
        if let Some(after) = next {
            let name = intern!(router.py(), "arm");
            let after = after + Duration::from_millis(1);
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
                let (node, port) = (made.extract::<(Py<Core>, Py<Core>)>(py)?, u16::try_from(b)?);
                return Ok(it.now.with(|state| state.routing.opened(a, node, (host, port)))?);
            }
            kind::CLUSTER_CLOSE => {
                drop(it.now.with(|state| state.routing.left(a))?);
                return it.host.call_method1(py, intern!(py, "shut"), (a,)).map(drop);
            }
            kind::CLUSTER_UNSUBSCRIBE => return Router::unsubscribe_at(router, a, &block),
            kind::CLUSTER_RESUBSCRIBED => {
                let channel = PyBytes::new(py, &block);
                return it.host.call_method1(py, intern!(py, "resubscribed"), (channel,)).map(drop);
            }
            kind::CLUSTER_REPLY if !is_error(&block) => None,
            kind::CLUSTER_REPLY | kind::CLUSTER_ERROR => {
                let outcome = if kind == kind::CLUSTER_ERROR { b } else { outcome::REJECTED };
                Some(Failure::Server { about: "".into(), block: block.clone(), outcome })
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
        let ended = it.now.with(|state| state.routing.finish(token))?;
        let Some((call, flights)) = ended else { return Ok(()) };
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
            let ((shared, own), _) = state.routing.node(node)?;
            if let Some(packed) = state.routing.subscription(number) {
                let request = Request { name: "SSUBSCRIBE".into(), packed, ..Request::default() };
                return Some((shared.clone_ref(py), request));
            }
            let call = state.routing.call(token)?;
            let Want::Redis(request) = &call.get().want else { return None };
            let core = if request.is_own { own } else { shared }.clone_ref(py);
            let packed = state.routing.flight(number, &request.packed, is_asking)?;
            let (name, is_own, deadline) = (request.name.clone(), request.is_own, request.deadline);
            Some((core, Request { name, packed, is_own, deadline, ..Request::default() }))
        })?;
        let now = it.time();
        match found {
            Some((core, request)) => {
                Router::fly(router, &core, request, Flight::Command { token, number, is_asking })
            }
            None => Ok(it.now.with(|state| state.routing.grounded(now, number))?),
        }
    }

    /// Asks a node for the topology; 0 for the servers that were named.
    fn ask(router: &Bound<'_, Self>, node: u32) -> PyResult<()> {
        let (py, it) = (router.py(), router.get());
        let of = it.now.with(|state| {
            state.routing.node(node).map(|((shared, _), at)| (shared.clone_ref(py), at.clone()))
        })?;
        let (core, (host, port)) = match of {
            Some(of) => of,
            None => {
                let named = it.host.call_method0(py, intern!(py, "named"))?;
                (it.home.clone_ref(py), named.extract(py)?)
            }
        };
        let packed = Packed::command(None, &Command::new("CLUSTER SLOTS"));
        let deadline = Some(it.time().after(TOPOLOGY_TIMEOUT));
        let request = Request { packed, deadline, ..Request::default() };
        Router::fly(router, &core, request, Flight::Topology(host, port))
    }

    /// Ends the subscription of a sharded channel at a node. Nobody waits for that.
    fn unsubscribe_at(router: &Bound<'_, Self>, node: u32, channel: &[u8]) -> PyResult<()> {
        let (py, it) = (router.py(), router.get());
        let core = it
            .now
            .with(|state| state.routing.node(node).map(|((shared, _), _)| shared.clone_ref(py)))?;
        let Some(core) = core else { return Ok(()) };
        let command = Command::new("SUNSUBSCRIBE").arg(channel);
        let packed = Packed::confirmed(&command, 1);
        let request = Request { name: "SUNSUBSCRIBE".into(), packed, ..Request::default() };
        Router::fly(router, &core, request, Flight::Unsubscription(node))
    }

    fn fly(
        router: &Bound<'_, Self>,
        core: &Py<Core>,
        request: Request,
        flight: Flight,
    ) -> PyResult<()> {
        let (py, is_own) = (router.py(), request.is_own);
        let token = if let Flight::Command { token, .. } = flight { token } else { 0 };
        let flight = Some((router.clone().unbind(), flight));
        let want = Want::Redis(Box::new(Request { flight, ..request }));
        let call = Bound::new(py, Call::new(core.clone_ref(py).into_any(), want, None, 0, None))?;
        let kept = (core.clone_ref(py), call.clone().unbind());
        router.get().now.with(|state| state.routing.flies(token, kept))?;
        Core::run(core.bind(py), |state, py, now| match is_own {
            true => state.checkout(py, now, &call),
            false => state.place(py, now, &call),
        })
    }

    /// A flight has ended.
    pub(crate) fn landed(call: &Bound<'_, Call>) -> PyResult<()> {
        let py = call.py();
        let (blocks, failure) =
            call.get().now.with(|it| (std::mem::take(&mut it.blocks), it.failure.take()))?;
        let Want::Redis(request) = &call.get().want else { return Ok(()) };
        let Some((router, flight)) = &request.flight else { return Ok(()) };
        let (router, is_list) = (router.bind(py), request.packed.is_list());
        let (it, now) = (router.get(), router.get().time());
        let reply = match failure {
            None => Ok(joined(&blocks)),
            Some(Failure::Server { block, .. }) => Ok(block),
            Some(Failure::Said { code: "cancelled", .. }) => Err(Unanswered::TakenBack),
            Some(failure) if failure.is_late() => Err(Unanswered::Expired(failure.known())),
            Some(failure) => Err(Unanswered::Lost(failure.known())),
        };
        let answered = it.now.with(|state| {
            let (token, reply) = state.routing.landed(now, flight, reply, is_list)?;
            let Want::Redis(request) = &state.routing.call(token)?.get().want else { return None };
            let failure = refusal(&reply, request.packed.leaves()).filter(|_| !is_list);
            Some((token, reply, failure))
        })?;
        if let Some((token, reply, failure)) = answered {
            Router::finish(router, token, reply, failure)?;
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
        let now = Now { routing: Routing::new(limits, seed), is_settling: false };
        Router { home, host, from_replica, now: Local::new(now) }
    }

    /// It is so late.
    fn tick(slf: &Bound<'_, Self>) -> PyResult<()> {
        let now = slf.get().time();
        slf.get().now.with(|state| state.routing.time(now))?;
        Router::settle(slf)
    }

    /// Subscribes to a sharded channel.
    fn subscribe<'py>(slf: &Bound<'py, Self>, channel: &[u8]) -> PyResult<Bound<'py, Call>> {
        let (py, it, now) = (slf.py(), slf.get(), slf.get().time());
        let command = Command::new("SSUBSCRIBE").arg(channel);
        let packed = Packed::confirmed(&command, 1);
        let request = Request { name: "SSUBSCRIBE".into(), packed, ..Request::default() };
        let (home, want) = (it.home.clone_ref(py).into_any(), Want::Redis(Box::new(request)));
        let call = Bound::new(py, Call::new(home, want, None, 0, None))?;
        it.now.with(|state| {
            state.routing.subscribe(now, channel, |token| {
                let _ = call.get().now.with(|it| it.stage = Stage::Routed(token));
                call.clone().unbind()
            });
        })?;
        Router::settle(slf)?;
        Ok(call)
    }

    /// Nobody reads a sharded channel any more.
    fn unsubscribe(slf: &Bound<'_, Self>, channel: &[u8]) -> PyResult<()> {
        slf.get().now.with(|state| state.routing.unsubscribe(channel))?;
        Router::settle(slf)
    }

    /// The connection of a node that all share is open, before anything is sent there; or it was
    /// lost.
    fn connected(slf: &Bound<'_, Self>, node: u32, is_open: bool) -> PyResult<()> {
        let now = slf.get().time();
        slf.get().now.with(|state| state.routing.connected(now, node, is_open))?;
        Router::settle(slf)
    }

    /// A push came from a node. Whether it was for the router.
    fn pushed(slf: &Bound<'_, Self>, node: u32, push: &[u8]) -> PyResult<bool> {
        let now = slf.get().time();
        let is_ours = slf.get().now.with(|state| state.routing.pushed(now, node, push))?;
        Router::settle(slf)?;
        Ok(is_ours)
    }

    /// Nobody waits for a command any more.
    fn give_up(slf: &Bound<'_, Self>, token: u32) -> PyResult<()> {
        let (py, it, now) = (slf.py(), slf.get(), slf.get().time());
        let flights = it.now.with(|state| state.routing.give_up(now, token))?;
        for (core, flight) in &flights {
            Core::give_up(core.bind(py), flight.bind(py))?;
        }
        Router::settle(slf)
    }

    /// Nothing is sent any more.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().now.with(|state| state.routing.close())?;
        Router::settle(slf)
    }

    /// The connections of one's own of the node that has this key; none where no node has it.
    fn node_of(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Py<Core>>> {
        Ok(self
            .now
            .with(|state| state.routing.node_at(slot_of(key)).map(|(_, own)| own.clone_ref(py)))?)
    }
}
