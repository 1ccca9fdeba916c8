//! A client for another language in a process of its own: told what to run over its standard input,
//! line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{node, python};
use crate::measure::Sample;

/// What runs a client.
#[derive(Clone, Copy, Debug)]
pub enum Language {
    Node,
    Python,
}

/// What a process does, as proof/bench/js/child.js and proof/bench/python/child.py read it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    #[serde(skip)]
    pub language: Language,
    /// Of proof/bench/js/drivers, or proof/bench/python/drivers.
    pub driver: &'static str,
    /// Of the works beside them.
    pub work: &'static str,
    /// Operations at a time.
    pub in_flight: u32,
    pub connections: u32,
    /// Whether pg and its drop-in are told to pipeline.
    pub pipeline: bool,
    /// Whether their statements have names.
    pub named: bool,
    /// Operations at a time while it warms up, which no round counts.
    pub warmth: u32,
}

/// A running client, connected and warm.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// None once it was told to end.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The client's name and version.
    pub version: String,
}

impl Process {
    pub fn start(task: &Task, url: &str) -> Result<Process> {
        let mut command = match task.language {
            Language::Node => node::setup::child(),
            Language::Python => python::setup::child(),
        };
        let mut child = command
            .arg(serde_json::to_string(task)?)
            .env("ONETRIP_BENCH_URL", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {:?}", task.language))?;
        let (commands, answers) = (child.stdin.take(), child.stdout.take());
        let answers = BufReader::new(answers.context("the client's process has no pipes")?);
        let mut process = Process { child, commands, answers, version: String::new() };
        let Hello { version } = process.answer()?;
        process.version = version;
        Ok(process)
    }

    /// Runs so many operations, and says what they cost.
    pub fn round(&mut self, operations: u32) -> Result<Sample> {
        let commands = self.commands.as_mut().context("the client's process has ended")?;
        writeln!(commands, "{{\"operations\":{operations}}}")?;
        let cost: Cost = self.answer()?;
        Ok(Sample {
            wall: Duration::from_nanos(cost.wall),
            cpu: Duration::from_micros(cost.cpu),
            operations: operations.into(),
            checksum: cost.checksum.unwrap_or_default(),
        })
    }

    /// Runs a work that measures itself, for as long as it takes; says what it found.
    pub fn figures(&mut self) -> Result<Vec<f64>> {
        self.figures_of(1)
    }

    /// The same of so many operations.
    pub fn figures_of(&mut self, operations: u32) -> Result<Vec<f64>> {
        let commands = self.commands.as_mut().context("the client's process has ended")?;
        writeln!(commands, "{{\"operations\":{operations}}}")?;
        let cost: Cost = self.answer()?;
        cost.figures.context("the client's process found nothing")
    }

    fn answer<T: for<'a> Deserialize<'a>>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("cannot hear the client's process")?;
        if line.is_empty() {
            bail!("the client's process ended early; it says why above");
        }
        serde_json::from_str(&line).with_context(|| format!("cannot read {line:?}"))
    }
}

impl Drop for Process {
    /// It closes its connections and ends by itself, so that a profiler can write; or it is ended.
    fn drop(&mut self) {
        self.commands = None;
        let end = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > end {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            sleep(Duration::from_millis(5));
        }
    }
}

#[derive(Deserialize)]
struct Hello {
    version: String,
}

#[derive(Deserialize)]
struct Cost {
    /// Nanoseconds.
    wall: u64,
    /// Microseconds.
    cpu: u64,
    checksum: Option<u64>,
    figures: Option<Vec<f64>>,
}

/// How long a process may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(5);
