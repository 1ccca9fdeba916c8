//! Keeps the cores awake while something is timed that mostly waits.
//!
//! On a virtual machine a core that has nothing to do is taken off its processor, and waking it up
//! takes 20 to 40 µs: as much as a whole round trip over loopback, at random. A process of the lowest
//! priority on each core (SCHED_IDLE: it gives way to everybody at once) prevents that, so that what is
//! left is the software's own cost.

use std::process::{Child, Command, Stdio};

/// Spins until it is dropped.
pub struct Spinners(Vec<Child>);

impl Spinners {
    /// One for each core; none where `chrt` is missing, which [`note`](Self::note) then says.
    pub fn start() -> Spinners {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = || {
            Command::new("chrt")
                .args(["--idle", "0", "sh", "-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        };
        Spinners((0..cores).filter_map(|_| spin().ok()).collect())
    }

    /// How the row was measured.
    pub fn note(&self) -> &'static str {
        match self.0.is_empty() {
            true => "cores may fall asleep: chrt was not found",
            false => "with an idle-priority spinner on each core, so that none falls asleep",
        }
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
