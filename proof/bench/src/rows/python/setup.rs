//! What the rows for Python need before they run: Python itself, the wheel, and the peers from PyPI
//! in a virtual environment with it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};

use super::super::node::setup::said;

/// Builds the wheel, and installs it beside the peers, which are got where the requirements have
/// changed. Once per process.
pub fn prepare() -> Result<()> {
    static PREPARED: OnceLock<Result<(), String>> = OnceLock::new();
    let prepared = PREPARED.get_or_init(|| all().map_err(|error| format!("{error:#}")));
    prepared.clone().map_err(|error| anyhow!(error))
}

fn all() -> Result<()> {
    ensure!(root().join("scripts/python-wheel").exists(), "nothing builds a wheel of it yet");
    script("python-wheel", &[]).context("cannot build the wheel")?;
    let requirements = directory().join("requirements.txt");
    let environment = script("python-venv", &["bench".as_ref(), requirements.as_os_str()])
        .context("cannot make a virtual environment with the peers")?;
    let _ = ENVIRONMENT.set(PathBuf::from(environment));
    Ok(())
}

fn script(name: &str, arguments: &[&OsStr]) -> Result<String> {
    said(Command::new(root().join("scripts").join(name)).args(arguments))
}

/// A client's process, but for its task.
pub fn child() -> Command {
    let mut command = python();
    command.arg(directory().join("child.py"));
    command
}

/// The interpreter that has all of them.
pub fn python() -> Command {
    let environment = ENVIRONMENT.get().cloned().unwrap_or_default();
    Command::new(environment.join("bin/python"))
}

/// Whether the drop-in for asyncpg has COPY.
pub fn drop_in_copies() -> bool {
    const ASKED: &str = "import onetrip.asyncpg; onetrip.asyncpg.Connection.copy_records_to_table";
    said(python().args(["-c", ASKED])).is_ok()
}

/// Which Python it is, for notes.
pub fn note() -> String {
    static VERSION: OnceLock<String> = OnceLock::new();
    let version = || said(python().arg("--version")).unwrap_or("Python".to_owned());
    format!("{}, uvloop", VERSION.get_or_init(version))
}

/// What was built.
pub fn wheel() -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root().join("target"));
    let wheels = std::fs::read_dir(target.join("python/wheels")).context("there is no wheel")?;
    let mut wheels = wheels.filter_map(|it| Some(it.ok()?.path()));
    wheels.find(|it| it.extension().is_some_and(|it| it == "whl")).context("there is no wheel")
}

/// Where the clients for Python are.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The virtual environment, once it is there.
static ENVIRONMENT: OnceLock<PathBuf> = OnceLock::new();
