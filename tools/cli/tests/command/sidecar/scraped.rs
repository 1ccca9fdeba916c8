//! The metrics of a sidecar: what they count, and who may read them how.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use onetrip_lab::postgres::shared;
use rustix::process::Signal;

use super::{READ, Sidecar, fails, numbers, params, server};
use crate::wire::Part::{Bind, Execute, Parse, Sync};
use crate::wire::{Wire, connect, extended, query};

/// A sidecar whose metrics can be read.
pub(super) struct Scraped {
    pub(super) sidecar: Sidecar,
    pub(super) metrics: String,
}

impl Scraped {
    fn to(server: &str, more: &[&str]) -> Scraped {
        let place = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--to", server];
        Scraped::start(&[&place, more].concat())
    }

    pub(super) fn start(arguments: &[&str]) -> Scraped {
        let (sidecar, line) = Sidecar::start(arguments);
        let metrics = line.split("metrics at http://").nth(1).unwrap();
        let metrics = metrics.trim().strip_suffix("/metrics").unwrap().to_owned();
        Scraped { sidecar, metrics }
    }

    fn text(&self) -> String {
        let answer = ask(&self.metrics, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", text.len())), "{head}");
        text.to_owned()
    }

    /// A sample by its name and labels, without what all names begin with.
    pub(super) fn value(&self, name: &str) -> f64 {
        let samples = parsed(&self.text());
        *samples.get(name).unwrap_or_else(|| panic!("{name} of {samples:?}"))
    }

    /// Waits until a sample has this value.
    pub(super) fn wait_for(&self, name: &str, value: f64) {
        let start = Instant::now();
        while self.value(name) != value {
            assert!(start.elapsed() < PATIENCE, "{}", self.text());
        }
    }
}

/// Waits until nobody listens there: a sidecar has heard that it is to stop.
pub(super) fn stops_listening(addr: &str) {
    let start = Instant::now();
    while std::net::TcpStream::connect(addr).is_ok() {
        assert!(start.elapsed() < PATIENCE, "it still listens");
    }
}

/// Only a hang takes so long.
const PATIENCE: Duration = Duration::from_secs(600);

fn ask(addr: &str, request: &str) -> String {
    let mut stream = connect(addr);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The samples of a text of Prometheus, which must be of its form: each behind its own HELP and
/// TYPE, and each once.
fn parsed(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let (mut family, mut kind) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split_once(' ').unwrap().0.to_owned();
            kind.clear();
        } else if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, of) = of.split_once(' ').unwrap();
            assert_eq!(name, family);
            kind = of.to_owned();
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let bare = name.split('{').next().unwrap();
            let is_its = match kind.as_str() {
                "counter" => bare == family && bare.ends_with("_total"),
                "gauge" => bare == family,
                "histogram" => bare.strip_prefix(&*family).is_some_and(|it| it.starts_with('_')),
                _ => false,
            };
            assert!(is_its, "{line}");
            let name = name.strip_prefix("onetrip_sidecar_").unwrap().to_owned();
            assert_eq!(samples.insert(name, value.parse().unwrap()), None, "{line}");
        }
    }
    samples
}

#[test]
fn metrics_tell_what_has_happened() {
    let mut scraped = Scraped::to(&server(), &["--max-clients", "2"]);
    let samples = parsed(&scraped.text());
    assert!(samples.len() > 40 && samples.values().all(|it| *it == 0.0), "{samples:?}");
    let addr = &scraped.sidecar.addr.clone();
    let database = numbers();
    let log_in = || Wire::log_in(shared(), addr, &database);
    let (mut first, mut second) = (log_in(), log_in());
    assert!(Wire::try_log_in(shared(), addr, &database).is_err());
    let mut stranger = connect(addr);
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    scraped.sidecar.process.wait_for("does not speak PostgreSQL");
    for sql in ["begin", "savepoint a", "update number set v = 1", "release a", "commit"] {
        first.query(sql);
    }
    // Nothing runs any more, so nothing is cancelled.
    first.cancel(addr);
    for (name, sql) in [("a", "selec 1"), ("b", READ)] {
        second.say(&extended(&[Parse(name, sql), Sync]), 1);
        second.say(&extended(&[Bind(name, &["1"]), Execute, Sync]), 1);
    }
    let samples = parsed(&scraped.text());
    let counted: Vec<String> = samples
        .iter()
        .filter(|(name, value)| **value > 0.0 && !name.starts_with("wait_seconds"))
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    assert_eq!(
        counted,
        [
            "cancels_total 1",
            "connections 2",
            "connections_total 2",
            "early_answers_false_total{kind=\"prepare\"} 1",
            "refused_total{reason=\"not_postgresql\"} 1",
            "refused_total{reason=\"too_many_clients\"} 1",
            "trips_saved_total{kind=\"begin\"} 1",
            "trips_saved_total{kind=\"prepare\"} 2",
            "trips_saved_total{kind=\"release\"} 1",
            "trips_saved_total{kind=\"savepoint\"} 1",
        ]
    );
    assert_eq!(samples["wait_seconds_count"], 2.0);
    assert!(samples["wait_seconds_sum"] > 0.0);
    first.terminate();
    second.terminate();
    scraped.wait_for("connections", 0.0);
    assert_eq!(scraped.value("connections_total"), 2.0);
    let said = scraped.sidecar.end();
    assert!(said.starts_with("2 connections; saved 5 trips: 1 begin"), "{said}");
}

#[test]
fn the_buckets_of_a_histogram_hold_what_is_below_them() {
    let scraped = Scraped::to(&server(), &[]);
    for _ in 0..3 {
        Wire::log_in(shared(), &scraped.sidecar.addr, "postgres").terminate();
    }
    let text = scraped.text();
    let buckets: Vec<(&str, u64)> = text
        .lines()
        .filter_map(|it| it.strip_prefix("onetrip_sidecar_wait_seconds_bucket{le=\""))
        .map(|it| it.split_once("\"} ").unwrap())
        .map(|(bound, count)| (bound, count.parse().unwrap()))
        .collect();
    let bound = |at: usize| buckets[at].0.parse::<f64>().unwrap();
    assert!((1..buckets.len()).all(|at| bound(at - 1) < bound(at)), "{buckets:?}");
    assert!(buckets.is_sorted_by_key(|it| it.1), "{buckets:?}");
    assert_eq!(*buckets.last().unwrap(), ("+Inf", 3));
    let sum = scraped.value("wait_seconds_sum");
    // No wait is longer than the bound of the last bucket that it made larger.
    let most: f64 = (0..buckets.len())
        .map(|at| (buckets[at].1 - if at > 0 { buckets[at - 1].1 } else { 0 }) as f64 * bound(at))
        .filter(|it| *it > 0.0)
        .sum();
    assert!(0.0 < sum && sum <= most, "{sum} {buckets:?}");
}

#[test]
fn a_counter_never_falls_where_a_statement_had_to_be_waited_for_after_all() {
    let scraped = Scraped::to(&server(), &[]);
    let mut wire = Wire::log_in(shared(), &scraped.sidecar.addr, &numbers());
    let prepared = || scraped.value("trips_saved_total{kind=\"prepare\"}");
    let mut seen = vec![prepared()];
    for said in [
        extended(&[Parse("a", READ), Sync]),
        query("begin isolation level serializable"),
        params("select $1::text", &["b"]),
        query("commit"),
        extended(&[Parse("b", READ), Sync]),
        extended(&[Bind("b", &["1"]), Execute, Sync]),
    ] {
        assert!(wire.say(&said, 1).iter().all(|it| !it.starts_with('E')));
        seen.push(prepared());
    }
    assert_eq!(seen, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn programs_without_a_server_and_without_the_password_are_counted_as_refused() {
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let scraped = Scraped::to(&nowhere.to_string(), &[]);
    assert!(Wire::try_log_in(shared(), &scraped.sidecar.addr, "postgres").is_err());
    assert_eq!(scraped.value("refused_total{reason=\"no_server\"}"), 1.0);
    assert_eq!(scraped.value("wait_seconds_count"), 0.0);
    let scraped = warm();
    let addr = &scraped.sidecar.addr;
    assert!(Wire::as_user(shared().user(), "wrong", addr, "postgres").is_err());
    assert_eq!(scraped.value("refused_total{reason=\"wrong_password\"}"), 1.0);
}

fn warm() -> Scraped {
    let (user, password, port) = (shared().user(), shared().password(), shared().port());
    let to = format!("postgres://{user}:{password}@127.0.0.1:{port}/");
    Scraped::to(&to, &["--warm", "4"])
}

#[test]
fn warm_connections_are_counted_where_they_are() {
    let scraped = warm();
    let log_in = || Wire::log_in(shared(), &scraped.sidecar.addr, "postgres");
    let events = || {
        ["logged_in", "lent", "kept", "closed"]
            .map(|it| scraped.value(&format!("warm_total{{event=\"{it}\"}}")))
    };
    let idle = "warm_connections{state=\"idle\"}";
    let wire = log_in();
    assert_eq!((events(), scraped.value(idle)), ([1.0, 0.0, 0.0, 0.0], 0.0));
    wire.terminate();
    scraped.wait_for(idle, 1.0);
    assert_eq!(events(), [1.0, 0.0, 1.0, 0.0]);
    let mut wire = log_in();
    assert_eq!((events(), scraped.value(idle)), ([1.0, 1.0, 1.0, 0.0], 0.0));
    // Who leaves a statement behind that runs leaves nothing that could be proven.
    wire.begin_query("select pg_sleep(1)");
    wire.terminate();
    scraped.wait_for("warm_total{event=\"closed\"}", 1.0);
    assert_eq!((events(), scraped.value(idle)), ([1.0, 1.0, 1.0, 1.0], 0.0));
    assert_eq!(scraped.value("warm_connections{state=\"resetting\"}"), 0.0);
    assert_eq!(scraped.value("wait_seconds_count"), 2.0);
}

#[test]
fn who_asks_for_something_else_is_told_and_who_says_nothing_is_cut_off() {
    let scraped = Scraped::to(&server(), &[]);
    let addr = &scraped.metrics;
    let status = |request: &str| {
        let answer = ask(addr, request);
        answer.strip_prefix("HTTP/1.1 ").unwrap()[..3].to_owned()
    };
    assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "404");
    assert_eq!(status("GET /metricsx HTTP/1.1\r\n\r\n"), "404");
    assert_eq!(status("nonsense\r\n\r\n"), "404");
    assert_eq!(status("GET /metrics?name=all HTTP/1.1\r\n\r\n"), "200");
    let post = "POST /metrics HTTP/1.1\r\n\r\n";
    assert_eq!(status(post), "405");
    assert!(ask(addr, post).contains("\r\nAllow: GET\r\n"));
    // As long as what is read of one, so that nothing of it is left unread.
    let line = "GET /metrics HTTP/1.1\r\nX: ";
    let long = format!("{line}{}", "x".repeat((8 << 10) - line.len()));
    assert_eq!(status(&long), "431");
    let mut silent: Vec<_> = (0..8).map(|_| connect(addr)).collect();
    for stream in &mut silent {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
    assert_eq!(scraped.value("connections_total"), 0.0);
}

#[test]
fn other_machines_read_metrics_only_where_that_is_allowed() {
    let to = server();
    let all = ["--listen", "127.0.0.1:0", "--metrics", "0.0.0.0:0", "--to", &to, "--allow-remote"];
    let said = fails(&all[..all.len() - 1]);
    for word in ["--metrics 0.0.0.0:0", "--allow-remote"] {
        assert!(said.contains(word), "{said}");
    }
    Scraped::start(&all).text();
}

#[test]
fn metrics_are_there_until_the_last_transaction_has_ended() {
    let scraped = Scraped::to(&server(), &[]);
    let mut wire = Wire::log_in(shared(), &scraped.sidecar.addr, &numbers());
    wire.query("begin");
    wire.query("update number set v = 7 where k = 1");
    scraped.sidecar.process.signal(Signal::TERM);
    stops_listening(&scraped.sidecar.addr);
    assert_eq!(scraped.value("connections"), 1.0);
    assert_eq!(wire.query("commit"), ["C COMMIT", "Z Idle"]);
    drop(wire);
    assert!(scraped.sidecar.process.end().0.success());
}
