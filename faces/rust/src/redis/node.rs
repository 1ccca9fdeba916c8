//! One server: its shared connection, and the connections that it lends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use onetrip_engine::pool::Condition;
use onetrip_engine::{Time, Token};
use onetrip_redis::redirect::Address;

use super::cached::Cached;
use super::call::{Body, Call};
use super::cluster::cell;
use super::config::Config;
use super::connect::Target;
use super::link::{Home, Link, Shared};
use super::place::Cell;
use super::pool::{Pool, Purpose};
use crate::Error;

/// One server.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) shared: Arc<Pool>,
    pub(crate) own: Arc<Pool>,
    pub(crate) context: Arc<Shared>,
    /// With RESP2, the pool of the connection for subscriptions, once there was one.
    subscriptions: OnceLock<Arc<Pool>>,
    is_closed: AtomicBool,
    seed: u64,
}

/// Where a call is.
#[derive(Debug)]
pub(crate) enum Sent {
    /// Refused before anything was sent.
    Refused(Error),
    /// Sent on the shared connection.
    Here(Arc<Link>, Token),
    /// It waits for a connection.
    Later(Arc<Cell>),
    /// Sent somewhere in a cluster.
    Cluster(Arc<cell::Cell>),
}

impl Node {
    /// The shared connection is opened once the pool is [watched](Pool::watch), or by
    /// [`open_first`](Pool::open_first).
    pub(crate) fn new(
        config: &Arc<Config>,
        target: &Target,
        seed: u64,
        context: Arc<Shared>,
    ) -> Node {
        let pool = |purpose, seed| {
            let tracks = purpose == Purpose::Shared && context.cached.is_some();
            Pool::new(config, target.tracking(tracks), &context, purpose, seed)
        };
        let own = pool(Purpose::Own, seed.rotate_left(32));
        own.watch();
        Node {
            shared: pool(Purpose::Shared, seed),
            own,
            context,
            subscriptions: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            seed: seed.rotate_left(16),
        }
    }

    /// Sends calls on the shared connection, one behind the other, or lets them wait until there is
    /// one.
    pub(crate) fn send(&self, call: Call) -> Sent {
        send_on(&self.shared, call)
    }

    /// Waits for a connection of its own for a call.
    pub(crate) fn send_own(&self, call: Call) -> Arc<Cell> {
        let deadline = call.deadline;
        let cell = Cell::new(Some(call), deadline);
        self.own.wait(&cell);
        cell
    }

    /// The address of the shared connection, to which addresses in a topology may be relative.
    pub(crate) fn server_address(&self) -> Result<Address, Error> {
        let address = self.shared.current().and_then(|link| {
            let core = link.lock();
            let (host, port) = core.route.host()?;
            Address::new(&host, port)
        });
        address.ok_or_else(|| Error::misuse("config", "a cluster is reached by TCP"))
    }

    /// Gets in line for a connection of the caller's own.
    pub(crate) fn wait_for_own(&self, deadline: Time) -> Waiting {
        let waiting = Waiting(Cell::new(None, deadline), self.own.clone());
        self.own.wait(&waiting.0);
        waiting
    }

    /// Sends a subscription: on the shared connection, or with RESP2 on the connection for
    /// subscriptions.
    pub(crate) fn send_subscribing(&self, call: Call) -> Sent {
        match self.context.is_resp3() && !self.subscribes_apart() {
            true => self.send(call),
            false => send_on(self.subscriber(), call),
        }
    }

    fn subscriber(&self) -> &Arc<Pool> {
        let pool = self.subscriptions.get_or_init(|| {
            // The pool starts a task, and this may be called on any thread.
            let _entered = self.shared.enter();
            let target = self.shared.target.subscriber();
            let context = &self.context;
            let pool = Pool::new(&self.shared.config, target, context, Purpose::Shared, self.seed);
            pool.watch();
            pool
        });
        if self.is_closed.load(Ordering::SeqCst) {
            // The pool was made after the others were closed.
            pool.close();
        }
        pool
    }

    /// How many callers wait for a connection.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.waiting() + self.own.waiting()
    }

    /// Closed to new calls; calls that were submitted are still answered.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.shared.close();
        self.own.close();
        self.context.cached.iter().for_each(Cached::close);
        // A subscription has no end that could be waited for.
        self.subscriptions.get().into_iter().for_each(|pool| pool.cut());
        // Nodes of a cluster share their readers.
        if !self.shared.target.is_node() {
            self.context.pushes.close().into_iter().for_each(Waker::wake);
        }
    }
}

impl Drop for Node {
    /// Its connections and tasks end with it, even if it never became part of a client.
    fn drop(&mut self) {
        self.close();
    }
}

fn send_on(pool: &Arc<Pool>, call: Call) -> Sent {
    let Some(link) = pool.current() else { return wait_for(pool, call) };
    match link.submit(call) {
        Ok(token) => Sent::Here(link, token),
        // It ended just now, and another one will come.
        Err((call, error)) if error.is_connection_lost() => wait_for(pool, call),
        Err((_, error)) => Sent::Refused(error),
    }
}

fn wait_for(pool: &Arc<Pool>, call: Call) -> Sent {
    let deadline = call.deadline;
    let cell = Cell::new(Some(call), deadline);
    pool.wait(&cell);
    Sent::Later(cell)
}

/// A place in line for a connection, which is left when this is dropped.
pub(crate) struct Waiting(Arc<Cell>, Arc<Pool>);

impl Waiting {
    /// The connection, once there is one.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Result<Lease, Error>> {
        self.0.poll(cx).map_ok(|placed| Lease::new(placed.link))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(placed) = self.0.give_up() {
            self.1.release(&placed.link, Condition::Clean);
        }
    }
}

impl Home for Node {
    /// Whether there is a connection for subscriptions. It stays, even if RESP3 is spoken later: a
    /// channel that is subscribed twice would deliver each message twice.
    fn subscribes_apart(&self) -> bool {
        self.subscriptions.get().is_some()
    }

    /// The shared connection came back without RESP3: subscriptions move to a connection of their
    /// own.
    fn move_subscriptions_apart(self: Arc<Self>) {
        if !self.subscribes_apart() && !self.context.pushes.all().is_empty() {
            self.subscriber().follow_another();
        }
    }
}

/// A connection that is lent until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) link: Arc<Link>,
    /// Whether its state was changed, so that nobody else can use it.
    pub(crate) is_spoiled: bool,
    /// Whether a blocking command was sent, which may never end.
    has_blocked: AtomicBool,
}

impl Lease {
    pub(crate) fn new(link: Arc<Link>) -> Lease {
        Lease { link, is_spoiled: false, has_blocked: AtomicBool::new(false) }
    }

    /// Notes that a blocking command is sent.
    pub(crate) fn has_blocked(&self) {
        self.has_blocked.store(true, Ordering::Relaxed);
    }

    /// Sends UNWATCH, if everything is answered. Returns whether it was sent. If the server refuses
    /// it, the connection is closed.
    pub(crate) fn unwatch(&self) -> bool {
        if !self.link.lock().engine.is_idle() {
            return false;
        }
        let (body, deadline) = (Body::Unwatch, Time::NEVER);
        let sent = self.link.submit(Call::of(body, deadline));
        sent.is_ok_and(|token| {
            self.link.forget(token);
            true
        })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(pool) = self.link.pool_slot.owner() else { return };
        let has_blocked = self.has_blocked.load(Ordering::Relaxed);
        let at_rest = {
            let core = self.link.lock();
            core.engine.is_idle() || (!has_blocked && core.nobody_waits())
        };
        if at_rest && !self.is_spoiled {
            return pool.release(&self.link, Condition::Clean);
        }
        // It says goodbye when everything is answered.
        pool.release(&self.link, Condition::Broken);
        if !at_rest && has_blocked {
            // The blocking command may never end.
            self.link.abort(super::link::closed());
        }
    }
}
