//! The shell that removes a working directory when the process that made it can't.
//!
//! A process that gets SIGKILL removes nothing, so another process has to know its directory before
//! that exists. The guard knows it until a [supervisor](super::supervisor) has taken over. It is a
//! shell for the reasons given there, and in a process group of its own, which Ctrl-C at the
//! terminal does not reach.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = include_str!("guard.sh");

/// A handle on the shell. Dropping it makes the shell remove the directory.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
}

impl Guard {
    /// `shell` is a `/bin/sh` that already has its user and environment. `directory` need not exist
    /// yet.
    pub(crate) fn start(mut shell: Command, directory: &Path) -> io::Result<Self> {
        shell.args(["-c", SCRIPT, "onetrip-guard"]).arg(directory).process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { shell: shell.spawn()? })
    }

    /// Puts a command under the guard, which ends it when the owner has died.
    pub(crate) fn watch(&self, command: &mut Command) {
        // A process id is positive and fits.
        command.process_group(self.shell.id().cast_signed());
    }

    /// Ends the guard and keeps the directory: another process is responsible for it now.
    pub(crate) fn leave(mut self) {
        self.finish(b"leave\n");
    }

    /// Gives the order and waits for the shell to end. A second order has no effect.
    fn finish(&mut self, order: &[u8]) {
        if let Some(mut orders) = self.shell.stdin.take() {
            let _ = orders.write_all(order);
        }
        let _ = self.shell.wait();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.finish(b"remove\n");
    }
}
