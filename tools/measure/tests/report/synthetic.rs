//! Synthetic results: shaped like those of a run, with noise that follows from a seed.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use onetrip_measure::load::Distribution;
use onetrip_measure::results::{
    Cell, ClientSide, Isolation, Key, Line, Preset, Repetition, Results, SCHEMA, SCHEMA_VERSION,
    Server, Unit,
};
use onetrip_measure::spread::Spread;
use rand::{RngExt as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub(crate) const TASKS: [u32; 5] = [100, 200, 400, 800, 1600];
pub(crate) const RTTS: [f64; 6] = [0.0, 0.2, 1.0, 5.0, 20.0, 50.0];

/// Name, microseconds of each task, and in multiples of that at serializable.
pub(crate) const OPERATIONS: [(&str, f64, f64); 11] = [
    ("simple_insert", 110.0, 1.02),
    ("update_single_row", 420.0, 5.0),
    ("update_random_row", 135.0, 1.4),
    ("select_for_update_single_row", 400.0, 1.6),
    ("select_for_update_many_rows", 440.0, 1.7),
    ("select_for_update_skip_locked", 120.0, 1.05),
    ("select_for_update_skip_locked_many", 140.0, 1.04),
    ("select_for_update_with_fk", 1900.0, 0.7),
    ("select_for_update_all_fk", 1500.0, 1.1),
    ("select_single", 90.0, 1.0),
    ("select_many", 150.0, 1.01),
];

/// Makes cells. `noise` is what repetitions differ by, as a part of them.
pub(crate) struct Synthetic {
    random: Xoshiro256PlusPlus,
    pub(crate) noise: f64,
    pub(crate) repetitions: usize,
}

impl Synthetic {
    pub(crate) fn new(seed: u64) -> Synthetic {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Synthetic { random, noise: 0.04, repetitions: 5 }
    }

    pub(crate) fn concurrency(&mut self, levels: &[Isolation], tasks: &[u32]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for level in levels {
            for (name, us, at_serializable) in OPERATIONS {
                for tasks in tasks {
                    let key = key(Preset::Concurrency, name);
                    let key =
                        Key { isolation: Some(*level), tasks: *tasks, connections: 10, ..key };
                    let factor =
                        if *level == Isolation::Serializable { at_serializable } else { 1.0 };
                    let contention = 1.0 + f64::from(*tasks) / 4000.0;
                    let us = us * factor * contention;
                    let mut cell = self.cell(key, Unit::Transaction, us, (*tasks).into(), 2.0);
                    if factor > 1.2 {
                        cell.retries.insert("40001".to_owned(), u64::from(*tasks) * 7);
                    }
                    if name.ends_with("with_fk") {
                        cell.expected_errors.insert("23503".to_owned(), u64::from(*tasks) / 2);
                    }
                    cells.push(cell);
                }
            }
        }
        cells
    }

    pub(crate) fn trips(&mut self, rtts: &[f64]) -> Vec<Cell> {
        let ways = [
            ("transfer", "one by one", 5.0, Unit::Transaction),
            ("transfer", "pipelined", 1.0, Unit::Transaction),
            ("transfer", "procedure", 1.0, Unit::Transaction),
            ("insert", "one by one", 1.0, Unit::Row),
            ("insert", "batch", 0.002, Unit::Row),
            ("insert", "copy", 0.001, Unit::Row),
            ("join_of_five", "prepared", 1.0, Unit::Statement),
            ("join_of_five", "unprepared", 2.0, Unit::Statement),
        ];
        let mut cells = Vec::new();
        for (name, mode, trips, unit) in ways {
            for rtt in rtts {
                let key = key(Preset::Trips, name);
                let key = Key { mode: Some(mode.to_owned()), rtt_added_ms: *rtt, ..key };
                let us = 40.0 * f64::max(trips, 0.1) + 12.0 + (rtt + 0.06) * 1e3 * trips;
                cells.push(self.cell(key, unit, us, 400, trips));
            }
        }
        cells
    }

    pub(crate) fn depths(&mut self, rtts: &[f64]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for rtt in rtts {
            for power in 0..11 {
                let depth = 1 << power;
                let key = key(Preset::Trips, "point_select");
                let key = Key { depth: Some(depth), rtt_added_ms: *rtt, ..key };
                let us = 6.0 + (40.0 + (rtt + 0.06) * 1e3) / f64::from(depth);
                let trips = 1.0 / f64::from(depth);
                cells.push(self.cell(key, Unit::Statement, us, 2000, trips));
            }
        }
        cells
    }

    fn fortunes(&mut self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (mode, us) in [("pool", 95.0), ("shared", 52.0), ("repeatable", 41.0)] {
            for tasks in [16, 64, 256] {
                let key = key(Preset::Fortunes, "fortunes");
                let key = Key { mode: Some(mode.to_owned()), tasks, connections: 8, ..key };
                cells.push(self.cell(key, Unit::Request, us, 4000, 1.0));
            }
        }
        cells
    }

    /// Each statement awaited, and pipelined where there are several.
    pub(crate) fn scripts(&mut self, rtts: &[f64]) -> Vec<Cell> {
        let scripts =
            [("tpcb-like", 600.0, 7), ("simple-update", 420.0, 5), ("select-only", 60.0, 1)];
        let mut cells = Vec::new();
        for ((name, us, trips), rtt_added_ms) in
            scripts.into_iter().flat_map(|it| rtts.iter().map(move |rtt| (it, *rtt)))
        {
            for (mode, trips) in [("each awaited", trips), ("pipelined", 1)] {
                if mode == "pipelined" && name == "select-only" {
                    continue;
                }
                let key =
                    Key { mode: Some(mode.to_owned()), rtt_added_ms, ..key(Preset::Script, name) };
                let trips = f64::from(trips);
                let us = us + trips * (rtt_added_ms + 0.06) * 1e3;
                cells.push(self.cell(key, Unit::Transaction, us, 1000, trips));
            }
        }
        cells
    }

    pub(crate) fn redis(&mut self, rtts: &[f64]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for rtt in rtts {
            let trip = (rtt + 0.06) * 1e3;
            let mut add = |workload: &str, mode: &str, depth, us: f64, trips: f64| {
                let key =
                    Key { mode: Some(mode.to_owned()), depth, ..key(Preset::Redis, workload) };
                let key = Key { rtt_added_ms: *rtt, ..key };
                let unit = if workload == "update" { Unit::Update } else { Unit::Command };
                cells.push(self.cell(key, unit, us, 10_000, trips));
            };
            for verb in ["PING", "GET", "SET", "INCR"] {
                add("commands", verb, None, trip + 12.0, 1.0);
                for depth in [1, 10, 100, 1_000, 10_000] {
                    let trips = 1.0 / f64::from(depth);
                    add("depth", verb, Some(depth), 1.5 + (trip + 12.0) * trips, trips);
                }
            }
            if *rtt == 0.0 {
                add("pings", "one by one", None, trip, 1.0);
                add("pings", "pipeline", None, 1.0, 0.0001);
            }
            for (mode, trips) in [
                ("GET then SET", 2.0),
                ("WATCH and MULTI", 2.0),
                ("script", 1.0),
                ("100 scripts at once", 0.01),
            ] {
                add("update", mode, None, 5.0 + trip * trips, trips);
            }
        }
        cells
    }

    /// One whose operations take this long, over all tasks.
    pub(crate) fn cell(
        &mut self,
        key: Key,
        unit: Unit,
        us: f64,
        operations: u64,
        trips: f64,
    ) -> Cell {
        let repetitions = (0..self.repetitions).map(|_| {
            let noise = 1.0 + self.noise * (self.random.random::<f64>() - 0.5) * 2.0;
            Repetition {
                elapsed_ms: us * noise * operations as f64 / 1e3,
                operations,
                trips: Some((operations as f64 * trips).ceil() as u64),
                client_cpu_ms: Some(operations as f64 * 0.012 * noise),
                server_cpu_ms: Some(operations as f64 * 0.031 * noise),
                ..Repetition::default()
            }
        });
        let repetitions: Vec<Repetition> = repetitions.collect();
        let mut latency = Distribution::default();
        for _ in 0..2_000 {
            let tail = 1.0 / (1.0 - self.random.random::<f64>() * 0.9999).powf(0.35);
            let us = us * f64::from(key.tasks) * tail * 0.7;
            latency.record(Duration::from_nanos((us * 1e3) as u64));
        }
        let latency = latency.latency();
        let empty = BTreeMap::new;
        Cell {
            key,
            unit,
            repetitions,
            latency,
            lag: None,
            retries: BTreeMap::new(),
            errors: BTreeMap::new(),
            expected_errors: BTreeMap::new(),
            awaited: Vec::new(),
            waits: empty(),
            timeline: None,
        }
    }
}

/// All presets, at all parameters.
pub(crate) fn rich() -> &'static Results {
    static RICH: LazyLock<Results> = LazyLock::new(|| {
        let mut synthetic = Synthetic::new(1);
        let mut cells = synthetic.concurrency(&Isolation::ALL, &TASKS);
        cells.extend(synthetic.trips(&RTTS));
        cells.extend(synthetic.depths(&RTTS));
        cells.extend(synthetic.fortunes());
        cells.extend(synthetic.scripts(&[0.0, 5.0]));
        results(cells)
    });
    &RICH
}

pub(crate) fn key(preset: Preset, workload: &str) -> Key {
    Key {
        preset,
        workload: workload.to_owned(),
        mode: None,
        isolation: None,
        tasks: 1,
        connections: 1,
        depth: None,
        rate: None,
        rtt_added_ms: 0.0,
    }
}

/// A run that found these cells.
pub(crate) fn results(cells: Vec<Cell>) -> Results {
    let mut rtts: Vec<f64> = cells.iter().map(|it| it.key.rtt_added_ms).collect();
    rtts.sort_by(f64::total_cmp);
    rtts.dedup();
    Results {
        schema: SCHEMA.to_owned(),
        schema_version: SCHEMA_VERSION,
        onetrip_version: "0.1.0".to_owned(),
        started_at: "2026-11-21T19:00:00Z".to_owned(),
        elapsed_s: 1834.2,
        stopped: None,
        command: ["onetrip", "bench", "--preset", "concurrency,trips"].map(str::to_owned).into(),
        seed: 42,
        server: server(),
        client: ClientSide { cpus: 8, threads: 4, system: "linux x86_64".to_owned() },
        lines: rtts.into_iter().map(line).collect(),
        beside: None,
        profiled: None,
        cells,
    }
}

/// The same on a Redis.
pub(crate) fn redis_results(cells: Vec<Cell>) -> Results {
    let settings = [("appendonly", "no"), ("save", ""), ("io-threads", "1")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let (product, version) = ("Valkey".to_owned(), "8.0.1".to_owned());
    let url = "redis://127.0.0.1:54322".to_owned();
    let server = Server { url, product, version, private: true, settings };
    Results { server, ..results(cells) }
}

fn server() -> Server {
    let settings = [
        ("fsync", "on"),
        ("max_connections", "100"),
        ("shared_buffers", "128MB"),
        ("synchronous_commit", "on"),
    ];
    Server {
        url: "postgres://127.0.0.1:54321/postgres".to_owned(),
        product: "PostgreSQL".to_owned(),
        version: "17.2 (Debian 17.2-1.pgdg120+1)".to_owned(),
        private: true,
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    }
}

fn line(rtt_added_ms: f64) -> Line {
    let median = rtt_added_ms + 0.06;
    let rtt_ms = Spread { low: median * 0.98, median, high: median * 1.03, values: 100 };
    Line { rtt_added_ms, rtt_ms }
}
