//! What the figures were measured on.

use std::fmt;
use std::fs;
use std::process::Command;

use onetrip_lab::redis::Installation;
use serde::Serialize;

use crate::libpq;
use crate::stage::Stage;

#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    measured_at: String,
    /// Of the repository, with `-dirty` where the working tree is another; none where git is silent.
    commit: Option<String>,
    /// Alternations of a row, at most.
    rounds: usize,
    cpu: String,
    cores: usize,
    kernel: String,
    postgres: String,
    settings: String,
    tokio_postgres: &'static str,
    libpq: Option<String>,
    redis: Option<String>,
    redis_rs: &'static str,
    fred: &'static str,
    onetrip: &'static str,
    profile: &'static str,
}

/// The peers' versions as Cargo.lock has them.
pub const TOKIO_POSTGRES: &str = concat!("tokio-postgres ", env!("TOKIO_POSTGRES_VERSION"));

pub const DEADPOOL: &str = concat!("deadpool-postgres ", env!("DEADPOOL_POSTGRES_VERSION"));
pub const BB8: &str = concat!("bb8 ", env!("BB8_VERSION"));
pub const SQLX: &str = concat!("sqlx ", env!("SQLX_VERSION"));
pub const REDIS_RS: &str = concat!("redis-rs ", env!("REDIS_VERSION"));
pub const FRED: &str = concat!("fred ", env!("FRED_VERSION"));

pub fn describe(stage: &Stage, rounds: usize) -> Environment {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    Environment {
        measured_at: format!("{:.0}", jiff::Timestamp::now()),
        commit: commit(),
        rounds,
        cpu: cpu_model().unwrap_or_else(|| "unknown".to_owned()),
        cores,
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
        postgres: stage.server.version().to_owned(),
        settings: stage.settings(),
        tokio_postgres: TOKIO_POSTGRES,
        libpq: libpq::version(),
        redis: redis(),
        redis_rs: REDIS_RS,
        fred: FRED,
        onetrip: env!("ONETRIP_VERSION"),
        profile: if cfg!(debug_assertions) { "debug: figures mean nothing" } else { "release" },
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {} cores, Linux {}", self.cpu, self.cores, self.kernel)?;
        writeln!(f, "PostgreSQL {} on 127.0.0.1 ({})", self.postgres, self.settings)?;
        let libpq = self.libpq.as_deref().unwrap_or("libpq missing");
        let redis = self.redis.as_deref().unwrap_or("Redis missing");
        writeln!(
            f,
            "{redis} on 127.0.0.1 (nothing kept on disk), {}, {}",
            self.redis_rs, self.fred
        )?;
        write!(f, "onetrip {}, {}, {libpq}, {}", self.onetrip, self.tokio_postgres, self.profile)
    }
}

fn commit() -> Option<String> {
    let git = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()
        .filter(|it| it.status.success())?;
    Some(String::from_utf8(git.stdout).ok()?.trim().to_owned())
}

fn redis() -> Option<String> {
    let found = Installation::look().ok()??;
    Some(format!("{} {}", found.product(), found.version()))
}

fn cpu_model() -> Option<String> {
    let text = read("/proc/cpuinfo")?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}
