//! The counters, as the facade of the `metrics` crate receives them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::*;
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// Records what is published.
#[derive(Default)]
struct Kept {
    numbers: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    times: Arc<Times>,
}

#[derive(Default)]
struct Times(Mutex<Vec<f64>>);

impl HistogramFn for Times {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

impl Kept {
    fn number(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<&str> = key.labels().map(metrics::Label::value).collect();
        let name = [&[key.name()][..], &labels].concat().join(" ");
        self.numbers.lock().unwrap().entry(name).or_default().clone()
    }

    fn counter(&self, name: &str) -> u64 {
        let numbers = self.numbers.lock().unwrap();
        numbers.get(name).map_or(0, |number| number.load(Ordering::Relaxed))
    }

    fn gauge(&self, name: &str) -> f64 {
        f64::from_bits(self.counter(name))
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.number(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.number(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.times.clone())
    }
}

/// Runs a test whose clients publish to `kept`, also automatically.
fn run_with(kept: &Kept, test: impl Future<Output = ()>) {
    let _guard = metrics::set_default_local_recorder(kept);
    run(test);
}

#[test]
fn what_was_added_is_published_once() {
    let kept = Kept::default();
    run_with(&kept, async {
        let client = client_with("connections_max=1").await;
        client.query("select 1", &[]).await.unwrap();
        error(client.query("select 1 / 0", &[]).await);
        client.publish_metrics();
        client.publish_metrics();
        let counts = client.metrics().counts;
        assert_eq!((counts.completed, counts.trips), (1, 2));
        for (name, count) in [
            ("onetrip_requests_completed_total", 1),
            ("onetrip_requests_failed_total rejected", 1),
            ("onetrip_requests_failed_total unknown", 0),
            ("onetrip_connections_opened_total", 1),
            ("onetrip_trips_total", 2),
            ("onetrip_sent_bytes_total", counts.bytes_sent),
            ("onetrip_received_bytes_total", counts.bytes_received),
        ] {
            assert_eq!(kept.counter(name), count, "{name}");
        }
    });
}

#[test]
fn gauges_of_several_clients_add_up_and_go_with_them() {
    let kept = Kept::default();
    run_with(&kept, async {
        let (one, two) = (client().await, client().await);
        let gate = Gate::closed().await;
        let (first, second) =
            (one.query(&gate.statement(), &[]), two.query(&gate.statement(), &[]));
        one.publish_metrics();
        two.publish_metrics();
        assert_eq!(kept.gauge("onetrip_requests_in_flight"), 2.0);
        assert!(kept.gauge("onetrip_connections_open") >= 2.0);
        gate.open().await;
        first.await.unwrap();
        second.await.unwrap();
        drop((one, two));
        for name in ["onetrip_requests_in_flight", "onetrip_connections_open"] {
            until(async || kept.gauge(name) == 0.0).await;
        }
    });
}

#[test]
fn a_client_publishes_by_itself() {
    let kept = Kept::default();
    run_with(&kept, async {
        let client = client().await;
        until(async || kept.counter("onetrip_connections_opened_total") == 1).await;
        drop(client);
    });
}

#[test]
fn waits_are_published_in_seconds() {
    let kept = Kept::default();
    run_with(&kept, async {
        let client = client_with("connections_max=1").await;
        let held = client.session().await.unwrap();
        let mut waits = Box::pin(client.session());
        assert!(!poll_once(&mut waits).await);
        held.query("select pg_sleep(0.01)", &[]).await.unwrap();
        drop(held);
        drop(waits.await.unwrap());
        client.publish_metrics();
        client.publish_metrics();
        let times = kept.times.0.lock().unwrap().clone();
        assert!(matches!(times[..], [time] if (0.01..300.0).contains(&time)), "{times:?}");
    });
}
