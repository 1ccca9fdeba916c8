//! Publishes the counters of a client through the facade of the `metrics` crate: every few seconds,
//! and when [`Client::publish_metrics`](crate::Client::publish_metrics) is called. It publishes
//! differences to the last time, of gauges too, so that several clients of one program add up.

use std::sync::Weak;
use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use tokio::time::{Interval, MissedTickBehavior};

use super::snapshot::snapshot;
use super::{CacheMetrics, Counts, Histogram, Metrics, ReadMetrics};
use crate::pool::Pool;

/// How often the counters are published automatically.
pub(crate) const PUBLISH_EVERY: Duration = Duration::from_secs(5);

/// When the counters of a pool are published.
#[derive(Debug)]
pub(crate) struct Publisher(Interval);

impl Publisher {
    pub(crate) fn new() -> Publisher {
        describe();
        let mut interval = tokio::time::interval(PUBLISH_EVERY);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Publisher(interval)
    }

    /// Resolves when it is time to publish; the first time at once. Cancel safe.
    pub(crate) async fn due(&mut self) {
        self.0.tick().await;
    }

    /// Publishes for the last time: the pool is closed.
    pub(crate) fn last(pool: &Pool) {
        publish(pool);
    }

    pub(crate) fn publish(&self, pool: &Weak<Pool>) {
        pool.upgrade().into_iter().for_each(|pool| publish(&pool));
    }
}

/// Publishes the differences.
pub(crate) fn publish(pool: &Pool) {
    let (new, old) = {
        let mut state = pool.context.totals.lock();
        let new = match pool.is_closed() {
            // Gauges are set to 0, since nobody would do that later.
            true => snapshot(&state, pool).without_gauges(),
            false => snapshot(&state, pool),
        };
        (new.clone(), std::mem::replace(&mut state.published, new))
    };
    // The recorder is foreign code, so no lock is held.
    publish_change(&new, &old);
}

/// Publishes the difference between two snapshots.
pub(crate) fn publish_change(new: &Metrics, old: &Metrics) {
    gauges(new, old);
    count("onetrip_connections_opened_total", new.opened, old.opened);
    count("onetrip_connections_open_failed_total", new.open_failed, old.open_failed);
    count("onetrip_connections_closed_total", new.closed, old.closed);
    count("onetrip_connections_lost_total", new.lost, old.lost);
    counts(&new.counts, &old.counts);
    cache(&new.cache.unwrap_or_default(), &old.cache.unwrap_or_default());
    reads(&new.reads, &old.reads);
    waits(&new.waits, &old.waits);
}

impl Metrics {
    /// The same with all gauges 0.
    pub(crate) fn without_gauges(self) -> Metrics {
        let cache = self.cache.map(|cache| CacheMetrics { bytes: 0, entries: 0, ..cache });
        Metrics { in_flight: 0, queued: 0, waiting: 0, open: 0, idle: 0, cache, ..self }
    }
}

fn gauges(new: &Metrics, old: &Metrics) {
    let change = |name, new: usize, old: usize| gauge!(name).increment(new as f64 - old as f64);
    change("onetrip_requests_in_flight", new.in_flight, old.in_flight);
    change("onetrip_requests_queued", new.queued, old.queued);
    change("onetrip_callers_waiting", new.waiting, old.waiting);
    change("onetrip_connections_open", new.open, old.open);
    change("onetrip_connections_idle", new.idle, old.idle);
}

fn counts(new: &Counts, old: &Counts) {
    count("onetrip_trips_total", new.trips, old.trips);
    count("onetrip_sent_bytes_total", new.bytes_sent, old.bytes_sent);
    count("onetrip_received_bytes_total", new.bytes_received, old.bytes_received);
    count("onetrip_requests_completed_total", new.completed, old.completed);
    let failed = |outcome: &'static str, new, old| {
        counter!("onetrip_requests_failed_total", "outcome" => outcome).increment(added(new, old));
    };
    failed("not_sent", new.failed_not_sent, old.failed_not_sent);
    failed("rejected", new.failed_rejected, old.failed_rejected);
    failed("applied", new.failed_applied, old.failed_applied);
    failed("unknown", new.failed_unknown, old.failed_unknown);
    count("onetrip_prepared_hits_total", new.prepared_hits, old.prepared_hits);
    count("onetrip_prepared_misses_total", new.prepared_misses, old.prepared_misses);
    count("onetrip_requests_healed_total", new.healed, old.healed);
    count("onetrip_requests_hedged_total", new.hedged, old.hedged);
    let name = "onetrip_waited_behind_slow_total";
    count(name, new.waited_behind_slow, old.waited_behind_slow);
    let name = "onetrip_notifications_dropped_total";
    count(name, new.notifications_dropped, old.notifications_dropped);
}

fn reads(new: &ReadMetrics, old: &ReadMetrics) {
    let on = |server: &'static str, new, old| {
        counter!("onetrip_replica_reads_total", "on" => server).increment(added(new, old));
    };
    on("primary", new.on_primary, old.on_primary);
    on("replica", new.on_replicas, old.on_replicas);
    count("onetrip_replica_reads_behind_total", new.behind, old.behind);
}

fn cache(new: &CacheMetrics, old: &CacheMetrics) {
    let change = |name, new: usize, old: usize| gauge!(name).increment(new as f64 - old as f64);
    change("onetrip_cache_bytes", new.bytes, old.bytes);
    change("onetrip_cache_entries", new.entries, old.entries);
    count("onetrip_cache_hits_total", new.hits, old.hits);
    count("onetrip_cache_misses_total", new.misses, old.misses);
    count("onetrip_cache_joined_total", new.joined, old.joined);
    count("onetrip_cache_invalidations_total", new.invalidations, old.invalidations);
    count("onetrip_cache_evicted_total", new.evicted, old.evicted);
}

fn waits(new: &Histogram, old: &Histogram) {
    let waits = histogram!("onetrip_wait_seconds");
    for ((longest, new), (_, old)) in new.buckets().zip(old.buckets()) {
        let times = usize::try_from(added(new, old)).unwrap_or(usize::MAX);
        if times > 0 {
            waits.record_many(longest.min(LONGEST).as_secs_f64(), times);
        }
    }
}

/// Published for a wait that is longer than the last bucket.
const LONGEST: Duration = Duration::from_secs(300);

fn count(name: &'static str, new: u64, old: u64) {
    counter!(name).increment(added(new, old));
}

fn added(new: u64, old: u64) -> u64 {
    new.saturating_sub(old)
}

fn describe() {
    for (name, unit, text) in GAUGES {
        describe_gauge!(name, unit, text);
    }
    for (name, unit, text) in COUNTERS {
        describe_counter!(name, unit, text);
    }
    describe_histogram!("onetrip_wait_seconds", Unit::Seconds, "Waits for a connection");
}

const GAUGES: [(&str, Unit, &str); 7] = [
    ("onetrip_requests_in_flight", Unit::Count, "Requests sent and unanswered"),
    ("onetrip_requests_queued", Unit::Count, "Requests that wait for the window"),
    ("onetrip_callers_waiting", Unit::Count, "Callers that wait for room or a connection"),
    ("onetrip_connections_open", Unit::Count, "Connections that are open"),
    ("onetrip_connections_idle", Unit::Count, "Connections on which nothing is unanswered"),
    ("onetrip_cache_bytes", Unit::Bytes, "Replies in the caches, with all that belongs to them"),
    ("onetrip_cache_entries", Unit::Count, "Replies in the caches"),
];

const COUNTERS: [(&str, Unit, &str); 22] = [
    ("onetrip_connections_opened_total", Unit::Count, "Connections opened"),
    ("onetrip_connections_open_failed_total", Unit::Count, "Attempts to connect that failed"),
    ("onetrip_connections_closed_total", Unit::Count, "Connections closed from this side"),
    ("onetrip_connections_lost_total", Unit::Count, "Connections lost"),
    ("onetrip_trips_total", Unit::Count, "Writes after bytes of the server had arrived"),
    ("onetrip_sent_bytes_total", Unit::Bytes, "Bytes sent, before TLS"),
    ("onetrip_received_bytes_total", Unit::Bytes, "Bytes received, after TLS"),
    ("onetrip_requests_completed_total", Unit::Count, "Requests that ended well"),
    ("onetrip_requests_failed_total", Unit::Count, "Requests that failed, by outcome"),
    ("onetrip_prepared_hits_total", Unit::Count, "Uses of statements that were prepared already"),
    ("onetrip_prepared_misses_total", Unit::Count, "Uses that prepared their statement"),
    ("onetrip_requests_healed_total", Unit::Count, "Requests sent again by themselves"),
    ("onetrip_requests_hedged_total", Unit::Count, "Reads sent a second time since they were late"),
    ("onetrip_waited_behind_slow_total", Unit::Count, "Statements behind a slow one"),
    ("onetrip_notifications_dropped_total", Unit::Count, "Notifications that nobody asked for"),
    ("onetrip_cache_hits_total", Unit::Count, "Commands answered from a cache"),
    ("onetrip_cache_misses_total", Unit::Count, "Commands whose replies no cache had"),
    ("onetrip_cache_joined_total", Unit::Count, "Commands answered with another caller's"),
    ("onetrip_cache_invalidations_total", Unit::Count, "Keys that were changed, as servers say"),
    ("onetrip_cache_evicted_total", Unit::Count, "Replies dropped since a cache was full"),
    ("onetrip_replica_reads_total", Unit::Count, "Reads that replicas may serve, by server"),
    ("onetrip_replica_reads_behind_total", Unit::Count, "Reads at replicas that were behind"),
];
