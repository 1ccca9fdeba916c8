//! A running server and the shell that watches over it.
//!
//! The server must end with its owner even if the owner gets SIGKILL, so another process has to
//! stop it. That is a POSIX shell with a script of twenty lines: `/bin/sh` is on every machine that
//! runs PostgreSQL, while a binary of our own would have to be found first (cargo builds it for
//! this crate's tests only), and running the current executable again would start a test harness.
//! Shell and server form a process group of their own, which Ctrl-C at the terminal does not reach.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

const SCRIPT: &str = include_str!("supervise.sh");

/// How long a fast shutdown may take before it becomes an immediate one.
const PATIENCE_SECONDS: u32 = 20;

/// How long a server may take until it answers. A start takes 0.1 s; recovery on a busy machine
/// with two cores can take many times as long.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(300);

/// How often a start looks whether the server is ready, in milliseconds.
pub(crate) const READY_POLL_MS: u32 = 5;

/// The signals that end a server, as `kill` names them: for an orderly end, and for an immediate
/// one, if the orderly one takes too long or is not wanted.
#[derive(Debug)]
pub(crate) struct Signals {
    pub(crate) orderly: &'static str,
    pub(crate) immediate: &'static str,
}

/// A handle on the shell.
#[derive(Debug)]
pub(crate) struct Supervisor {
    shell: Child,
    /// The pipe that the shell reads. Closing it is the order to stop and clean up.
    orders: Option<ChildStdin>,
    /// A pipe to which nothing is written. It reaches its end when the server and its children have
    /// ended.
    life: ChildStdout,
}

impl Supervisor {
    /// `shell` is a `/bin/sh` that already has its user, environment and stderr. It will run
    /// `server`, and remove `directory` in the end.
    pub(crate) fn start(
        mut shell: Command,
        directory: &Path,
        server: &Path,
        arguments: &[String],
        signals: &Signals,
    ) -> io::Result<Self> {
        shell.args(["-c", SCRIPT, "onetrip-supervise"]).arg(directory).arg(server).args(arguments);
        shell.env("ORDERLY", signals.orderly).env("IMMEDIATE", signals.immediate);
        shell.env("PATIENCE_SECONDS", PATIENCE_SECONDS.to_string()).process_group(0);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = shell.stdin.take();
        let life = shell.stdout.take().expect("stdout was asked to be a pipe");
        Ok(Self { shell, orders, life })
    }

    /// Waits up to this long for the server's end. Returns whether it has ended.
    pub(crate) fn has_ended_within(&self, milliseconds: u32) -> bool {
        let (seconds, rest) = (i64::from(milliseconds / 1000), i64::from(milliseconds % 1000));
        let timeout = Timespec { tv_sec: seconds, tv_nsec: rest * 1_000_000 };
        let mut watched = [PollFd::new(&self.life, PollFlags::IN)];
        matches!(poll(&mut watched, Some(&timeout)), Ok(1))
    }

    /// Stops the server in an orderly way, removes its directory, and waits for both.
    pub(crate) fn stop(mut self) -> io::Result<ExitStatus> {
        self.finish()
    }

    /// Stops the server by this signal and keeps its directory. Waits until the last of its
    /// processes has ended, for `milliseconds` at most.
    pub(crate) fn stop_by(mut self, signal: &str, milliseconds: u32) -> io::Result<()> {
        if let Some(orders) = &mut self.orders {
            writeln!(orders, "{signal}")?;
        }
        self.finish()?;
        match self.has_ended_within(milliseconds) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::TimedOut, "its processes did not end")),
        }
    }

    fn finish(&mut self) -> io::Result<ExitStatus> {
        drop(self.orders.take());
        self.shell.wait()
    }
}

impl Drop for Supervisor {
    /// If the owner did not call `stop`, dropping stops the server and waits, so that nothing
    /// outlives a test.
    fn drop(&mut self) {
        if self.orders.is_some() {
            let _ = self.finish();
        }
    }
}
