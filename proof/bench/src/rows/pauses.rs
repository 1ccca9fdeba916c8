//! How soon writers go on once another server takes writes: programs that write all the time, each
//! of which prints the time and the server's port when that server is another one than before.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};

use crate::measure::Spread;
use crate::report::Row;

/// The languages of our own.
pub const RUST: &str = "rust";
pub const NODE: &str = "node";
pub const PYTHON: &str = "python";
const OURS: [&str; 3] = [RUST, NODE, PYTHON];

/// Between two writes, and before the next attempt to connect. The programs have the same.
pub const PAUSE: Duration = Duration::from_millis(5);

/// How long a program may take until its first write.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A server that took over.
pub struct Takeover {
    /// What had befallen the former one.
    pub what: String,
    /// When that was commanded.
    pub from: SystemTime,
    /// When a probe's first write was acknowledged there.
    pub takes_writes: SystemTime,
    pub port: u16,
}

/// The writes of a program: the time of the first on each port in turn.
#[derive(Clone, Default)]
pub struct Firsts(Arc<Mutex<Vec<(SystemTime, u16)>>>);

impl Firsts {
    pub fn keep(&self, at: SystemTime, port: u16) {
        if let Ok(mut firsts) = self.0.lock() {
            firsts.push((at, port));
        }
    }

    fn has_begun(&self) -> bool {
        self.0.lock().is_ok_and(|firsts| !firsts.is_empty())
    }

    /// The first write to the new server.
    fn after(&self, takeover: &Takeover) -> Option<SystemTime> {
        let firsts = self.0.lock().map(|firsts| firsts.clone()).unwrap_or_default();
        let is_there =
            |(at, port): &&(SystemTime, u16)| *at >= takeover.from && *port == takeover.port;
        firsts.iter().find(is_there).map(|(at, _)| *at)
    }
}

/// Programs that run until this is dropped, and the writer in this process.
#[derive(Default)]
pub struct Writers {
    children: Vec<Child>,
    firsts: BTreeMap<&'static str, Firsts>,
}

impl Drop for Writers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Writers {
    /// One more program, with all its arguments.
    pub fn start(&mut self, name: &'static str, mut command: Command) -> Result<()> {
        // Warnings of the server, and what each attempt that failed has to say.
        command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let (stdout, theirs) = (child.stdout.take().context("it has no pipe")?, Firsts::default());
        self.children.push(child);
        self.firsts.insert(name, theirs.clone());
        thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.filter_map(|line| read(&line)).for_each(|(at, port)| theirs.keep(at, port));
        });
        Ok(())
    }

    /// The writer in this process, in a thread of its own, which ends with the process.
    pub fn start_here(&mut self, write: impl FnOnce(&Firsts) + Send + 'static) {
        let own = Firsts::default();
        self.firsts.insert(RUST, own.clone());
        thread::spawn(move || write(&own));
    }

    /// Waits for the first write of each: a program that is still being started at the first fault
    /// would seem to pause.
    pub fn begun(&self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        for (name, firsts) in &self.firsts {
            while !firsts.has_begun() {
                if Instant::now() > deadline {
                    bail!("{name} does not write");
                }
                thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// What they have written so far.
    pub fn firsts(&self) -> BTreeMap<&'static str, Firsts> {
        self.firsts.clone()
    }
}

fn read(line: &str) -> Option<(SystemTime, u16)> {
    let (micros, port) = line.split_once(' ')?;
    let at = SystemTime::UNIX_EPOCH + Duration::from_micros(micros.parse().ok()?);
    Some((at, port.parse().ok()?))
}

/// The median and the worst pause of each language of ours over all take-overs, beside the best of
/// the peers. A pause begins when the new server has acknowledged its first write, the probe's or a
/// writer's. Less than `resolution` counts as that, on either side.
pub fn rows(
    name: &str,
    takeovers: &[Takeover],
    firsts: &BTreeMap<&'static str, Firsts>,
    resolution: Duration,
) -> Vec<Row> {
    let least = resolution.as_secs_f64() * 1e3;
    let began = takeovers.iter().map(|takeover| {
        let all = firsts.values().filter_map(|firsts| firsts.after(takeover));
        all.fold(takeover.takes_writes, SystemTime::min)
    });
    let began: Vec<_> = began.collect();
    let of = |firsts: &Firsts| {
        let pauses = takeovers.iter().zip(&began).map(|(takeover, began)| {
            let pause = firsts.after(takeover).map(|at| at.duration_since(*began));
            pause.map_or(f64::INFINITY, |it| it.unwrap_or_default().as_secs_f64() * 1e3)
        });
        pauses.collect::<Vec<_>>()
    };
    let all: BTreeMap<_, _> = firsts.iter().map(|(name, firsts)| (*name, of(firsts))).collect();
    let each = takeovers.iter().enumerate().map(|(index, takeover)| {
        let each = all.iter().map(|(name, ms)| format!("{name} {:.1}", ms[index]));
        format!("{}: {}", takeover.what, each.collect::<Vec<_>>().join(", "))
    });
    let each = each.collect::<Vec<_>>().join("; ");
    let note = format!("less than {least} ms counts as that; ms after each fault: {each}");
    let median = |ms: &[f64]| Spread::of(ms.iter().copied()).map(|ms| ms.max(least));
    let worst = |ms: &[f64]| Spread::of([ms.iter().copied().fold(least, f64::max)]);
    let mut rows = Vec::new();
    for ours in OURS.into_iter().filter(|ours| all.contains_key(ours)) {
        let named = |what: &str| of_language(&format!("{name}.{what}"), ours);
        rows.push(beside_the_best(&named("pause"), ours, &all, median).note(&note));
        rows.push(beside_the_best(&named("pause_worst"), ours, &all, worst).note(&note));
    }
    rows
}

fn beside_the_best(
    name: &str,
    ours: &str,
    all: &BTreeMap<&str, Vec<f64>>,
    figure: impl Fn(&[f64]) -> Spread,
) -> Row {
    let peers = all.iter().filter(|(name, _)| !OURS.contains(name));
    let figures = peers.map(|(name, ms)| (figure(ms).median, *name));
    match figures.min_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((best, peer)) => Row::multiple(name, "ms", (figure(&all[ours]), best), peer, 1.1),
        None => Row::alone(name, "ms", figure(&all[ours]), None),
    }
}

/// The name of a figure. That of Rust has no language in it.
pub fn of_language(name: &str, language: &str) -> String {
    match language {
        RUST => name.to_owned(),
        _ => format!("{name}.{language}"),
    }
}
