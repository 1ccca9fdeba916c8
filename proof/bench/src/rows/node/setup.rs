//! What the rows for Node need before they run: Node itself, the peers from npm, and the package built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail, ensure};

/// Node's, where that and npm are there.
pub fn node_version() -> Option<&'static str> {
    static VERSION: OnceLock<Option<String>> = OnceLock::new();
    let version = VERSION.get_or_init(|| {
        said(Command::new("npm").arg("--version")).ok()?;
        let said = said(Command::new("node").arg("--version")).ok()?;
        Some(said.trim().trim_start_matches('v').to_owned())
    });
    version.as_deref()
}

/// Which Node it is, for notes.
pub fn note() -> String {
    format!("Node.js {}", node_version().unwrap_or("unknown"))
}

/// Gets the peers where they are missing or other than the lock says, and builds faces/node/lib. Once per process.
pub fn prepare() -> Result<()> {
    static PREPARED: OnceLock<Result<(), String>> = OnceLock::new();
    let prepared = PREPARED.get_or_init(|| all().map_err(|error| format!("{error:#}")));
    prepared.clone().map_err(|error| anyhow!(error))
}

fn all() -> Result<()> {
    node_version().context("there is no node, or no npm")?;
    let package = package();
    install(&directory())?;
    install(&package)?;
    said(
        Command::new("npx")
            .args(["--no-install", "tsc", "-p", "tsconfig.json"])
            .current_dir(&package),
    )
    .context("cannot build the package for Node")?;
    Ok(())
}

/// A client's process, but for its task.
pub fn child() -> Command {
    let mut command = Command::new("node");
    command
        .args(std::env::var(NODE_ARGS).unwrap_or_default().split_whitespace())
        .arg(directory().join("child.js"));
    command
}

/// Where the clients for Node are.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("js")
}

/// The package that is measured.
pub fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../faces/node")
}

/// Whether the package has this face already.
pub fn has(face: &str) -> bool {
    package().join("lib").join(face).exists()
}

/// `npm ci`, unless it was done since the lock changed.
fn install(directory: &Path) -> Result<()> {
    let changed = |path: &str| std::fs::metadata(directory.join(path)).and_then(|it| it.modified());
    let done = changed("node_modules/.package-lock.json");
    if matches!((done, changed("package-lock.json")), (Ok(done), Ok(lock)) if done >= lock) {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(directory);
    said(&mut npm).with_context(|| format!("npm cannot install for {}", directory.display()))?;
    ensure!(directory.join("node_modules").exists(), "npm ci installed nothing");
    Ok(())
}

/// What a program prints that ends well.
pub fn said(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        bail!("{} {}", text(&output.stderr), text(&output.stdout));
    }
    Ok(text(&output.stdout))
}

/// Options for Node, such as those of its profiler.
const NODE_ARGS: &str = "ONETRIP_BENCH_NODE_ARGS";
