//! Many seeds, on several threads.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Report, Run, Side, run};

/// A seed that found something, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedSeed {
    /// The seed.
    pub seed: u64,
    /// What was wrong.
    pub findings: Vec<String>,
    /// What goes to `make sim` to watch it.
    pub option: &'static str,
}

impl fmt::Display for FailedSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} failed:", self.seed)?;
        for finding in &self.findings {
            writeln!(f, "  {finding}")?;
        }
        write!(f, "to watch it: make sim{} SEED={}", self.option, self.seed)
    }
}

impl std::error::Error for FailedSeed {}

/// Runs `count` seeds from `from` on, on as many threads as there are cores. `progress` hears, now
/// and then and from any thread, how many are done.
///
/// # Errors
/// The smallest of the seeds that failed before the others stopped.
pub fn sweep<S: Side>(
    from: u64,
    count: u64,
    progress: impl Fn(u64) + Sync,
) -> Result<Report, FailedSeed> {
    sweep_of(from, count, S::OPTION, |seed| run::<S>(seed, None, None), progress)
}

/// The same for any simulation. `option` is what goes to `make sim` to watch a seed.
pub(super) fn sweep_of(
    from: u64,
    count: u64,
    option: &'static str,
    one: impl Fn(u64) -> Run + Sync,
    progress: impl Fn(u64) + Sync,
) -> Result<Report, FailedSeed> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let total = Mutex::new(Report::default());
    let failed: Mutex<Option<FailedSeed>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut report = Report::default();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        break;
                    }
                    match guarded(|| one(from + at)) {
                        Ok(of_run) => report.merge(&of_run),
                        Err(findings) => {
                            let found = FailedSeed { seed: from + at, findings, option };
                            next.store(count, Ordering::Relaxed);
                            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                            if failed.as_ref().is_none_or(|other| found.seed < other.seed) {
                                *failed = Some(found);
                            }
                        }
                    }
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1);
                }
                total.lock().unwrap_or_else(PoisonError::into_inner).merge(&report);
            });
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failed) => Err(failed),
        None => Ok(total.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// Runs a seed; a panic within it is a finding.
fn guarded(one: impl FnOnce() -> Run) -> Result<Report, Vec<String>> {
    match catch_unwind(AssertUnwindSafe(one)) {
        Ok(run) if run.findings.is_empty() => Ok(run.report),
        Ok(run) => Err(run.findings),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(vec![format!("a panic: {}", text.unwrap_or("without a message"))])
        }
    }
}
