//! The plan of a run.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use crate::concurrency::Workload;
use crate::load::{Load, Until};
use crate::results::{Isolation, Key, Preset, Unit};
use crate::trips::Way;
use crate::{fortunes, redis, script};

/// The plan of a run.
#[derive(Debug)]
pub struct Plan {
    /// What is measured.
    pub cells: Vec<Planned>,
    /// How often each cell is measured.
    pub repetitions: u32,
    /// The seed of all random choices.
    pub seed: u64,
    /// Rows of the tables of the concurrency preset.
    pub rows: u32,
    /// The scale of pgbench's tables, if scripts get them.
    pub scale: Option<u32>,
    /// Concurrency: whether COMMIT is sent with the statement.
    pub one_trip: bool,
    /// Whether an existing schema of the tool is dropped.
    pub force: bool,
    /// The arguments of the program, without user information.
    pub command: Vec<String>,
    /// Threads of the runtime that it runs on.
    pub threads: usize,
}

/// A cell that will be measured.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What tells it from the others.
    pub key: Key,
    /// What one operation is.
    pub unit: Unit,
    /// What is done.
    pub work: Work,
    /// How the tasks are driven, and how long.
    pub load: Load,
}

/// What is done in a cell.
#[derive(Clone, Debug)]
pub enum Work {
    /// An operation under concurrency.
    Concurrency(Workload),
    /// A way to share trips, or not.
    Trips(Way),
    /// A web page.
    Fortunes(fortunes::Mode),
    /// Scripts of pgbench's language, with a connection for each task, or fewer.
    Script(Arc<script::Plan>),
    /// Commands of Redis.
    Redis(redis::Way),
}

impl Plan {
    /// Connections that carry load at once.
    pub fn connections(&self) -> usize {
        self.cells.iter().map(|cell| cell.key.connections as usize).max().unwrap_or(0)
    }

    /// Whether tables of the tool's own are needed, and so its schema.
    pub fn has_tables(&self) -> bool {
        let is_script = |cell: &Planned| matches!(cell.work, Work::Script(_));
        self.scale.is_some() || !self.cells.iter().all(is_script)
    }

    /// The round trips that are added, the shortest first.
    pub(super) fn rtts(&self) -> Vec<Duration> {
        let mut rtts: Vec<Duration> = self.cells.iter().map(Planned::rtt).collect();
        rtts.sort_unstable();
        rtts.dedup();
        rtts
    }

    /// The order of all repetitions: each cell once, then each once more in the opposite order, and
    /// so on. Cells of one line stay together. The longest line comes first: its figures are the ones
    /// that show what trips cost.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut once: Vec<usize> = (0..self.cells.len()).collect();
        once.sort_by_key(|cell| Reverse(self.cells[*cell].rtt()));
        let mut order = Vec::new();
        for _ in 0..self.repetitions {
            order.extend(&once);
            once.reverse();
        }
        order
    }
}

impl Planned {
    /// An operation under concurrency: so many tasks at this level, which share so many
    /// connections.
    pub fn concurrency(
        workload: Workload,
        level: Isolation,
        (tasks, connections): (u32, u32),
        rtt_added_ms: f64,
        load: Load,
    ) -> Planned {
        let key = Key {
            preset: Preset::Concurrency,
            workload: workload.name.to_owned(),
            mode: None,
            isolation: Some(level),
            tasks,
            connections,
            depth: None,
            rate: load.rate,
            rtt_added_ms,
        };
        Planned { key, unit: Unit::Transaction, work: Work::Concurrency(workload), load }
    }

    /// A way to share trips, or not, on one connection.
    pub fn trips(way: Way, rtt_added_ms: f64, load: Load) -> Planned {
        let (workload, mode) = way.names();
        let key = Key {
            preset: Preset::Trips,
            workload: workload.to_owned(),
            mode: Some(mode.to_owned()),
            isolation: None,
            tasks: way.tasks(),
            connections: 1,
            depth: way.depth(),
            rate: load.rate,
            rtt_added_ms,
        };
        Planned { key, unit: way.unit(), work: Work::Trips(way), load }
    }

    /// A way to send commands of Redis, on one connection. What a repetition is may follow from the
    /// way.
    pub fn redis(way: redis::Way, rtt_added_ms: f64, load: Load) -> Planned {
        let (workload, mode) = way.names();
        let key = Key {
            preset: Preset::Redis,
            workload: workload.to_owned(),
            mode: Some(mode.to_owned()),
            isolation: None,
            tasks: 1,
            connections: 1,
            depth: way.depth(),
            rate: None,
            rtt_added_ms,
        };
        let mut load = Load { rate: None, ..load };
        if let Some(all) = way.operations() {
            load.until = Until::Operations(all);
        }
        if let Until::Operations(all) = &mut load.until {
            // The load counts calls.
            *all = all.div_ceil(way.operations_per_call());
        }
        Planned { key, unit: way.unit(), work: Work::Redis(way), load }
    }

    /// The round trip that is added.
    pub(super) fn rtt(&self) -> Duration {
        Duration::from_secs_f64(self.key.rtt_added_ms / 1e3)
    }

    /// A label for the progress display.
    pub fn label(&self) -> String {
        let key = &self.key;
        let mut label = key.workload.clone();
        let mut add = |text: String| label.extend([", ", &text]);
        if let Some(mode) = &key.mode {
            add(mode.clone());
        }
        if let Some(isolation) = key.isolation {
            add(isolation.name().to_owned());
        }
        match key.depth {
            Some(depth) => add(format!("depth {depth}")),
            None if key.tasks > 1 => add(format!("{} tasks", key.tasks)),
            None => {}
        }
        if key.rtt_added_ms > 0.0 {
            add(format!("{} ms added", key.rtt_added_ms));
        }
        label
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trips::Transfer;

    fn cell(rtt_added_ms: f64) -> Planned {
        let load = Load { until: Until::Each(1), rate: None, seed: 1 };
        let cell = Planned::trips(Way::Transfer(Transfer::Pipeline), rtt_added_ms, load);
        Planned { key: Key { mode: None, ..cell.key }, ..cell }
    }

    fn plan(cells: Vec<Planned>, repetitions: u32) -> Plan {
        let command = Vec::new();
        let (seed, rows, threads) = (1, 1, 1);
        let (scale, one_trip, force) = (None, false, false);
        Plan { cells, repetitions, seed, rows, scale, one_trip, force, command, threads }
    }

    #[test]
    fn cells_take_turns_there_and_back_and_those_of_a_line_stay_together() {
        let cells = [5.0, 0.0, 5.0, 0.0].map(cell).into();
        assert_eq!(plan(cells, 3).order(), [0, 2, 1, 3, 3, 1, 2, 0, 0, 2, 1, 3]);
    }

    #[test]
    fn a_label_says_what_a_cell_differs_in() {
        assert_eq!(cell(0.0).label(), "transfer");
        let mut all = cell(0.2);
        all.key.mode = Some("pipeline".to_owned());
        all.key.isolation = Some(Isolation::ReadCommitted);
        all.key.tasks = 7;
        assert_eq!(all.label(), "transfer, pipeline, read committed, 7 tasks, 0.2 ms added");
        all.key.depth = Some(7);
        assert_eq!(all.label(), "transfer, pipeline, read committed, depth 7, 0.2 ms added");
    }
}
