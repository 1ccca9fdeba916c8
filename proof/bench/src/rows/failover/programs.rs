//! What writes: the clients for Node and Python, and the peers in C, Go and Java.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use onetrip_chaos::failover::Guest;
use onetrip_lab::postgres::patroni::Cluster;

use super::{PAUSE_OF_GUESTS, TASKS};
use crate::progress::Progress;
use crate::rows::pauses::{NODE, PYTHON};
use crate::rows::{node, python};

/// A writer whose pauses are measured.
pub struct Program {
    pub name: &'static str,
    pub command: Vec<String>,
    /// What it is told, of the cluster and of the URL that all others take.
    pub url: fn(&Cluster, &str) -> String,
}

/// Those that can be built here.
pub struct Programs {
    pub writers: Vec<Program>,
    pub guests: Vec<Guest>,
    /// The languages of ours that are missing, and why.
    pub missing: Vec<(&'static str, String)>,
}

impl Programs {
    pub fn build(progress: &Progress) -> Programs {
        let mut all =
            Programs { writers: peers(progress), guests: Vec::new(), missing: Vec::new() };
        for (name, ways, command) in [
            (NODE, WAYS_OF_NODE, of_node as fn(&str) -> Result<Vec<String>>),
            (PYTHON, WAYS_OF_PYTHON, of_python),
        ] {
            match command("writer").and_then(|writer| Ok((writer, command("ledger")?))) {
                Ok((writer, ledger)) => {
                    all.writers.push(Program { name, command: writer, url: as_it_is });
                    let (tasks, pause) = (TASKS, PAUSE_OF_GUESTS);
                    all.guests.push(Guest { name, command: ledger, ways, tasks, pause });
                }
                Err(error) => all.missing.push((name, format!("{error:#}"))),
            }
        }
        all
    }
}

const WAYS_OF_NODE: &[&str] = &[
    "single",
    "statement of a session",
    "pipeline",
    "transaction",
    "transaction of one trip",
    "COPY",
];

const WAYS_OF_PYTHON: &[&str] = &[
    "single",
    "statement of a session",
    "pipeline",
    "transaction",
    "transaction of one trip",
    "transaction that is run",
    "executemany",
    "atomic batch",
    "row of an isolated batch",
    "COPY",
    "COPY of rows",
];

fn of_node(name: &str) -> Result<Vec<String>> {
    node::setup::prepare()?;
    let program = node::setup::directory().join(format!("failover/{name}.js"));
    Ok(vec!["node".into(), program.display().to_string()])
}

fn of_python(name: &str) -> Result<Vec<String>> {
    python::setup::prepare()?;
    let program = python::setup::directory().join(format!("failover/{name}.py"));
    let python = python::setup::python().get_program().display().to_string();
    Ok(vec![python, program.display().to_string()])
}

fn peers(progress: &Progress) -> Vec<Program> {
    let built = [
        ("libpq", libpq(), as_it_is as fn(&Cluster, &str) -> String),
        ("pgx", pgx(), as_it_is),
        ("jdbc", jdbc(), jdbc_url),
    ];
    let mut peers = Vec::new();
    for (name, command, url) in built {
        match command {
            Ok(command) => peers.push(Program { name, command, url }),
            Err(error) => progress.say(&format!("failover without {name}: {error:#}")),
        }
    }
    peers
}

fn as_it_is(_: &Cluster, url: &str) -> String {
    url.to_owned()
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
