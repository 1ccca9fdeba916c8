//! What a run will do.

use std::sync::Arc;

use crate::concurrency::Workload;
use crate::load::Load;
use crate::results::{Key, Unit};
use crate::trips::Way;
use crate::{fortunes, script};

/// What a run will do.
#[derive(Debug)]
pub struct Plan {
    /// What is measured.
    pub cells: Vec<Planned>,
    /// How often each cell is measured.
    pub repetitions: u32,
    /// What all random choices follow from.
    pub seed: u64,
    /// Rows of the tables of the concurrency preset.
    pub rows: u32,
    /// The scale of pgbench's tables, if scripts get them.
    pub scale: Option<u32>,
    /// Concurrency: whether COMMIT leaves with the statement.
    pub one_trip: bool,
    /// Whether a schema of the tool's that is there already is dropped.
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
}

impl Planned {
    /// For people who watch.
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
