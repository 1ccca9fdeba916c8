//! What a sidecar counts, as text for Prometheus (its text format 0.0.4).

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onetrip_postgres::client::early::{Kind, Saved};

/// Counts of one sidecar, from its start.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) saved: Mutex<Saved>,
    /// Programs that wanted a session and found room.
    pub(super) sessions: Count,
    /// Those of them that are connected.
    pub(super) open: Count,
    pub(super) too_many: Count,
    pub(super) wrong_password: Count,
    pub(super) garbage: Count,
    pub(super) cancels: Count,
    /// Programs for which no server was met.
    pub(super) unmet: Count,
    waits: Waits,
    /// Programs that were served by a warm connection, and those for which one was logged in.
    pub(super) lent: Count,
    pub(super) logged_in: Count,
    /// Connections that were kept behind a program, and those that were closed.
    pub(super) kept: Count,
    pub(super) closed: Count,
}

#[derive(Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// One more, if there are not so many. Returns whether it is.
    pub(super) fn enter(&self, max: u64) -> bool {
        let more = |count: u64| (count < max).then_some(count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(super) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long programs waited, as a histogram.
#[derive(Default)]
struct Waits {
    /// How many waited up to a bound but longer than the one before it; the last have no bound.
    buckets: [Count; BOUNDS_MS.len() + 1],
    sum_us: Count,
}

/// From a socket of this machine to a server that has to be waited for.
const BOUNDS_MS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 30_000];

impl Counts {
    /// A program has waited so long for a connection to a server.
    pub(super) fn waited(&self, time: Duration) {
        let bucket = BOUNDS_MS.partition_point(|it| Duration::from_millis(*it) < time);
        self.waits.buckets[bucket].add(1);
        self.waits.sum_us.add(time.as_micros().try_into().unwrap_or(u64::MAX));
    }

    /// The text; `idle` and `resetting` are warm connections.
    pub(super) fn text(&self, saved: &Saved, idle: usize, resetting: usize) -> String {
        let mut text = Text(String::new());
        let by_kind = |count: fn(&Saved, Kind) -> u64| {
            Kind::ALL.map(|kind| (kind.name(), count(saved, kind)))
        };
        text.counters("trips_saved_total", SAVED, "kind", &by_kind(Saved::trips));
        text.counters("early_answers_false_total", FALSE, "kind", &by_kind(Saved::refuted));
        text.one("connections_total", "counter", SESSIONS, self.sessions.get());
        text.one("connections", "gauge", OPEN, self.open.get());
        let refused = [
            ("too_many_clients", self.too_many.get()),
            ("wrong_password", self.wrong_password.get()),
            ("no_server", self.unmet.get()),
            ("not_postgresql", self.garbage.get()),
        ];
        text.counters("refused_total", REFUSED, "reason", &refused);
        text.one("cancels_total", "counter", CANCELS, self.cancels.get());
        self.waits.tell(&mut text);
        let warm = [
            ("lent", self.lent.get()),
            ("logged_in", self.logged_in.get()),
            ("kept", self.kept.get()),
            ("closed", self.closed.get()),
        ];
        text.counters("warm_total", WARM, "event", &warm);
        let waiting = [("idle", idle as u64), ("resetting", resetting as u64)];
        text.head("warm_connections", "gauge", WAITING);
        text.values("warm_connections", "state", &waiting);
        text.0
    }
}

impl Waits {
    /// Each bucket of the text also counts what is below it.
    fn tell(&self, text: &mut Text) {
        text.head("wait_seconds", "histogram", WAITS);
        let mut count = 0;
        let bounds = BOUNDS_MS.map(|it| Duration::from_millis(it).as_secs_f64().to_string());
        for (bucket, bound) in
            self.buckets.iter().zip(bounds.iter().map(|it| &**it).chain(["+Inf"]))
        {
            count += bucket.get();
            text.values("wait_seconds_bucket", "le", &[(bound, count)]);
        }
        let seconds = Duration::from_micros(self.sum_us.get()).as_secs_f64();
        text.line(format_args!("wait_seconds_sum {seconds}"));
        text.line(format_args!("wait_seconds_count {count}"));
    }
}

/// The text as it grows.
struct Text(String);

impl Text {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a String can't fail.
        let _ = writeln!(self.0, "onetrip_sidecar_{line}");
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP onetrip_sidecar_{name} {help}");
        let _ = writeln!(self.0, "# TYPE onetrip_sidecar_{name} {kind}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.head(name, kind, help);
        self.line(format_args!("{name} {value}"));
    }

    fn values(&mut self, name: &str, label: &str, all: &[(&str, u64)]) {
        for (of, value) in all {
            self.line(format_args!("{name}{{{label}=\"{of}\"}} {value}"));
        }
    }

    fn counters(&mut self, name: &str, help: &str, label: &str, all: &[(&str, u64)]) {
        self.head(name, "counter", help);
        self.values(name, label, all);
    }
}

const SAVED: &str = "Trips that programs did not wait for.";
const FALSE: &str = "Early answers that proved false, and were told at the next statement.";
const SESSIONS: &str = "Programs that were given a session.";
const OPEN: &str = "Programs that have a session now.";
const REFUSED: &str = "Programs that were refused.";
const CANCELS: &str = "Requests to cancel.";
const WARM: &str = "What became of warm connections: lent to a program, logged in for one, kept \
                    behind one, or closed since its reset was not proven or does not undo all.";
const WAITING: &str = "Warm connections that wait for a program, or are being reset.";
const WAITS: &str = "How long programs waited for a server: until it asked for their password, or \
                     until a warm connection was theirs.";
