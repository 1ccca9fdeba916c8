//! 1,000 tasks that go on asking a server that has stalled, its connections open: the memory that this
//! takes. In a process of its own, whose memory is nothing else's.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use onetrip::{Client, Config, Kind, Reply, Statement};
use onetrip_lab::proxy::{Direction, Fault, Proxy, ProxyConfig, Scope};
use serde::{Deserialize, Serialize};

use crate::child::{self, memory_mib, reset_peak};
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

const NAME: &str = "overload_rss";
const GROWTH_MIB_MAX: f64 = 64.0;

const TASKS: u64 = 1000;
const DURATION: Duration = Duration::from_secs(30);

/// Statements that a task has under way at most: 40,000 in all. That is more than a connection takes in
/// flight, in its queue and waiting for it (1 + 16 + 8 MiB), so there are always some that are refused.
const UNDER_WAY: usize = 40;

/// Each has a parameter of this many bytes.
const PARAMETER_LEN: usize = 1024;
const SELECT: &str = "select length($1::text)";

/// The deadline of a statement in every other task; the others wait as long as it takes.
const DEADLINE: Duration = Duration::from_secs(1);

/// The pause of a task that was refused.
const PAUSE: Duration = Duration::from_millis(20);

/// What the child found.
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    growth_mib: f64,
    issued: u64,
    refused: u64,
    late: u64,
    connections: usize,
}

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for (name, connections, bar) in
        [(NAME.to_owned(), 1, Some(GROWTH_MIB_MAX)), (format!("{NAME}.connections_10"), 10, None)]
    {
        let found = overload(stage, connections, DURATION / plan.shorter)?;
        progress.tick(rows.len() + 1, 2);
        let note = format!(
            "largest growth of resident memory in {} s; {} statements of {PARAMETER_LEN} bytes issued, \
             {} refused, {} late; {} of {connections} connections still open",
            (DURATION / plan.shorter).as_secs_f32(),
            found.issued,
            found.refused,
            found.late,
            found.connections,
        );
        rows.push(Row::alone(&name, "MiB", Spread::of([found.growth_mib]), bar).note(&note));
    }
    Ok(rows)
}

/// Starts the process, stalls the line once it is ready, and hears what it found.
fn overload(stage: &Stage, connections: usize, duration: Duration) -> Result<Found> {
    let proxy = Proxy::start(ProxyConfig::new(stage.addr())).context("cannot start the proxy")?;
    let url = stage.url_through(proxy.addr());
    let child = child::command()?
        .args(["--overload-of", &url])
        .args(["--connections", &connections.to_string()])
        .args(["--millis", &duration.as_millis().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the process whose memory is measured")?;
    hear(&mut Ended(child), || {
        for direction in [Direction::Up, Direction::Down] {
            proxy.fault(Fault::Stall { direction }, Scope::All);
        }
    })
}

fn hear(child: &mut Ended, stall: impl FnOnce()) -> Result<Found> {
    let (input, output) = (child.0.stdin.take(), child.0.stdout.take());
    let mut output = BufReader::new(output.context("the process has no output")?);
    let mut line = String::new();
    output.read_line(&mut line).context("cannot hear the process")?;
    ensure!(line.trim() == READY, "the process whose memory is measured has failed");
    stall();
    writeln!(input.context("the process has no input")?).context("cannot tell the process")?;
    serde_json::from_reader(output).context("cannot read what the process says")
}

/// A process that does not outlive its owner.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const READY: &str = "ready";

/// What the process does whose memory is measured.
pub fn in_child(url: &str, connections: usize, duration: Duration) -> Result<()> {
    let found = one_thread()?.block_on(async {
        let config: Config = url.parse()?;
        let client = Client::connect_with(&config.connections_max(connections)).await?;
        let statement = client.prepare(SELECT).await?;
        open_all(&client, &statement, connections).await?;
        println!("{READY}");
        std::io::stdin().read_line(&mut String::new()).context("nobody says when to begin")?;
        reset_peak()?;
        let idle = memory_mib("VmRSS")?;
        let counts = ask(&client, &statement, duration).await?;
        let growth_mib = memory_mib("VmHWM")? - idle;
        let [issued, refused, late] = counts;
        let connections = client.connections();
        anyhow::Ok(Found { growth_mib, issued, refused, late, connections })
    })?;
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}

/// Opens the connections by holding all of them at once, with the statement known on each.
async fn open_all(client: &Client, statement: &Statement, connections: usize) -> Result<()> {
    let mut sessions = Vec::new();
    for _ in 0..connections {
        let session = client.session().await?;
        session.query_one(statement, &[&"x"]).await?;
        sessions.push(session);
    }
    Ok(())
}

/// Returns how many statements were issued, refused and late.
async fn ask(client: &Client, statement: &Statement, duration: Duration) -> Result<[u64; 3]> {
    let counts: Arc<[AtomicU64; 3]> = Arc::default();
    let until = Instant::now() + duration;
    let tasks = (0..TASKS).map(|number| {
        let asker = Asker {
            client: client.clone(),
            statement: statement.clone(),
            patient: number % 2 == 0,
            counts: counts.clone(),
            under_way: VecDeque::new(),
        };
        tokio::spawn(tokio::time::timeout_at(until.into(), asker.go_on()))
    });
    for task in tasks.collect::<Vec<_>>() {
        // Nobody ends but by the time being up.
        ensure!(task.await?.is_err(), "the server that has stalled has answered");
    }
    Ok([0, 1, 2].map(|count| counts[count].load(Relaxed)))
}

struct Asker {
    client: Client,
    statement: Statement,
    patient: bool,
    counts: Arc<[AtomicU64; 3]>,
    under_way: VecDeque<Reply<onetrip::Row>>,
}

impl Asker {
    /// Keeps as many statements under way as it may. Returns once one is answered.
    async fn go_on(mut self) {
        let parameter = "x".repeat(PARAMETER_LEN);
        loop {
            while self.under_way.len() < UNDER_WAY {
                let reply = self.issue(&parameter);
                self.under_way.push_back(reply);
            }
            let Some(first) = self.under_way.pop_front() else { return };
            let Err(error) = first.await else { return };
            let late = error.kind() == Kind::Timeout;
            self.counts[if late { 2 } else { 1 }].fetch_add(1, Relaxed);
            if !late {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    fn issue(&self, parameter: &str) -> Reply<onetrip::Row> {
        self.counts[0].fetch_add(1, Relaxed);
        match self.patient {
            true => self.client.query_one(&self.statement, &[&parameter]),
            false => self.client.timeout(DEADLINE).query_one(&self.statement, &[&parameter]),
        }
    }
}
