//! Redis Sentinel: the host of the policy in [`onetrip_redis::client::sentinel`]. It opens the
//! connections to Sentinels that the policy names, and tells the pools of the client which server
//! to connect to.
//!
//! Its lock is taken under no other lock, and no other lock is taken under it.

mod line;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_redis::client::sentinel::{Limits, LineId, Output, Role, Sentinels, Server, Settings};
use onetrip_redis::redirect::Address;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::config::{self, Config};
use super::connect::{Target, connect_to};
use super::link::{Link, Loss, PoolSlot, Shared};
use super::pool::wait_until;
use super::seat::{Leave, Seat};
use crate::{Error, Kind, Outcome};

/// What the clones of a client know of its Sentinels.
pub(crate) struct Discovery {
    config: Arc<Config>,
    clock: Arc<Shared>,
    state: Mutex<State>,
    /// The timer's deadline may have changed.
    changed: Notify,
    /// Counts what the policy has said.
    news: watch::Sender<u64>,
    runtime: Handle,
}

struct State {
    policy: Sentinels,
    lines: HashMap<LineId, AbortHandle>,
    pools: Vec<(Role, Weak<dyn Leave>)>,
    is_closed: bool,
}

/// What a pool needs to find its server: who knows it, and in which role.
#[derive(Clone)]
struct Seated {
    discovery: Arc<Discovery>,
    role: Role,
}

/// Where a client that is being opened finds its servers.
pub(crate) struct Sentinel {
    pub(crate) master: Target,
    /// For reads, if they go to a replica.
    pub(crate) replica: Option<Target>,
    /// Taken by the client once it is open.
    pub(crate) discovery: Option<Arc<Discovery>>,
}

impl Sentinel {
    /// Begins to ask the Sentinels, if the servers of the configuration are such.
    pub(crate) fn start(
        config: &Arc<Config>,
        clock: &Arc<Shared>,
        seed: u64,
    ) -> Result<Sentinel, Error> {
        let Some(sentinel) = &config.sentinel else {
            return Ok(Sentinel { master: Target::of(config), replica: None, discovery: None });
        };
        let discovery = Discovery::start(config, sentinel, clock, seed)?;
        let seated = |role| Target::seated(config, discovery.seat(role));
        Ok(Sentinel {
            master: seated(Role::Master),
            replica: (sentinel.reads != config::Reads::Master).then(|| seated(Role::Replica)),
            discovery: Some(discovery),
        })
    }
}

/// If no client came of it, the Sentinels are not asked any more.
impl Drop for Sentinel {
    fn drop(&mut self) {
        self.discovery.iter().for_each(|discovery| discovery.close());
    }
}

impl std::fmt::Debug for Seated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seat({})", self.role)
    }
}

impl Discovery {
    /// Begins to ask. The tasks end when the client is closed.
    fn start(
        config: &Arc<Config>,
        sentinel: &config::Sentinel,
        clock: &Arc<Shared>,
        seed: u64,
    ) -> Result<Arc<Discovery>, Error> {
        let address = |server: config::Server| match server {
            config::Server::Tcp { host, port } => Address::new(&host, port),
            config::Server::Unix(_) => None,
        };
        let sentinels: Option<Vec<Address>> = config.servers().into_iter().map(address).collect();
        let sentinels = sentinels.ok_or_else(|| {
            Error::misuse("config", "Sentinels are reached by TCP, by a name or an address")
        })?;
        let settings = Settings {
            name: sentinel.master.clone(),
            sentinels,
            login: sentinel.login.clone(),
            wants_replicas: sentinel.reads != config::Reads::Master,
            limits: Limits::default(),
        };
        let discovery = Arc::new(Discovery {
            config: config.clone(),
            clock: clock.clone(),
            state: Mutex::new(State {
                policy: Sentinels::new(settings, seed),
                lines: HashMap::new(),
                pools: Vec::new(),
                is_closed: false,
            }),
            changed: Notify::new(),
            news: watch::Sender::new(0),
            runtime: Handle::current(),
        });
        tokio::spawn(tick(discovery.clone()));
        Ok(discovery)
    }

    fn seat(self: &Arc<Self>, role: Role) -> Arc<Seated> {
        Arc::new(Seated { discovery: self.clone(), role })
    }

    /// Asks nobody any more.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.policy.close();
        state.lines.drain().for_each(|(_, task)| task.abort());
        drop(state);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the policy, does what it then says, and sets the timer anew.
    fn with(self: &Arc<Self>, change: impl FnOnce(&mut Sentinels, Time)) {
        self.apply(change);
        self.changed.notify_one();
    }

    fn apply(self: &Arc<Self>, change: impl FnOnce(&mut Sentinels, Time)) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        change(&mut state.policy, self.clock.now());
        let (mut is_news, mut leaving) = (false, Vec::new());
        while let Some(output) = state.policy.poll_output() {
            match output {
                Output::Open { line, address, send } => {
                    let task = line::run(self.clone(), line, address, send);
                    let task = self.runtime.spawn(task);
                    state.lines.insert(line, task.abort_handle());
                }
                Output::Close { line } => {
                    if let Some(task) = state.lines.remove(&line) {
                        task.abort();
                    }
                }
                Output::Changed(role) => {
                    is_news = true;
                    let number = state.policy.server(role).map(|server| server.number);
                    state.pools.retain(|(_, pool)| pool.strong_count() > 0);
                    let pools = state.pools.iter().filter(|(of, _)| *of == role);
                    leaving.extend(pools.map(|(_, pool)| (pool.clone(), number)));
                }
                Output::NotFound => is_news = true,
            }
        }
        drop(state);
        if is_news {
            self.news.send_modify(|count| *count += 1);
        }
        for (pool, number) in leaving {
            if let Some(pool) = pool.upgrade() {
                pool.leave(number);
            }
        }
    }
}

/// Runs the timer.
async fn tick(this: Arc<Discovery>) {
    loop {
        this.apply(Sentinels::handle_time);
        let (is_closed, due) = {
            let state = this.lock();
            (state.is_closed, state.policy.poll_deadline())
        };
        if is_closed {
            return;
        }
        let due = due.map(|due| this.clock.instant(due));
        tokio::select! {
            () = this.changed.notified() => {}
            () = wait_until(due) => {}
        }
    }
}

impl Loss for Seated {
    fn lost(&self, number: u64, why: &str) {
        self.discovery.with(|policy, now| policy.handle_lost(now, self.role, number, why));
    }
}

impl Seat for Seated {
    fn belongs_to(&self, pool: Weak<dyn Leave>) {
        self.discovery.lock().pools.push((self.role, pool));
    }

    fn connect<'a>(
        self: Arc<Self>,
        config: &'a Config,
        target: &'a Target,
        context: &'a Arc<Shared>,
        pool_slot: PoolSlot,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<Link>, Error>> + Send + 'a>> {
        Box::pin(async move { self.connect_it(config, target, context, pool_slot).await })
    }
}

impl Seated {
    /// Connects to the server, once it is known. Gives an attempt up when the server is another one
    /// meanwhile.
    async fn connect_it(
        &self,
        config: &Config,
        target: &Target,
        context: &Arc<Shared>,
        pool_slot: PoolSlot,
    ) -> Result<Arc<Link>, Error> {
        loop {
            let server = self.find(config.limits.wait_timeout).await?;
            let number = server.number;
            let to = target.on(&server.address.host, server.address.port, self.role);
            let slot = pool_slot.clone().seated(Arc::new(self.clone()), number);
            let result = tokio::select! {
                result = connect_to(config, &to, context, slot) => result,
                () = self.leaves(number) => continue,
            };
            let role = self.role;
            match &result {
                Ok(_) => self.discovery.with(|policy, now| policy.handle_ready(now, role, number)),
                Err(error) => Loss::lost(self, number, &error.to_string()),
            }
            return result;
        }
    }

    /// The server, once it is known.
    async fn find(&self, limit: Duration) -> Result<Server, Error> {
        let found = tokio::time::timeout(limit, self.until(Option::is_some)).await;
        found.ok().flatten().ok_or_else(|| {
            let message = self.discovery.lock().policy.not_found(self.role);
            Error::new(Kind::Transport, Outcome::NotSent, "sentinel", message)
        })
    }

    /// Resolves when another server has the role.
    async fn leaves(&self, number: u64) {
        let is_other =
            |server: &Option<Server>| server.as_ref().is_some_and(|server| server.number != number);
        self.until(is_other).await;
    }

    async fn until(&self, is_so: impl Fn(&Option<Server>) -> bool) -> Option<Server> {
        let mut news = self.discovery.news.subscribe();
        loop {
            news.borrow_and_update();
            let server = self.discovery.lock().policy.server(self.role);
            if is_so(&server) {
                return server;
            }
            if news.changed().await.is_err() {
                return None;
            }
        }
    }
}
