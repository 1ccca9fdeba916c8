//! A cluster: the host of the policy in [`onetrip_redis::router`]. It has a [`Node`] for each node of the
//! cluster, and one for the servers of the configuration, which is asked for the topology at first and carries
//! the subscriptions.
//!
//! Its lock is taken before those of pools and connections, never under them: what a connection has to
//! say it says with its own lock released ([`Landing`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use onetrip_engine::{Outcome, RetryLimits, Time, Token};
use onetrip_redis::router::{self, Failed, FlightId, How, NodeId, Output, Refused, Router, Why};
use onetrip_redis::slots::slot_of;
use onetrip_redis::table::Described;
use onetrip_redis::topology::Topology;
use onetrip_redis::{Command, Spec};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::call::{Body, Call, Item};
use super::config::Config;
use super::connect::Target;
use super::frames::Frames;
use super::link::{Landed, Landing};
use super::node::{Node, Sent};
use super::sent::Pending;
use crate::error::CONNECTION_LOST;
use crate::pool::runtime_gone;
use crate::{Error, Kind};

/// One cluster.
pub(crate) struct Cluster {
    config: Arc<Config>,
    /// The servers of the configuration.
    home: Arc<Node>,
    state: Mutex<State>,
    /// The timer's deadline may have changed.
    changed: Notify,
    runtime: Handle,
    this: OnceLock<Weak<Cluster>>,
    seed: u64,
}

struct State {
    router: Router,
    nodes: HashMap<NodeId, Arc<Node>>,
    callers: HashMap<u64, Caller>,
    next_caller: u64,
    /// Why a connection was lost last.
    last_error: Option<Error>,
    /// Who is to be woken once the lock is released.
    wakers: Vec<Waker>,
    /// What failed before it was sent, to be reported once the outputs are taken.
    landed: Vec<(FlightId, Landed)>,
    /// Whom to ask for the topology, once the lock is released.
    to_ask: Vec<Option<NodeId>>,
    armed: Time,
    /// No deadline of a caller lies before this moment.
    earliest: Time,
    closed: bool,
    /// Why, if not by its owner.
    closed_because: Option<Error>,
}

impl State {
    /// Whether nothing is left to be done.
    fn is_over(&self) -> bool {
        self.closed && self.router.unanswered() == 0
    }

    fn next_deadline(&self) -> Time {
        self.router.poll_deadline().unwrap_or(Time::NEVER).min(self.earliest)
    }
}

/// Who waits for a command.
struct Caller {
    cell: Arc<Cell>,
    deadline: Time,
    was_sent: bool,
    /// Parts of it that are with connections, which watch the deadline then.
    on_the_way: usize,
    /// Some of it was answered, or nobody knows what became of it.
    may_have_run: bool,
    /// What is sent where it is no plain command.
    body: Option<Body>,
}

/// What became of a command.
#[derive(Debug, Default)]
pub(crate) struct Cell(Mutex<Ending>);

#[derive(Debug, Default)]
struct Ending {
    result: Option<Result<Bytes, Error>>,
    waker: Option<Waker>,
}

impl Cell {
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Result<Bytes, Error>> {
        let mut cell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match cell.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                cell.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn settle(&self, result: Result<Bytes, Error>) -> Option<Waker> {
        let mut cell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cell.result = Some(result);
        cell.waker.take()
    }
}

/// How long a node may take to say what the cluster looks like.
const TOPOLOGY_TIMEOUT: Duration = Duration::from_secs(3);

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
            // With pauses of up to a second: longer than one may wait.
            retry: RetryLimits { attempts_max: 20, ..RetryLimits::default() },
            held_max: limits.queue_max,
            held_time_max: limits.wait_timeout,
            ..router::Limits::default()
        };
        let cluster = Arc::new(Cluster {
            config: config.clone(),
            home: home.clone(),
            state: Mutex::new(State {
                router: Router::new(limits, seed),
                nodes: HashMap::new(),
                callers: HashMap::new(),
                next_caller: 0,
                last_error: None,
                wakers: Vec::new(),
                landed: Vec::new(),
                to_ask: Vec::new(),
                armed: Time::NEVER,
                earliest: Time::NEVER,
                closed: false,
                closed_because: None,
            }),
            changed: Notify::new(),
            runtime: Handle::current(),
            this: OnceLock::new(),
            seed,
        });
        let _ = cluster.this.set(Arc::downgrade(&cluster));
        // What modules and later versions add to the table; in the trip of the topology.
        let deadline = home.context.deadline(Some(TOPOLOGY_TIMEOUT));
        let command = Item::new(Command::new("COMMAND"), None);
        let mut described = Pending::of(home.send(Call::one(command, deadline)));
        let topology = ask(home).await;
        let (described, _) = std::future::poll_fn(|cx| described.poll(cx)).await;
        // Of what the client is for nothing was sent yet.
        let topology = topology.map_err(|error| error.with_outcome(Outcome::NotSent))?;
        cluster.with(|state, now| {
            // Who may not ask has the table.
            if let Ok((reply, _)) = onetrip_redis::Reply::read(&described) {
                state.router.learn(Described::read(&reply));
            }
            // It asks first, and this is the answer.
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

    /// Changes the router and does what it then says.
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
            Output::Finish { token, result } => {
                let Some(caller) = state.callers.remove(&token.0) else { return };
                let result = result.map_err(|failed| error_of(failed, state.last_error.as_ref()));
                state.wakers.extend(caller.cell.settle(result));
            }
            Output::Refresh { from } => state.to_ask.push(from),
            Output::Open { node, address } => {
                let reads_replica = self.config.replica_reads;
                let target = Target::node(&address.host, address.port, reads_replica);
                let seed = self.seed ^ u64::from(state.next_caller as u32);
                let opened = self.new_node(&target, seed);
                if let Some(this) = self.this.get() {
                    let landing: Weak<dyn Landing + Send + Sync> = this.clone();
                    opened.context.set_landing(landing);
                }
                state.nodes.insert(node, Arc::new(opened));
            }
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
        let Some(caller) = callers.get_mut(&token.0) else {
            // Nobody waits for it any more.
            return landed.push((flight, Landed::Reply(Bytes::from_static(GONE))));
        };
        caller.was_sent = true;
        caller.on_the_way += 1;
        let body = match &caller.body {
            Some(body) => body.clone(),
            None => Body::One(Item::new(command.clone(), Spec::of(command))),
        };
        let call = Call {
            body: if asking { Body::Asking(Box::new(body)) } else { body },
            deadline: caller.deadline,
            metered: false,
            flight: Some(flight),
        };
        let Some(node) = nodes.get(&node) else {
            let error = Error::misuse("unknown_node", "the node is no longer part of the cluster");
            return landed.push((flight, Landed::Failed(error)));
        };
        if let Sent::Refused(error) = node.send(call) {
            landed.push((flight, Landed::Failed(error)));
        }
    }

    fn new_node(&self, target: &Target, seed: u64) -> Node {
        // Its pools have tasks, and this may be called from anywhere.
        let _entered = self.runtime.enter();
        Node::new(&self.config, target, seed, self.home.context.totals.clone())
    }

    // --- what callers want ---

    /// Sends a command to where its keys are.
    pub(crate) fn send(&self, item: Item, deadline: Time, repeatable: bool) -> Sent {
        let Item { command, script, leaves } = item;
        if script.is_some() {
            let slot =
                keys_slot(&[Item { command: command.clone(), script: script.clone(), leaves }]);
            let slot = match slot {
                Ok(slot) => slot,
                Err(error) => return Sent::Refused(error),
            };
            let how = How { slot: Some(slot), repeatable, from_replica: false };
            let body = Body::One(Item { command, script, leaves });
            return self.submit(Command::new("EVAL"), how, deadline, Some(body));
        }
        let from_replica = self.config.replica_reads;
        self.submit(command, How { repeatable, from_replica, slot: None }, deadline, None)
    }

    /// Sends a list that runs as a whole to where all its keys are.
    pub(crate) fn send_atomic(&self, items: Vec<Item>, deadline: Time) -> Sent {
        match keys_slot(&items) {
            Ok(slot) => {
                let how = How { slot: Some(slot), ..How::default() };
                self.submit(Command::new("MULTI"), how, deadline, Some(Body::Atomic(items)))
            }
            Err(error) => Sent::Refused(error),
        }
    }

    fn submit(&self, command: Command, how: How, deadline: Time, body: Option<Body>) -> Sent {
        self.with(|state, now| {
            if state.closed {
                let because = state.closed_because.clone();
                return Sent::Refused(because.unwrap_or_else(super::link::closed));
            }
            let token = state.next_caller;
            state.next_caller += 1;
            let cell = Arc::new(Cell::default());
            state.earliest = state.earliest.min(deadline);
            state.callers.insert(
                token,
                Caller {
                    cell: cell.clone(),
                    deadline,
                    was_sent: false,
                    on_the_way: 0,
                    may_have_run: false,
                    body,
                },
            );
            match state.router.submit(now, Token(token), command, how) {
                Ok(()) => Sent::Cluster(cell),
                Err(refused) => {
                    state.callers.remove(&token);
                    Sent::Refused(refusal(&refused))
                }
            }
        })
    }

    /// The node that has a command's keys, for what needs a connection of its own.
    pub(crate) fn node_of(&self, command: &Command) -> Result<Arc<Node>, Error> {
        let slot = match Spec::of(command) {
            Some(spec) => slot_of_keys(spec.keys(command))?,
            None => None,
        };
        let state = self.lock();
        let node = match slot {
            Some(slot) => state.router.node_of(slot),
            None => state.nodes.keys().next().copied(),
        };
        let node = node.and_then(|node| state.nodes.get(&node));
        node.cloned().ok_or_else(|| {
            let message = "no node of the cluster has the hash slot of the keys at the moment";
            Error::new(Kind::Transport, Outcome::NotSent, "unserved_slot", message)
        })
    }

    /// The node that has a key.
    pub(crate) fn node_of_key(&self, key: &[u8]) -> Result<Arc<Node>, Error> {
        self.node_of(&Command::new("GET").arg(key))
    }

    /// All nodes at the moment.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.lock().nodes.values().cloned().collect()
    }

    /// No new calls come: what was sent is still answered.
    pub(crate) fn close(&self) {
        self.with(|state, _| {
            state.closed = true;
            state.nodes.values().for_each(|node| node.close());
        });
    }

    // --- the topology ---

    fn ask_for_topology(&self, from: Option<NodeId>) {
        let Some(this) = self.this.get().cloned() else { return };
        let node = from.and_then(|node| self.lock().nodes.get(&node).cloned());
        let node = node.unwrap_or_else(|| self.home.clone());
        let home = self.home.clone();
        self.runtime.spawn(async move {
            let mut answer = ask(&node).await;
            if answer.is_err() && !Arc::ptr_eq(&node, &home) {
                answer = ask(&home).await;
            }
            let Some(cluster) = this.upgrade() else { return };
            cluster.with(|state, now| match answer {
                Ok(topology) => state.router.handle_topology(now, &topology),
                Err(error) => {
                    state.last_error = Some(error);
                    state.router.handle_no_topology(now);
                }
            });
        });
    }

    fn tick(&self) -> Option<Time> {
        self.with(|state, now| {
            state.router.handle_time(now);
            expire(state, now);
            // The timer is set below, so it need not be told of an earlier deadline.
            state.armed = Time::ZERO;
        });
        let mut state = self.lock();
        state.armed = state.next_deadline();
        (!state.is_over()).then_some(state.armed)
    }
}

impl Landing for Cluster {
    fn landed(&self, landed: Vec<(FlightId, Landed)>) {
        self.with(|state, now| {
            for (flight, landed) in landed {
                report(state, now, flight, landed);
            }
        });
    }
}

/// Ends the wait of callers whose time is over while nothing of theirs is on its way.
fn expire(state: &mut State, now: Time) {
    if state.earliest > now {
        return;
    }
    let late = |caller: &Caller| caller.deadline <= now && caller.on_the_way == 0;
    let tokens: Vec<u64> =
        state.callers.iter().filter(|(_, caller)| late(caller)).map(|(token, _)| *token).collect();
    for token in tokens {
        if let Some(caller) = state.callers.remove(&token) {
            let outcome = match (caller.may_have_run, caller.was_sent) {
                (true, _) => Outcome::Unknown,
                (false, true) => Outcome::Rejected,
                (false, false) => Outcome::NotSent,
            };
            state.wakers.extend(caller.cell.settle(Err(super::error::deadline(outcome))));
        }
    }
    let left = state.callers.values().filter(|caller| caller.on_the_way == 0);
    state.earliest = left.map(|caller| caller.deadline).min().unwrap_or(Time::NEVER);
}

/// A part of a command is no longer on its way. It may have to wait here before it is sent again.
fn note_landing(state: &mut State, flight: FlightId, landed: &Landed) {
    let caller = state.router.token(flight).and_then(|token| state.callers.get_mut(&token.0));
    let Some(caller) = caller else { return };
    caller.on_the_way = caller.on_the_way.saturating_sub(1);
    caller.may_have_run |= match landed {
        Landed::Reply(block) => !block.starts_with(b"-"),
        Landed::Failed(error) => matches!(error.outcome(), Outcome::Unknown | Outcome::Applied),
    };
    if caller.on_the_way == 0 {
        state.earliest = state.earliest.min(caller.deadline);
    }
}

fn report(state: &mut State, now: Time, flight: FlightId, landed: Landed) {
    note_landing(state, flight, &landed);
    match landed {
        Landed::Reply(block) => {
            let block = match state.router.token(flight) {
                Some(token) => of_list(state, token, block),
                None => block,
            };
            state.router.handle_reply(now, flight, block);
        }
        Landed::Failed(error) if error.kind() == Kind::Timeout => {
            // Its time is over, so it is not sent again.
            let caller =
                state.router.token(flight).and_then(|token| state.callers.remove(&token.0));
            let ended = |caller: Caller| {
                let known = if caller.may_have_run { Outcome::Unknown } else { error.outcome() };
                caller.cell.settle(Err(error.with_outcome(known)))
            };
            state.wakers.extend(caller.and_then(ended));
            state.router.handle_reply(now, flight, Bytes::from_static(GONE));
        }
        Landed::Failed(error) => {
            let outcome = error.outcome();
            state.last_error = Some(error);
            state.router.handle_failed(now, flight, outcome);
        }
    }
}

/// Ends what nobody waits for.
const GONE: &[u8] = b"-ERR nobody waits for it\r\n";

/// Of the replies to a list that was refused because of where it went, the one that says so.
fn of_list(state: &State, token: Token, block: Bytes) -> Bytes {
    let is_list = |caller: &Caller| matches!(caller.body, Some(Body::Atomic(_)));
    if !state.callers.get(&token.0).is_some_and(is_list) {
        return block;
    }
    const ELSEWHERE: [&[u8]; 6] =
        [b"-MOVED ", b"-ASK ", b"-TRYAGAIN", b"-CLUSTERDOWN", b"-LOADING", b"-MASTERDOWN"];
    let elsewhere = |frame: &Bytes| ELSEWHERE.iter().any(|word| frame.starts_with(word));
    Frames::new(block.clone()).find(elsewhere).unwrap_or(block)
}

/// Asks a node what the cluster looks like.
async fn ask(node: &Node) -> Result<Topology, Error> {
    let item = Item::new(Command::new("CLUSTER SLOTS"), None);
    let deadline = node.context.deadline(Some(TOPOLOGY_TIMEOUT));
    let mut pending = Pending::of(node.send(Call::one(item, deadline)));
    let (block, result) = std::future::poll_fn(|cx| pending.poll(cx)).await;
    result.map_err(|error| error.about("asking for the topology of the cluster"))?;
    let from = node.server_address()?;
    let reply = onetrip_redis::Reply::read(&block).ok().map(|(reply, _)| reply);
    let topology = reply.and_then(|reply| Topology::from_slots(&reply, &from).ok());
    topology.ok_or_else(|| {
        let message = "a node's answer to CLUSTER SLOTS can't be understood";
        Error::new(Kind::Protocol, Outcome::NotSent, "malformed_topology", message)
    })
}

/// The one hash slot of all keys of a list; 0 where it has none.
fn keys_slot(items: &[Item]) -> Result<u16, Error> {
    let mut keys: Vec<Bytes> = Vec::new();
    for item in items {
        match &item.script {
            Some(_) => {
                let mut args = item.command.iter();
                let count =
                    args.next().and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
                keys.extend(args.take(count.unwrap_or(0)).map(Bytes::copy_from_slice));
            }
            None => {
                let spec = Spec::of(&item.command);
                let all = spec.into_iter().flat_map(|spec| spec.keys(&item.command));
                keys.extend(all.map(Bytes::copy_from_slice));
            }
        }
    }
    Ok(slot_of_keys(keys.iter().map(|key| &key[..]))?.unwrap_or(0))
}

fn slot_of_keys<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Result<Option<u16>, Error> {
    let mut first: Option<(&[u8], u16)> = None;
    for key in keys {
        let slot = slot_of(key);
        match first {
            Some(first) if first.1 != slot => {
                return Err(refusal(&Refused::cross_slot(first, (key, slot))));
            }
            Some(_) => {}
            None => first = Some((key, slot)),
        }
    }
    Ok(first.map(|(_, slot)| slot))
}

fn refusal(refused: &Refused) -> Error {
    let code = match refused {
        Refused::CrossSlot { .. } => "cross_slot",
        Refused::KeysUnknown(_) => "keys_unknown",
        Refused::NodeByNode(_) => "node_by_node",
        Refused::Full => "queue_full",
    };
    let advice = match refused {
        Refused::KeysUnknown(_) | Refused::NodeByNode(_) => ": send it on a session (session_for)",
        Refused::CrossSlot { .. } | Refused::Full => "",
    };
    Error::misuse(code, format!("{refused}{advice}"))
}

fn error_of(failed: Failed, last: Option<&Error>) -> Error {
    let Failed { outcome, why, reply } = failed;
    match (why, reply, last) {
        (_, Some(reply), _) => super::error::from_frame(&reply, outcome).about(why),
        (Why::Lost | Why::Unserved, None, Some(last)) => last.clone().with_outcome(outcome),
        (Why::Lost, None, None) => {
            Error::new(Kind::Transport, outcome, CONNECTION_LOST, why.to_string())
        }
        _ => Error::new(Kind::Transport, outcome, "cluster", why.to_string()),
    }
}

/// Watches the clock for a cluster until it is closed and nothing is unanswered.
async fn watch(watch: Watch) {
    let this = &watch.0;
    while let Some(next) = this.tick() {
        let sleep = (next != Time::NEVER).then(|| this.home.context.instant(next));
        tokio::select! {
            () = this.changed.notified() => {}
            () = super::pool::wait_until(sleep) => {}
        }
    }
}

/// The cluster while its clock is watched: its owner closes it, and what was sent is answered after that
/// too. Without the runtime that does it nothing is sent any more, and nobody may wait for that.
struct Watch(Arc<Cluster>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.with(|state, _| {
            if !state.closed {
                (state.closed, state.closed_because) = (true, Some(runtime_gone()));
            }
            for (_, caller) in state.callers.drain() {
                let outcome = match caller.was_sent {
                    true => Outcome::Unknown,
                    false => Outcome::NotSent,
                };
                let error = runtime_gone().with_outcome(outcome);
                state.wakers.extend(caller.cell.settle(Err(error)));
            }
        });
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cluster({})", self.config.redacted_url())
    }
}
