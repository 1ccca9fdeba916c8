//! A cluster: the host of the router in [`onetrip_redis::client::router`]. It has a [`Node`] for
//! each node of the cluster, and one for the servers of the configuration, which is asked for the
//! first topology and carries the subscriptions.
//!
//! Its lock is taken before those of pools and connections, never under them: a connection reports
//! with its own lock released ([`Landing`]).

pub(super) mod cell;
mod errors;
mod keys;
mod landing;
mod roaming;
mod sending;
mod sharded;
mod state;
mod topology;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;

use bytes::Bytes;
use onetrip_engine::{Outcome, Time};
use onetrip_redis::Command;
use onetrip_redis::client::router::{
    self, FlightId, NodeId, Output, SUBSCRIBES_AGAIN, TOPOLOGY_TIMEOUT,
};
use onetrip_redis::table::Described;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::call::{Body, Call, Item};
use super::config::Config;
use super::connect::Target;
use super::link::{Landed, Landing, Shared};
use super::node::{Node, Sent};
use super::pushes::Pushes;
use super::sent::Pending;
use crate::Error;

pub(crate) use cell::Cell;
pub(crate) use roaming::{Next, Roaming};

use landing::{finish, report};
use state::State;
use topology::ask;
use watch::{Watch, watch};

/// One cluster.
pub(crate) struct Cluster {
    config: Arc<Config>,
    /// The servers of the configuration.
    home: Arc<Node>,
    /// The readers of sharded channels.
    sharded: Arc<Pushes>,
    /// Held while a sharded channel gets its first reader, or loses its last one.
    subscribing: Mutex<()>,
    state: Mutex<State>,
    /// The timer's deadline may have changed.
    changed: Notify,
    runtime: Handle,
    this: OnceLock<Weak<Cluster>>,
    seed: u64,
}

impl Cluster {
    /// Connects to one of the configured servers and asks it for the topology.
    pub(crate) async fn open(
        config: &Arc<Config>,
        home: &Arc<Node>,
        seed: u64,
    ) -> Result<Arc<Cluster>, Error> {
        let limits = &config.limits;
        let limits = router::Limits {
            redirects_max: limits.redirects_max,
            held_max: limits.queue_max,
            held_time_max: limits.wait_timeout,
            ..router::Limits::default()
        };
        let cluster = Arc::new(Cluster {
            config: config.clone(),
            home: home.clone(),
            sharded: Arc::default(),
            subscribing: Mutex::default(),
            state: Mutex::new(State::new(limits, seed)),
            changed: Notify::new(),
            runtime: Handle::current(),
            this: OnceLock::new(),
            seed,
        });
        let _ = cluster.this.set(Arc::downgrade(&cluster));
        // The commands that modules and later versions add to the table are asked for in the same
        // trip.
        let deadline = home.context.deadline(Some(TOPOLOGY_TIMEOUT));
        let command = Item::new(Command::new("COMMAND"), None);
        let mut described = Pending::of(home.send(Call::one(command, deadline)));
        let topology = ask(home).await;
        let (described, _) = std::future::poll_fn(|cx| described.poll(cx)).await;
        // No command of a caller was sent yet.
        let topology = topology.map_err(|error| error.with_outcome(Outcome::NotSent))?;
        cluster.with(|state, now| {
            // A user that may not ask has the built-in table.
            if let Ok((reply, _)) = onetrip_redis::Reply::read(&described) {
                state.router.learn(Described::read(&reply));
            }
            // The router first asks for the topology; this is the answer.
            state.router.handle_time(now);
            while let Some(output) = state.router.poll_output() {
                debug_assert!(matches!(output, Output::Refresh { .. }));
            }
            state.router.handle_topology(now, &topology);
        });
        tokio::spawn(watch(Watch(cluster.clone())));
        Ok(cluster)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        self.home.context.now()
    }

    /// Changes the router, and does what it then requests.
    fn with<R>(&self, change: impl FnOnce(&mut State, Time) -> R) -> R {
        let mut state = self.lock();
        let now = self.now();
        let result = change(&mut state, now);
        self.settle(&mut state, now);
        let wakers = std::mem::take(&mut state.wakers);
        let to_ask = std::mem::take(&mut state.to_ask);
        let deadline = state.next_deadline();
        if deadline < state.armed || state.is_over() {
            state.armed = deadline;
            self.changed.notify_one();
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        to_ask.into_iter().for_each(|from| self.ask_for_topology(from));
        result
    }

    fn settle(&self, state: &mut State, now: Time) {
        loop {
            while let Some(output) = state.router.poll_output() {
                self.act(state, output);
            }
            if state.landed.is_empty() {
                break;
            }
            for (flight, landed) in std::mem::take(&mut state.landed) {
                report(state, now, flight, landed);
            }
        }
    }

    fn act(&self, state: &mut State, output: Output) {
        match output {
            Output::Send { flight, node, asking } => self.send_flight(state, flight, node, asking),
            Output::Finish { token, result } => finish(state, token, result),
            Output::Refresh { from } => state.to_ask.push(from),
            Output::Open { node, address } => {
                let reads_replica = self.config.replica_reads;
                let target = Target::node(&address.host, address.port, reads_replica);
                let seed = self.seed ^ u64::from(state.next_caller as u32);
                let opened = self.new_node(node, &target, seed);
                state.nodes.insert(node, Arc::new(opened));
            }
            Output::Unsubscribe { node, channel } => state.unsubscribe(node, &channel),
            Output::Resubscribed { channel } => self.resubscribed(channel),
            Output::Close { node } => {
                if let Some(node) = state.nodes.remove(&node) {
                    node.close();
                }
            }
        }
    }

    fn send_flight(&self, state: &mut State, flight: FlightId, node: NodeId, asking: bool) {
        let State { router, nodes, callers, landed, .. } = state;
        let (Some(command), Some(token)) = (router.command(flight), router.token(flight)) else {
            return;
        };
        let (own, deadline) = match callers.get(&token.0) {
            Some(caller) => (caller.body.clone(), caller.deadline),
            None if token == SUBSCRIBES_AGAIN => (None, Time::NEVER),
            None => return,
        };
        let body = own.unwrap_or_else(|| Body::of(command));
        let body = if asking { Body::Asking(Box::new(body)) } else { body };
        let call = Call { flight: Some(flight), ..Call::of(body, deadline) };
        let Some(node) = nodes.get(&node) else {
            let error = Error::misuse("unknown_node", "the node is no longer part of the cluster");
            return landed.push((flight, Landed::Failed(error)));
        };
        if let Sent::Refused(error) = node.send(call) {
            landed.push((flight, Landed::Failed(error)));
        }
    }

    fn new_node(&self, id: NodeId, target: &Target, seed: u64) -> Node {
        let (limits, totals) = (self.config.limits.clone(), self.home.context.totals.clone());
        let context = Shared::new(limits, true, totals, self.sharded.clone(), None);
        if let Some(this) = self.this.get() {
            let landing: Weak<dyn Landing + Send + Sync> = this.clone();
            context.set_landing(landing, id);
        }
        // Its pools start tasks, and this may be called on any thread.
        let _entered = self.runtime.enter();
        let node = Node::new(&self.config, target, seed, context);
        node.shared.watch();
        node
    }

    /// All nodes at the moment.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.lock().nodes.values().cloned().collect()
    }

    /// Closed to new calls; commands that were sent are still answered.
    pub(crate) fn close(&self) {
        self.with(|state, _| {
            state.closed = true;
            state.nodes.values().for_each(|node| node.close());
        });
        self.sharded.close().into_iter().for_each(Waker::wake);
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cluster({})", self.config.redacted_url())
    }
}

impl Landing for Cluster {
    fn landed(&self, node: NodeId, flights: Vec<(FlightId, Landed)>, unsubscribed: Vec<Bytes>) {
        self.with(|state, now| {
            for (flight, landed) in flights {
                landing::report(state, now, flight, landed);
            }
            for channel in unsubscribed {
                state.router.handle_unsubscribed(now, node, &channel);
            }
        });
    }

    fn connected(&self, node: NodeId) {
        self.with(|state, now| state.router.handle_connected(now, node));
    }

    fn disconnected(&self, node: NodeId) {
        self.with(|state, now| state.router.handle_disconnected(now, node));
    }
}
