//! The C program on libpq: built by the system's compiler when it is first needed, run in a process
//! of its own, told what to do over its standard input.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::item::{ROWS, SELECT_ONE};
use crate::measure::Sample;
use crate::stage::Server;

/// A running peer with its connection.
#[derive(Debug)]
pub struct Libpq {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    pub version: String,
}

impl Libpq {
    pub fn connect(server: &Server) -> Result<Libpq> {
        let mut child = Command::new(program()?)
            .arg(SELECT_ONE)
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", server.port().to_string())
            .env("PGUSER", server.user())
            .env("PGPASSWORD", server.password())
            .env("PGDATABASE", "postgres")
            .env("PGSSLMODE", "disable")
            .env("PGGSSENCMODE", "disable")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the libpq program")?;
        let (Some(commands), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the libpq program has no pipes");
        };
        let mut peer =
            Libpq { child, commands, answers: BufReader::new(answers), version: String::new() };
        let number: u32 = peer.line()?.trim().parse().context("libpq says no version")?;
        peer.version = format!("libpq {}.{}", number / 10_000, number % 10_000);
        Ok(peer)
    }

    /// Runs `batches` pipelines of `size` selects and says what they cost.
    pub fn run(&mut self, batches: u32, size: u32, first: u32) -> Result<Sample> {
        writeln!(self.commands, "{batches} {size} {first} {ROWS}")?;
        let line = self.line()?;
        let figures: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
        let [wall, cpu, checksum] = figures[..] else {
            bail!("the libpq program ended early");
        };
        Ok(Sample {
            wall: Duration::from_nanos(wall),
            cpu: Duration::from_nanos(cpu),
            operations: u64::from(batches * size),
            checksum,
        })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("cannot hear the libpq program")?;
        Ok(line)
    }
}

impl Drop for Libpq {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The version of libpq that programs are linked with, if one can be built.
pub fn version() -> Option<String> {
    program().ok()?;
    let output = Command::new("pg_config").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().replace("PostgreSQL", "libpq"))
}

/// Builds the program once per process.
fn program() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.clone().map_err(|error| anyhow!("{error}"))
}

/// Builds it beside this program, where cargo keeps what was built, so a run that is killed leaves
/// nothing elsewhere.
fn build() -> Result<PathBuf> {
    built(&Path::new(env!("CARGO_MANIFEST_DIR")).join("c/libpq_peer.c"), "libpq_peer")
}

/// A program on libpq, under this name.
pub fn built(source: &Path, name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find the directory of this program")?;
    let path = path.with_file_name(name);
    // Under a name of this process first: another run may be building or using it.
    let unfinished = path.with_file_name(format!("{name}-{}", std::process::id()));
    compile(source, &unfinished)?;
    std::fs::rename(&unfinished, &path).context("cannot keep the libpq program")?;
    Ok(path)
}

fn compile(source: &Path, path: &Path) -> Result<()> {
    let output = Command::new("cc")
        .args(["-O2", "-o"])
        .arg(path)
        .arg(source)
        .arg(format!("-I{}", pg_config("--includedir")))
        .arg(format!("-L{}", pg_config("--libdir")))
        .arg("-lpq")
        .output()
        .context("cannot run cc")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let why = text.lines().find(|line| line.contains("error")).unwrap_or("cc failed");
        bail!("libpq's header or library is missing (install libpq-dev): {why}");
    }
    Ok(())
}

fn pg_config(what: &str) -> String {
    let output = Command::new("pg_config").arg(what).output();
    output.map_or(String::new(), |it| String::from_utf8_lossy(&it.stdout).trim().to_owned())
}
