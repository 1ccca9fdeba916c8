//! Samples what the server's sessions wait for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onetrip::{Client, Config, Session};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::error::Result;

/// Looks at what sessions wait for, over a session of its own, which stays open from one repetition
/// to the next.
#[derive(Debug)]
pub struct Sampler {
    session: Arc<Session>,
    load: Arc<str>,
    /// Kept because a session doesn't outlive its client.
    _client: Client,
}

impl Sampler {
    /// Opens a session as the configuration says, but with the [name](SAMPLER) of a sampler, to
    /// look at sessions whose `application_name` is `load`.
    ///
    /// # Errors
    /// As [`Client::connect_with`].
    pub async fn connect(config: &Config, load: &str) -> Result<Sampler> {
        let config = config.clone().application_name(SAMPLER).connections_max(1);
        let client = Client::connect_with(&config).await?;
        let session = Arc::new(client.session().await?);
        Ok(Sampler { session, load: load.into(), _client: client })
    }

    /// Samples every 50 ms from now on, the first time after 25 ms, until the returned value is
    /// dropped.
    pub fn start(&self) -> Waits {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let looking = look(self.session.clone(), self.load.clone(), seen.clone());
        Waits { seen, task: tokio::spawn(looking) }
    }
}

/// How a sampler's session is named at the server.
pub const SAMPLER: &str = "onetrip bench, sampling";

/// A sampler that looks.
///
/// A sample costs the server a walk over its sessions and a few rows. If the round trip is longer
/// than 50 ms, so is the time between two samples.
#[derive(Debug)]
pub struct Waits {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Waits {
    /// Ends the sampling, and returns what was seen.
    pub fn finish(self) -> Seen {
        self.task.abort();
        self.so_far()
    }

    /// What was seen until now.
    pub fn so_far(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// Whether sampling has ended, because the user may not see the load's sessions or the session
    /// was lost.
    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What was seen of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    looks: u64,
    sessions: BTreeMap<String, u64>,
}

impl Seen {
    /// Adds what was seen in another repetition.
    pub fn add(&mut self, other: &Seen) {
        self.looks += other.looks;
        for (what, sessions) in &other.sessions {
            *self.sessions.entry(what.clone()).or_default() += sessions;
        }
    }

    /// How many sessions there were in the mean, by what they waited for:
    /// `wait_event_type:wait_event` of pg_stat_activity, or `running` for those that waited for
    /// nothing. Idle ones wait for their client: `Client:ClientRead`. Empty if there was no sample,
    /// or the user may not see the sessions.
    pub fn mean(&self) -> BTreeMap<String, f64> {
        let mean = |sessions: &u64| *sessions as f64 / self.looks as f64;
        self.sessions.iter().map(|(what, sessions)| (what.clone(), mean(sessions))).collect()
    }
}

/// The function below the view pg_stat_activity: without its joins. Of sessions that the user may
/// not see, the state is null.
const LOOK: &str = "select state is null, \
     coalesce(wait_event_type || ':' || wait_event, 'running'), count(*) \
     from pg_catalog.pg_stat_get_activity(null) \
     where application_name = $1 and pid <> pg_catalog.pg_backend_pid() group by 1, 2";

const EVERY: Duration = Duration::from_millis(50);

/// Samples until it is ended, or until it sees that it may not look.
async fn look(session: Arc<Session>, load: Arc<str>, seen: Arc<Mutex<Seen>>) {
    let mut ticks = interval_at(Instant::now() + EVERY / 2, EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = once(&session, &load).await;
        let mut seen = lock(&seen);
        match now {
            Ok(Some(now)) => seen.add(&now),
            Ok(None) => return *seen = Seen::default(),
            // Earlier samples are kept.
            Err(_) => return,
        }
    }
}

/// One sample. `None` if there is a session that the user may not see.
async fn once(session: &Session, load: &str) -> Result<Option<Seen>> {
    let rows = session.query(LOOK, &[&load]).await?;
    let mut seen = Seen { looks: 1, ..Seen::default() };
    for row in rows.iter() {
        if row.try_get(0)? {
            return Ok(None);
        }
        let sessions: i64 = row.try_get(2)?;
        seen.sessions.insert(row.try_get(1)?, sessions.unsigned_abs());
    }
    Ok(Some(seen))
}

/// Held for an addition only.
fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(looks: u64, what: &str, sessions: u64) -> Seen {
        Seen { looks, sessions: BTreeMap::from([(what.to_owned(), sessions)]) }
    }

    #[test]
    fn the_mean_is_of_all_looks_also_of_those_that_saw_none() {
        let mut all = seen(3, "running", 6);
        all.add(&seen(1, "Lock:tuple", 2));
        let mean = BTreeMap::from([("running".to_owned(), 1.5), ("Lock:tuple".to_owned(), 0.5)]);
        assert_eq!(all.mean(), mean);
        assert!(Seen::default().mean().is_empty());
    }
}
