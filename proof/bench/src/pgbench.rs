//! pgbench, the load generator that comes with PostgreSQL, as a peer.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use onetrip_lab::postgres::{Installation, find_all};

use crate::stage::Server;

pub struct Pgbench {
    program: PathBuf,
    pub version: String,
}

impl Pgbench {
    /// Beside a server that the lab knows, the newest first.
    pub fn find() -> Result<Pgbench> {
        let mut installations = find_all()?;
        installations.sort_by_key(|it| std::cmp::Reverse(Installation::major(it)));
        let mut programs = installations.iter().map(|it| it.bin().join("pgbench"));
        let program = programs.find(|program| program.exists()).context("there is no pgbench")?;
        let output = Command::new(&program).arg("--version").output()?;
        let version = String::from_utf8_lossy(&output.stdout);
        let version = version.split_whitespace().nth(2).unwrap_or("of an unknown version");
        Ok(Pgbench { version: format!("pgbench {version}"), program })
    }

    /// One client on this server, with neither TLS nor tables of its own; the rest is up to the caller.
    pub fn on(&self, server: &Server) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["--no-vacuum", "--client=1"])
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", server.port().to_string())
            .env("PGUSER", server.user())
            .env("PGPASSWORD", server.password())
            .env("PGDATABASE", "postgres")
            .env("PGSSLMODE", "disable");
        command
    }
}

/// Runs it to its end with a script on its standard input, which `--file=-` reads.
pub fn finish(mut pgbench: Command, script: &str) -> Result<Output> {
    let mut pgbench = pgbench
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run pgbench")?;
    let mut input = pgbench.stdin.take().context("pgbench has no input")?;
    input.write_all(script.as_bytes()).context("pgbench takes no script")?;
    drop(input);
    let output = pgbench.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "pgbench: {}", said.lines().last().unwrap_or("it failed"));
    Ok(output)
}
