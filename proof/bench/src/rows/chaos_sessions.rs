//! A minute for each of the ways in which users leave something in their sessions while others work: Rust here, Node's
//! faces in processes of their own. What the client says of each row is held against what is there, and nobody may
//! work in a session of somebody else. See proof/chaos/SESSIONS.md.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use onetrip_chaos::Options;
use onetrip_chaos::sessions::{Setting, run as run_rust};
use onetrip_lab::postgres::pgbouncer::{self, PoolMode, PrivatePgBouncer, Program};
use onetrip_lab::postgres::{Durability, Options as Server, PrivatePostgres, Shutdown};
use serde::Deserialize;
use serde_json::json;

use super::node::setup;
use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;
use crate::{Plan, Side};

const SECONDS: u64 = 60;

/// So often the server of a Node process dies and comes back.
const RESTARTS: Duration = Duration::from_secs(5);

/// All combinations, one row each.
pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    let options = Options::new(Duration::from_secs(SECONDS) / plan.shorter);
    let settings = settings()?;
    // To repeat one of them.
    let way = std::env::var("ONETRIP_WAY").unwrap_or_default();
    let mut rows = Vec::new();
    for setting in &settings {
        let name = name("rust", setting);
        if !name.contains(&way) {
            continue;
        }
        progress.say(&format!("{name}, ONETRIP_SEED={}", options.seed));
        let report = run_rust(&options, setting);
        rows.push(row(&name, &report.findings, &report.to_string()));
    }
    match setup::prepare().and_then(|()| build()) {
        Err(error) => rows.push(Row::skipped("chaos_sessions.node", &format!("{error:#}"))),
        Ok(()) => {
            for face in ["modern", "pg", "pg-pipeline"] {
                for setting in &settings {
                    let name = name(face, setting);
                    if !name.contains(&way) {
                        continue;
                    }
                    progress.say(&format!("{name}, seed {}", seed(&options)));
                    let report = run_node(&options, setting, face)?;
                    let note =
                        format!("{}: {:?}, {} faults", report.setting, report.rows, report.faults);
                    rows.push(row(&name, &report.wrong, &note));
                }
            }
        }
    }
    Ok(rows)
}

/// Directly over pools of all sizes, with and without faults, and through each pooler in both modes.
fn settings() -> Result<Vec<Setting>> {
    let mut all = Vec::new();
    for connections in [1, 5, 10] {
        let setting = |faults| Setting { connections, pooler: None, faults };
        all.extend([setting(false), setting(true)]);
    }
    for program in pgbouncer::find_all()? {
        for (mode, connections) in [(PoolMode::Session, 5), (PoolMode::Transaction, 10)] {
            let pooler = Some((program.clone(), mode));
            all.push(Setting { connections, pooler, faults: true });
        }
    }
    Ok(all)
}

fn name(face: &str, setting: &Setting) -> String {
    let Setting { connections, pooler, faults } = setting;
    let way = match pooler {
        None => "direct".to_owned(),
        Some((program, mode)) => format!("pgbouncer_{}_{mode:?}", program.version()).to_lowercase(),
    };
    let faults = if *faults { "faults" } else { "calm" };
    format!("chaos_sessions.{face}.{way}.{connections}.{faults}")
}

fn row(name: &str, wrong: &[String], note: &str) -> Row {
    for finding in wrong {
        eprintln!("{name}: {finding}");
    }
    Row::alone(name, "findings", Spread::of([wrong.len() as f64]), Some(0.0)).note(note)
}

fn seed(options: &Options) -> u64 {
    options.seed % (1 << 31)
}

/// What faces/node/test/chaos/main.ts prints as its last line.
#[derive(Debug, Deserialize)]
struct Report {
    setting: String,
    rows: std::collections::BTreeMap<String, u64>,
    faults: u64,
    wrong: Vec<String>,
}

fn build() -> Result<()> {
    let mut tsc = Command::new("npx");
    tsc.args(["--no-install", "tsc", "-p", "tsconfig.test.json"]).current_dir(setup::package());
    setup::said(&mut tsc).context("cannot build the programs for Node")?;
    Ok(())
}

/// A server of its own, and a process that works on it and says in the end what was wrong.
fn run_node(options: &Options, setting: &Setting, face: &str) -> Result<Report> {
    let durable = Server { durability: Durability::Full, ..Server::default() };
    let mut server = PrivatePostgres::start(durable)?;
    let pooler = setting.pooler.as_ref().map(|(program, mode)| pooled(&server, program, *mode));
    let pooler = pooler.transpose()?;
    let shared = setting.pooler.as_ref().is_some_and(|(_, mode)| *mode != PoolMode::Session);
    let mut told = json!({
        "face": face, "connections": setting.connections, "faults": setting.faults,
        "seconds": options.duration.as_secs_f64(), "seed": seed(options), "url": server.url(),
        "shared": shared,
    });
    if let Some(pooler) = &pooler {
        told["pooler"] = pooler.url().into();
    }
    let mut child = Command::new("node")
        .arg(setup::package().join("build/test/chaos/main.js"))
        .arg(told.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start node")?;
    let said = lines(&mut child)?;
    // It has made its tables.
    let mut last = said.recv().context("the program for Node ended at once")?;
    let until = Instant::now() + options.duration;
    loop {
        match said.recv_timeout(RESTARTS) {
            Ok(line) => last = line,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if setting.faults && Instant::now() < until => {
                server.shut_down(Shutdown::Immediate)?;
                server.start_again()?;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    child.wait()?;
    drop(pooler);
    server.stop()?;
    serde_json::from_str(&last).with_context(|| format!("the program for Node said {last}"))
}

fn pooled(server: &PrivatePostgres, program: &Program, mode: PoolMode) -> Result<PrivatePgBouncer> {
    let options = pgbouncer::Options {
        program: Some(program.clone()),
        pool_mode: mode,
        pool_size: if mode == PoolMode::Session { 60 } else { 4 },
        prepared_max: Some(200),
        ..pgbouncer::Options::default()
    };
    Ok(PrivatePgBouncer::start(server, &options.setting("server_login_retry", "0"))?)
}

/// What a process prints, as it comes.
fn lines(child: &mut Child) -> Result<Receiver<String>> {
    let out: ChildStdout = child.stdout.take().context("the node process has no pipes")?;
    let (tell, said) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    Ok(said)
}
