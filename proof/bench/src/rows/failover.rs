//! Failovers of a cluster under Patroni: what the client says of each row, and how soon writers go
//! on once another node takes writes, beside libpq, pgx and JDBC. See proof/chaos.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use onetrip::{Client, Config};
use onetrip_chaos::Kind;
use onetrip_chaos::failover::{self, Options, Takeover};
use onetrip_lab::postgres::patroni::{Cluster, Programs};

use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;
use crate::{Plan, Side};

/// Five kills of the primary, of its whole node or of PostgreSQL alone, five switchovers, and two
/// cuts.
const FAULTS: [(Kind, u32); 4] = [
    (Kind::NodeKilled, 3),
    (Kind::PostmasterKilled, 2),
    (Kind::SwitchedOver, 5),
    (Kind::NodeCut, 2),
];

/// What every writer runs. The port tells which node it wrote to, past the proxies.
const WRITE: &str = "insert into probed values (1) returning inet_server_port()";

/// Between two writes, and before the next attempt to connect.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a program may take until its first write.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The writes of a program by the time of the first on each port in turn.
type Firsts = Arc<Mutex<Vec<(SystemTime, u16)>>>;

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    if Programs::look()?.is_none() {
        return Ok(vec![Row::skipped("failover", "there is no Patroni (scripts/setup cluster)")]);
    }
    let peers = Peers::build(progress);
    let count = |(kind, count): (Kind, u32)| (0..count.div_ceil(plan.shorter)).map(move |_| kind);
    let seed = onetrip_chaos::Options::new(Duration::ZERO).seed;
    let options = Options { seed, faults: FAULTS.into_iter().flat_map(count).collect() };
    progress.say(&format!("failover, ONETRIP_SEED={seed}"));
    let firsts: Mutex<BTreeMap<&str, Firsts>> = Mutex::default();
    let outcome = failover::run(&options, |cluster| {
        let (writers, theirs) = start(&peers, cluster);
        if let Ok(mut firsts) = firsts.lock() {
            *firsts = theirs;
        }
        writers
    });
    for finding in &outcome.report.findings {
        eprintln!("failover: {finding}");
    }
    let note = outcome.report.to_string();
    let row = |name: &str, unit, count: f64, bar| {
        Row::alone(&format!("failover.{name}"), unit, Spread::of([count]), bar).note(&note)
    };
    let mut rows = vec![
        row("wrong", "findings", outcome.report.findings.len() as f64, Some(0.0)),
        row("acknowledged", "rows", outcome.report.tally.acknowledged as f64, None).at_least(1.0),
        row("takeovers", "faults", outcome.takeovers.len() as f64, None),
    ];
    let firsts = firsts.into_inner().unwrap_or_default();
    rows.extend(pauses(&outcome.takeovers, &firsts));
    Ok(rows)
}

/// The median and the worst over all faults, ours beside the best of the peers.
fn pauses(takeovers: &[Takeover], firsts: &BTreeMap<&str, Firsts>) -> Vec<Row> {
    let of = |firsts: &Firsts| {
        let firsts = firsts.lock().map(|firsts| firsts.clone()).unwrap_or_default();
        takeovers.iter().map(|takeover| pause(takeover, &firsts)).collect::<Vec<_>>()
    };
    let all: BTreeMap<_, _> = firsts.iter().map(|(name, firsts)| (*name, of(firsts))).collect();
    let each = takeovers.iter().enumerate().map(|(index, takeover)| {
        let each = all.iter().map(|(name, ms)| format!("{name} {:.0}", ms[index]));
        format!("{:?}: {}", takeover.kind, each.collect::<Vec<_>>().join(", "))
    });
    let note = format!("ms after each fault: {}", each.collect::<Vec<_>>().join("; "));
    let median = |ms: &[f64]| Spread::of(ms.iter().copied());
    let worst = |ms: &[f64]| Spread::of([ms.iter().copied().fold(0.0, f64::max)]);
    vec![
        beside_the_best("failover.pause", &all, median).note(&note),
        beside_the_best("failover.pause_worst", &all, worst).note(&note),
    ]
}

/// Less than [`RESOLUTION`] counts as that, on either side.
fn beside_the_best(
    name: &str,
    all: &BTreeMap<&str, Vec<f64>>,
    figure: impl Fn(&[f64]) -> Spread,
) -> Row {
    let figure = |ms: &Vec<f64>| figure(ms).map(|ms| ms.max(RESOLUTION.as_secs_f64() * 1e3));
    let ours = figure(&all[OURS]);
    let peers = all.iter().filter(|(name, _)| **name != OURS);
    let figures = peers.map(|(name, ms)| (figure(ms).median, *name));
    match figures.min_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((best, peer)) => Row::multiple(name, "ms", (ours, best), peer, 1.1),
        None => Row::alone(name, "ms", ours, None),
    }
}

/// What the pauses of probe and writers, and five programs on two cores, make of a write at once:
/// 0 to 20 ms were seen of each of them.
const RESOLUTION: Duration = Duration::from_millis(20);

/// From the moment when the new primary took writes to the first write there, in milliseconds.
fn pause(takeover: &Takeover, firsts: &[(SystemTime, u16)]) -> f64 {
    let is_there = |(at, port): &&(SystemTime, u16)| *at >= takeover.from && *port == takeover.port;
    let first = firsts.iter().find(is_there);
    first.map_or(f64::INFINITY, |(at, _)| {
        at.duration_since(takeover.takes_writes).unwrap_or_default().as_secs_f64() * 1e3
    })
}

const OURS: &str = "ours";

/// Programs that write, until this is dropped.
struct Writers(Vec<Child>);

impl Drop for Writers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start<'a>(peers: &'a Peers, cluster: &Cluster) -> (Writers, BTreeMap<&'a str, Firsts>) {
    let url = format!("{}&connect_timeout=2", cluster.url());
    let (mut children, mut firsts) = (Vec::new(), BTreeMap::new());
    for peer in &peers.0 {
        let mut command = Command::new(&peer.command[0]);
        command.args(&peer.command[1..]).arg((peer.url)(cluster, &url)).arg(WRITE);
        // Warnings of the server, and what each attempt that failed has to say.
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let child = command.stdout(Stdio::piped()).spawn();
        let Ok(mut child) = child else { continue };
        let theirs = Firsts::default();
        if let Some(stdout) = child.stdout.take() {
            let theirs = theirs.clone();
            thread::spawn(move || {
                let lines = BufReader::new(stdout).lines().map_while(Result::ok);
                lines.filter_map(|line| read(&line)).for_each(|first| keep(&theirs, first));
            });
        }
        children.push(child);
        firsts.insert(peer.name, theirs);
    }
    let own = Firsts::default();
    firsts.insert(OURS, own.clone());
    thread::spawn(move || ours(&url, &own));
    // A program that is still being started at the first fault would seem to pause.
    let has_begun = |firsts: &Firsts| firsts.lock().is_ok_and(|firsts| !firsts.is_empty());
    let deadline = Instant::now() + START_TIMEOUT;
    while !firsts.values().all(has_begun) && Instant::now() < deadline {
        thread::sleep(PAUSE);
    }
    (Writers(children), firsts)
}

fn read(line: &str) -> Option<(SystemTime, u16)> {
    let (micros, port) = line.split_once(' ')?;
    let at = SystemTime::UNIX_EPOCH + Duration::from_micros(micros.parse().ok()?);
    Some((at, port.parse().ok()?))
}

fn keep(firsts: &Firsts, first: (SystemTime, u16)) {
    if let Ok(mut firsts) = firsts.lock() {
        firsts.push(first);
    }
}

/// The same writer on this client, which connects anew by itself. It ends with the process.
fn ours(url: &str, firsts: &Firsts) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    runtime.block_on(async {
        let Ok(config) = url.parse::<Config>() else { return };
        let Ok(client) = Client::connect_with(&config.connections_max(1)).await else { return };
        let mut last = 0;
        loop {
            if let Ok(row) = client.query_one(WRITE, &[]).await {
                let port = row.get::<i32>(0) as u16;
                if port != last {
                    keep(firsts, (SystemTime::now(), port));
                }
                last = port;
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
}

struct Peer {
    name: &'static str,
    command: Vec<String>,
    url: fn(&Cluster, &str) -> String,
}

/// The peers that can be built here.
struct Peers(Vec<Peer>);

impl Peers {
    fn build(progress: &Progress) -> Peers {
        let as_it_is: fn(&Cluster, &str) -> String = |_, url| url.to_owned();
        let built = [
            ("libpq", libpq(), as_it_is),
            ("pgx", pgx(), as_it_is),
            ("jdbc", jdbc(), jdbc_url as fn(&Cluster, &str) -> String),
        ];
        let peer = |(name, command, url): (&'static str, Result<Vec<String>>, _)| match command {
            Ok(command) => Some(Peer { name, command, url }),
            Err(error) => {
                progress.say(&format!("failover without {name}: {error:#}"));
                None
            }
        };
        Peers(built.into_iter().filter_map(peer).collect())
    }
}

fn libpq() -> Result<Vec<String>> {
    let source = here().join("c/libpq_writer.c");
    Ok(vec![crate::libpq::built(&source, "libpq_writer")?.display().to_string()])
}

fn pgx() -> Result<Vec<String>> {
    let program = beside("pgx_writer")?;
    let mut build = Command::new("go");
    build.current_dir(here().join("go")).args(["build", "-o"]).arg(&program).arg(".");
    done(&mut build)?;
    Ok(vec![program.display().to_string()])
}

const JDBC: &str = "org.postgresql:postgresql:42.7.8:jar";

/// Java runs the source; the driver comes from Maven.
fn jdbc() -> Result<Vec<String>> {
    let directory = beside("jdbc")?;
    let jar = directory.join("postgresql-42.7.8.jar");
    if !jar.exists() {
        let copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy";
        let mut fetch = Command::new("mvn");
        fetch.current_dir(std::env::temp_dir()).args(["-q", "-B", copy]);
        fetch.arg(format!("-Dartifact={JDBC}"));
        fetch.arg(format!("-DoutputDirectory={}", directory.display()));
        done(&mut fetch)?;
    }
    let source = here().join("java/Writer.java").display().to_string();
    Ok(vec!["java".into(), "-cp".into(), jar.display().to_string(), source])
}

/// As its documentation has it for failovers. Its login has no limit of its own but that of reads,
/// which are as patient here as the kernel is for the others.
fn jdbc_url(cluster: &Cluster, _: &str) -> String {
    let hosts = cluster.nodes().iter().map(|node| node.proxy().addr().to_string());
    format!(
        "jdbc:postgresql://{}/postgres?user=postgres&password={}&targetServerType=primary\
         &connectTimeout=2&socketTimeout=5",
        hosts.collect::<Vec<_>>().join(","),
        cluster.password()
    )
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A path beside this program, where cargo keeps what was built.
fn beside(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find the directory of this program")?;
    Ok(path.with_file_name(name))
}

fn done(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed: {}", said.lines().next().unwrap_or_default());
    }
    Ok(())
}
