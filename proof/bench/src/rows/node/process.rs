//! A client in a Node process of its own: told what to run over its standard input, line by line.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::measure::Sample;

/// What a process does, as proof/bench/js/child.js reads it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Of proof/bench/js/drivers.
    pub driver: &'static str,
    /// Of proof/bench/js/works.
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
pub struct Node {
    child: Child,
    /// None once it was told to end.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The client's name and version.
    pub version: String,
}

impl Node {
    pub fn start(task: &Task, url: &str) -> Result<Node> {
        let mut child = Command::new("node")
            .args(std::env::var(NODE_ARGS).unwrap_or_default().split_whitespace())
            .arg(directory().join("child.js"))
            .arg(serde_json::to_string(task)?)
            .env("ONETRIP_BENCH_URL", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start node")?;
        let (commands, answers) = (child.stdin.take(), child.stdout.take());
        let answers = BufReader::new(answers.context("the node process has no pipes")?);
        let mut node = Node { child, commands, answers, version: String::new() };
        let Hello { version } = node.answer()?;
        node.version = version;
        Ok(node)
    }

    /// Runs so many operations, and says what they cost.
    pub fn round(&mut self, operations: u32) -> Result<Sample> {
        let commands = self.commands.as_mut().context("the node process has ended")?;
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
        let commands = self.commands.as_mut().context("the node process has ended")?;
        writeln!(commands, "{{\"operations\":1}}")?;
        let cost: Cost = self.answer()?;
        cost.figures.context("the node process found nothing")
    }

    fn answer<T: for<'a> Deserialize<'a>>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("cannot hear the node process")?;
        if line.is_empty() {
            bail!("the node process ended early; it says why above");
        }
        serde_json::from_str(&line).with_context(|| format!("cannot read {line:?}"))
    }
}

impl Drop for Node {
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

/// Where the clients for Node are.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("js")
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

/// Options for Node, such as those of its profiler.
const NODE_ARGS: &str = "ONETRIP_BENCH_NODE_ARGS";

/// How long a process may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(5);
