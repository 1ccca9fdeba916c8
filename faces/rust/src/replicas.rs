//! The replicas of a client: a pool for each server of its list, and where reads go.
//! [`onetrip_postgres::client::replicas`] decides; this carries it out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onetrip_engine::pool::TextKey;
use onetrip_engine::{Outcome, Time};
use onetrip_postgres::client::moving::{Moving, NO_REPLICA, Step};
use onetrip_postgres::client::position::{Newest, Position};
use onetrip_postgres::client::replicas::{Limits, Outlook, PROBE, Read, Replicas, Report, Status};

use crate::config::{Config, Reads, TargetSessionAttrs};
use crate::executor::Executor;
use crate::guard::{Guard, Standing};
use crate::metrics::ReplicaMetrics;
use crate::pool::Pool;
use crate::statement::unprepared;
use crate::{Error, Kind, Row};

/// The replicas of one client.
pub(crate) struct ReplicaSet {
    reads: Reads,
    primary: Arc<Pool>,
    pools: Vec<Arc<Pool>>,
    /// The servers of the pools, as the configuration names them.
    servers: Vec<String>,
    standing: Arc<Standing>,
    newest: Arc<Mutex<Newest>>,
    /// How long a read waits for a replica that may only go to one.
    wait_timeout: Duration,
}

impl std::fmt::Debug for ReplicaSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplicaSet").field("reads", &self.reads).finish_non_exhaustive()
    }
}

impl ReplicaSet {
    /// The replicas that the configuration of the primary's pool asks for. Nothing is opened yet.
    pub(crate) fn of(primary: &Arc<Pool>) -> Result<Option<Arc<ReplicaSet>>, Error> {
        let config = primary.config();
        let Some(newest) = primary.context.newest.clone() else { return Ok(None) };
        let hosts = config.each_host().map_err(Error::config)?;
        let (servers, configs): (Vec<String>, Vec<Config>) = hosts.into_iter().unzip();
        let pools = configs.into_iter().map(|config| {
            // A server that has been promoted is refused, and so is one that never was a standby.
            let config = config.target_session_attrs(TargetSessionAttrs::Standby);
            Pool::beside(primary, config)
        });
        let pools: Vec<Arc<Pool>> = pools.collect::<Result<_, _>>()?;
        let settings = config.settings();
        let limits = Limits { max_lag: settings.max_lag, ..Limits::default() };
        let standing = Standing::new(Replicas::new(pools.len(), limits));
        Ok(Some(Arc::new(ReplicaSet {
            reads: settings.reads,
            primary: primary.clone(),
            standing: primary.context.standing.get_or_init(|| standing).clone(),
            pools,
            servers,
            newest,
            wait_timeout: settings.wait_timeout,
        })))
    }

    pub(crate) fn pools(&self) -> &[Arc<Pool>] {
        &self.pools
    }

    pub(crate) fn primary(&self) -> &Arc<Pool> {
        &self.primary
    }

    pub(crate) fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, Replicas> {
        self.standing.lock()
    }

    pub(crate) fn metrics(&self) -> Vec<ReplicaMetrics> {
        let of = |(at, pool): (usize, &Arc<Pool>)| {
            let Status { serves, lag, reads, behind } = self.state().status(self.primary.now(), at);
            let server = self.servers[at].clone();
            let pool = crate::metrics::snapshot::of(pool);
            ReplicaMetrics { server, serves, lag, reads, behind, pool }
        };
        self.pools.iter().enumerate().map(of).collect()
    }

    /// A read that must show what is `wanted`, and waits for a replica for up to `bound`.
    pub(crate) fn read(
        &self,
        wanted: onetrip_postgres::client::position::Wanted,
        bound: Option<Duration>,
    ) -> Read {
        let bound = bound.or((self.reads == Reads::Replica).then_some(self.wait_timeout));
        let until = bound.map_or(Time::ZERO, |bound| self.primary.now().after(bound));
        Read { reads: self.reads, wanted, until }
    }

    /// What a read with this text does next.
    pub(crate) fn step(self: &Arc<Self>, way: &mut Moving, key: TextKey) -> Step {
        let outlooks: Vec<Outlook> = self.pools.iter().map(|pool| pool.outlook(key)).collect();
        let (now, primary) = (self.primary.now(), self.primary.outlook(key));
        let newest = self.newest().wanted();
        let mut state = self.state();
        let step = way.step(now, &mut state, newest, &outlooks, primary);
        let probe = state.poll_probe(now);
        drop(state);
        if let Some(at) = probe {
            self.probe(at);
        }
        step
    }

    /// Probes all of which nothing is known.
    pub(crate) fn probe_all(self: &Arc<Self>) {
        loop {
            let probe = self.state().poll_probe(self.primary.now());
            let Some(at) = probe else { return };
            self.probe(at);
        }
    }

    fn probe(self: &Arc<Self>, at: usize) {
        let set = self.clone();
        let Some(pool) = self.pools.get(at).cloned() else { return };
        let executor = Executor::of_pool(&pool).within(PROBE_TIMEOUT);
        self.primary.spawn(async move {
            let answer = executor.run::<Row>(&unprepared(PROBE), &[]).await;
            let report = answer.ok().and_then(|row| {
                let text = |at: usize| row.try_get::<Option<String>>(at).ok().flatten();
                let texts: Vec<Option<String>> = (0..5).map(text).collect();
                Report::read(std::array::from_fn(|at| texts[at].as_deref()))
            });
            let random = getrandom::u64().unwrap_or_default();
            set.state().handle_probe(set.primary.now(), at, report, random);
        });
    }

    /// The guard for this replica.
    pub(crate) fn guard(&self, at: usize, position: Position) -> Guard {
        Guard::new(&self.standing, at, position)
    }

    /// How long a read that waits for a replica pauses.
    pub(crate) fn retry_pause(&self) -> Duration {
        self.state().retry_pause()
    }
}

/// Nobody could serve a read that only replicas may serve.
pub(crate) fn no_replica() -> Error {
    Error::new(Kind::Transport, Outcome::NotSent, "no_replica", NO_REPLICA)
}

/// How long a probe may take, the opening of a connection included.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Every server of the list by itself, with its name.
impl Config {
    fn each_host(&self) -> Result<Vec<(String, Config)>, crate::config::ConfigError> {
        let resolved = self.resolve()?;
        let hosts = resolved.endpoints().iter().enumerate();
        Ok(hosts.map(|(at, endpoint)| (endpoint.to_string(), self.only_host(at))).collect())
    }
}
