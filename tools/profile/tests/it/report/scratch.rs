//! A directory that goes with its owner.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) struct Scratch(PathBuf);

static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Scratch {
    pub(super) fn new() -> Scratch {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("report-{}-{number}", std::process::id());
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
