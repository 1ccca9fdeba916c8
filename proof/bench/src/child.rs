//! A process of its own for what is measured by its memory, so that this is only its own.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

/// This program with other arguments.
pub fn command() -> Result<Command> {
    let program = std::env::current_exe().context("cannot find this program")?;
    Ok(Command::new(program))
}

/// What it finds with these arguments, or why it finds nothing.
pub fn ask<T: DeserializeOwned>(arguments: &[&str]) -> Result<T> {
    let output = command()?
        .args(arguments)
        .output()
        .context("cannot start the process whose memory is measured")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}", said.trim().trim_start_matches("bench: "));
    }
    serde_json::from_slice(&output.stdout).context("cannot read what the process says")
}

/// Forgets the most memory that this process had so far (VmHWM).
pub fn reset_peak() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")
}

/// A figure of this process's memory.
pub fn memory_mib(name: &str) -> Result<f64> {
    let text = fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = text.lines().find(|line| line.starts_with(name));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    Ok(kib.with_context(|| format!("/proc/self/status has no {name}"))? / 1024.0)
}
