//! Threads of this program whose CPU is not part of the measurement: they make the load, or
//! simulate the network.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

use super::proc::{cpu_in, is_cpu_kept};

/// Excludes the calling thread's CPU, past and future, from every [`ClientCpu`](super::ClientCpu).
/// Calling it again changes nothing.
pub fn set_aside() {
    HERE.with(|here| {
        here.get_or_init(Aside::new);
    });
}

thread_local! {
    /// Dropped when the thread ends.
    static HERE: OnceCell<Aside> = const { OnceCell::new() };
}

/// Threads that were set aside, of the whole process.
static THREADS: Mutex<Threads> = Mutex::new(Threads { running: BTreeSet::new(), ended_ns: 0 });

struct Threads {
    running: BTreeSet<i32>,
    /// CPU of those that ended.
    ended_ns: u64,
}

struct Aside(i32);

impl Aside {
    fn new() -> Aside {
        let number = gettid().as_raw_nonzero().get();
        with_threads(|threads| threads.running.insert(number));
        Aside(number)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        with_threads(|threads| {
            threads.running.remove(&self.0);
            threads.ended_ns += clock(ClockId::ThreadCPUTime).as_nanos() as u64;
        });
    }
}

/// CPU of all threads that were set aside; `None` if one of them can't be read. It never decreases.
pub(super) fn cpu_of_those_aside() -> Option<Duration> {
    with_threads(|threads| {
        // If the kernel keeps no CPU times, the zeros of running threads would be wrong.
        if !threads.running.is_empty() && !is_cpu_kept() {
            return None;
        }
        let ended = Duration::from_nanos(threads.ended_ns);
        let running = threads.running.iter().map(|number| cpu_in(&directory(*number)));
        running.sum::<Option<Duration>>().map(|running| ended + running)
    })
}

/// The directory in /proc of a thread of this process.
fn directory(number: i32) -> PathBuf {
    PathBuf::from(format!("/proc/self/task/{number}"))
}

/// Runs `f` while no thread is added or removed.
fn with_threads<R>(f: impl FnOnce(&mut Threads) -> R) -> R {
    f(&mut THREADS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A clock that began at zero.
pub(super) fn clock(id: ClockId) -> Duration {
    // None of the two clocks of CPU time is ever negative.
    clock_gettime(id).try_into().unwrap_or_default()
}
