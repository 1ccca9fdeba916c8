//! The counters, as the facade of the `metrics` crate receives them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    set_default_local_recorder,
};

use crate::support::{client, key};

/// Records what is published.
#[derive(Default)]
struct Kept(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Kept {
    fn number(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<&str> = key.labels().map(metrics::Label::value).collect();
        let name = [&[key.name()][..], &labels].concat().join(" ");
        self.0.lock().unwrap().entry(name).or_default().clone()
    }

    fn counter(&self, name: &str) -> u64 {
        let numbers = self.0.lock().unwrap();
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
        Histogram::noop()
    }
}

#[tokio::test]
async fn what_was_added_is_published_once() {
    let kept = Kept::default();
    let _guard = set_default_local_recorder(&kept);
    let Some(client) = client().await else { return };
    let key = key("text");
    client.cmd("SET").arg(&key).arg("x").send::<()>().await.unwrap();
    client.cmd("LPUSH").arg(&key).arg("y").send::<()>().await.unwrap_err();
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
}

#[tokio::test]
async fn gauges_of_several_clients_add_up_and_go_with_them() {
    let kept = Kept::default();
    let _guard = set_default_local_recorder(&kept);
    let (Some(one), Some(two)) = (client().await, client().await) else { return };
    let list = key("list");
    let pop = |client: &onetrip::redis::Client| {
        client.cmd("BLPOP").arg(&list).arg(0).send::<(String, String)>()
    };
    let (first, second) = (pop(&one), pop(&two));
    while one.metrics().in_flight + two.metrics().in_flight < 2 {
        tokio::task::yield_now().await;
    }
    one.publish_metrics();
    two.publish_metrics();
    assert_eq!(kept.gauge("onetrip_requests_in_flight"), 2.0);
    assert_eq!(kept.gauge("onetrip_connections_open"), 4.0);
    one.cmd("RPUSH").arg(&list).args(["x", "y"]).send::<i64>().await.unwrap();
    first.await.unwrap();
    second.await.unwrap();
    drop((one, two));
    for name in ["onetrip_requests_in_flight", "onetrip_connections_open"] {
        assert_eq!(kept.gauge(name), 0.0, "{name}");
    }
}

#[tokio::test]
async fn a_client_publishes_by_itself() {
    let kept = Kept::default();
    let _guard = set_default_local_recorder(&kept);
    let Some(_client) = client().await else { return };
    let published = async {
        while kept.counter("onetrip_connections_opened_total") == 0 {
            tokio::task::yield_now().await;
        }
    };
    let limit = std::time::Duration::from_secs(600);
    tokio::time::timeout(limit, published).await.expect("it is published");
}
