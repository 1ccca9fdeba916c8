//! The command as a process: starts it, reads its output, sends it signals, and waits for its end.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) struct Onetrip {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Onetrip {
    pub(crate) fn start(arguments: &[&str], stdout: impl Into<Stdio>) -> Onetrip {
        Onetrip::start_with(arguments, stdout, &[])
    }

    /// The same with variables in its environment.
    pub(crate) fn start_with(
        arguments: &[&str],
        stdout: impl Into<Stdio>,
        set: &[(&str, &str)],
    ) -> Onetrip {
        Onetrip::spawn(command(&[]).args(arguments).envs(set.iter().copied()).stdout(stdout))
    }

    /// The same with a socket as systemd passes it, with this count of them; its output is a pipe.
    pub(crate) fn activate(arguments: &[&str], socket: OwnedFd, count: &str) -> Onetrip {
        let shell = ["sh", "-c", "export LISTEN_PID=$$; exec \"$@\" 3<&0 </dev/null", "sh"];
        let mut command = command(&shell);
        command.args(arguments).env("LISTEN_FDS", count).stdout(Stdio::piped()).stdin(socket);
        Onetrip::spawn(&mut command)
    }

    fn spawn(command: &mut Command) -> Onetrip {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Onetrip { child, stderr }
    }

    /// Reads its standard error until this text comes. Returns the line in which it did.
    pub(crate) fn wait_for(&mut self, said: &str) -> String {
        let mut heard = String::new();
        loop {
            let before = heard.len();
            let read = self.stderr.read_line(&mut heard).unwrap();
            assert!(read > 0, "{said:?} was not said: {heard}");
            if heard[before..].contains(said) {
                return heard.split_off(before);
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its first line on standard output, which must be a pipe.
    pub(crate) fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }

    /// The lines of its standard output, which must be a pipe of which nothing was read yet.
    pub(crate) fn lines(&mut self) -> Lines<BufReader<ChildStdout>> {
        BufReader::new(self.child.stdout.take().unwrap()).lines()
    }

    /// Waits for its end. Returns its status, and the output since the last read.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap(), said)
    }
}

impl Drop for Onetrip {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command, behind another one.
fn command(behind: &[&str]) -> Command {
    // If the harness was started with nohup, its child processes would ignore SIGHUP.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,TERM").args(behind).arg(env!("CARGO_BIN_EXE_onetrip"));
    command.stdin(Stdio::null());
    command
}

/// A file to which every write fails, as on a full disk.
pub(crate) fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// A pipe whose reading end is closed.
pub(crate) fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}
