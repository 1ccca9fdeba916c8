//! SIGINT (Ctrl-C), SIGTERM and SIGHUP: the first asks for an orderly end, the second ends at once.
//!
//! A thread of its own waits for the signals, so that neither the command's work nor a server that
//! hangs can keep the command from stopping.

use std::io;
use std::process::exit;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::output::tell;

/// The exit status of a command that failed.
pub(crate) const STATUS_FAILED: u8 = 2;

/// A command stopped by a signal exits with this plus the signal's number, as POSIX shells report a
/// command ended by a signal. So a loop in a script sees that it was Ctrl-C.
const STATUS_STOPPED: u8 = 128;

/// The exit status of a command that did not finish: that of a failure, until a signal comes.
static STATUS: AtomicU8 = AtomicU8::new(STATUS_FAILED);

/// The exit status of a command that did not finish.
pub(crate) fn status() -> u8 {
    STATUS.load(Ordering::Relaxed)
}

/// The signals, caught from [`catch`](Self::catch) on.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    signal: watch::Receiver<Option<&'static str>>,
    left: Left,
}

/// A text about what an immediate exit leaves behind; `None` while an immediate exit leaves
/// nothing.
type Left = Arc<Mutex<Option<String>>>;

impl Stop {
    /// Begins to catch the signals. `before_exit` runs on another thread before an immediate exit:
    /// it clears the progress display.
    ///
    /// # Errors
    /// The system allows no thread or no handler, in one line.
    pub(crate) fn catch(before_exit: impl Fn() + Send + 'static) -> Result<Stop, String> {
        Stop::catch_with(false, before_exit)
    }

    /// The same; if SIGHUP means something else to the command, it is left to that.
    ///
    /// # Errors
    /// As of [`catch`](Self::catch).
    pub(crate) fn catch_with(
        leaves_hang_up: bool,
        before_exit: impl Fn() + Send + 'static,
    ) -> Result<Stop, String> {
        let failed = |error| format!("can't wait for signals ({error}): try again");
        let runtime = Builder::new_current_thread().enable_io().build().map_err(failed)?;
        // The handlers are installed before this returns.
        let signals = runtime.block_on(async { Signals::catch(leaves_hang_up) }).map_err(failed)?;
        let (sender, receiver) = watch::channel(None);
        let left = Left::default();
        let stop = Stop { signal: receiver, left: left.clone() };
        let watcher = Watcher { signals, sender, left, before_exit };
        std::thread::Builder::new()
            .name("onetrip-signals".into())
            .spawn(move || watcher.run(&runtime))
            .map_err(failed)?;
        Ok(stop)
    }

    /// From now on the first signal only completes [`requested`](Self::requested). If a second one
    /// ends the command at once, it prints what that leaves behind: `left`, which may be empty.
    pub(crate) fn tidy_first(&self, left: &str) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(left.to_owned());
    }

    /// Nothing is left to tidy: from now on the first signal ends the command at once again.
    pub(crate) fn tidied(&self) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the first signal has come.
    pub(crate) fn is_requested(&self) -> bool {
        self.signal.borrow().is_some()
    }

    /// Waits for the first signal and returns its name.
    pub(crate) async fn requested(&self) -> &'static str {
        let mut signal = self.signal.clone();
        match signal.wait_for(Option::is_some).await.map(|name| *name) {
            Ok(Some(name)) => name,
            // Not reached: the thread never ends before the process.
            _ => std::future::pending().await,
        }
    }
}

struct Watcher<F> {
    signals: Signals,
    sender: watch::Sender<Option<&'static str>>,
    left: Left,
    before_exit: F,
}

impl<F: Fn()> Watcher<F> {
    fn run(mut self, runtime: &Runtime) {
        let first = runtime.block_on(self.signals.next());
        // The lock is held until the exit, so that nothing new is created in between.
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.is_none() {
            self.end(first, "");
        }
        drop(left);
        self.sender.send_replace(Some(first));
        let second = runtime.block_on(self.signals.next());
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        self.end(second, left.as_deref().unwrap_or_default());
    }

    fn end(&self, signal: &str, left: &str) -> ! {
        (self.before_exit)();
        let left = if left.is_empty() { String::new() } else { format!("; {left}") };
        tell(&format!("onetrip: stopped by {signal}{left}"));
        exit(status().into())
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` if it is left to others, or the caller made the program ignore SIGHUP, as nohup does.
    hang_up: Option<Signal>,
}

impl Signals {
    fn catch(leaves_hang_up: bool) -> io::Result<Signals> {
        let hang_up = match leaves_hang_up || is_ignored(SignalKind::hangup()) {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Signals { interrupt, terminate: signal(SignalKind::terminate())?, hang_up })
    }

    async fn next(&mut self) -> &'static str {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        let (kind, name) = tokio::select! {
            _ = self.interrupt.recv() => (SignalKind::interrupt(), "SIGINT"),
            _ = self.terminate.recv() => (SignalKind::terminate(), "SIGTERM"),
            _ = hang_up => (SignalKind::hangup(), "SIGHUP"),
        };
        // Each of the three has a number below 16.
        STATUS.store(STATUS_STOPPED + kind.as_raw_value() as u8, Ordering::Relaxed);
        name
    }
}

/// Linux shows the ignored signals as a mask in `/proc/self/status` (proc(5), `SigIgn`).
pub(crate) fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (kind.as_raw_value() - 1)) != 0
}
