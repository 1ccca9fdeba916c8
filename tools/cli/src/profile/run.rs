//! `onetrip profile --run`: a program whose servers are replaced by splices, until it ends.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::analysis::Analysis;
use super::environment::{Target, Variables, replaced};
use super::splice::{Front, Splice, Splicer};
use super::tls::{Relays, Way};
use super::{ProfileArgs, Where, write};
use crate::output::{End, tell};
use crate::runtime::runtime;
use crate::stop::is_ignored;

/// Runs the program, and ends with its exit status.
///
/// # Errors
/// No server is named, or the program can't be run. The program's status, if it isn't 0.
pub(super) fn run(args: &ProfileArgs) -> Result<(), End> {
    let analysis = Analysis::start(args.settings())?;
    let relays = Relays::start("onetrip profile", say)?;
    let splicer = Splicer { analysis: &analysis, relays: &relays, tls: &args.tls };
    let variables: Variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let mut splices = Splices { splicer, variables: &variables, open: BTreeMap::new() };
    let replaced = replaced(&variables, args.tls.is_clear(), |target| splices.front(target))?;
    let open = splices.open;
    replaced.notes.iter().for_each(|note| say(note));
    for (target, splice) in &open {
        say(&format!("{} -> {target}", splice.addr));
    }
    let names: Vec<&str> = replaced.set.keys().map(String::as_str).collect();
    say(&format!("replaced {}", names.join(", ")));
    let status = runtime(1)?.block_on(child(&args.command, &replaced.set))?;
    drop(open);
    let profile = analysis.finish()?;
    let reported = write(&profile, args, Where::Stderr);
    let code = code(status);
    if code == 0 {
        return reported;
    }
    // The program's own failure comes first.
    if let Err(End::Failed(message)) = reported {
        say(&message);
    }
    Err(End::Status(code))
}

fn say(text: &str) {
    tell(&format!("onetrip: profile: {text}"));
}

/// One splice for each server.
struct Splices<'a> {
    splicer: Splicer<'a>,
    variables: &'a Variables,
    open: BTreeMap<Target, Splice>,
}

impl Splices<'_> {
    fn front(&mut self, target: &Target) -> Result<std::net::SocketAddr, String> {
        if let Some(splice) = self.open.get(target) {
            return Ok(splice.addr);
        }
        let number = u8::try_from(self.open.len())
            .map_err(|_| "the environment names more than 256 servers: unset some".to_owned())?;
        let variable = |name: &str| self.variables.get(name).cloned();
        let way = Way::to(&target.url(), self.splicer.tls, variable)?;
        let splice = self.splicer.splice(Front::free(), way, number)?;
        let addr = splice.addr;
        self.open.insert(target.clone(), splice);
        Ok(addr)
    }
}

/// Runs the program to its end, and passes signals on to it.
pub(crate) async fn child(command: &[OsString], set: &Variables) -> Result<ExitStatus, String> {
    let [program, arguments @ ..] = command else {
        return Err("--run needs a program: --run -- PROGRAM".to_owned());
    };
    // Caught before the program runs: none is lost.
    let mut signals = caught()?;
    let mut child = Command::new(program)
        .args(arguments)
        .envs(set)
        .spawn()
        .map_err(|error| format!("can't run {} ({error})", program.display()))?;
    loop {
        tokio::select! {
            status = child.wait() => {
                return status.map_err(|error| format!("can't wait for the program: {error}"));
            }
            Some(kind) = signals.recv() => pass_on(kind, &child),
        }
    }
}

/// Signals that are passed on. SIGINT and SIGQUIT of a terminal reach all of its foreground group,
/// so the program has those already.
const PASSED_ON: [SignalKind; 6] = [
    SignalKind::terminate(),
    SignalKind::interrupt(),
    SignalKind::quit(),
    SignalKind::hangup(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
];

/// Catches all that are passed on. One that the caller made this command ignore, as nohup does, the
/// program ignores too.
fn caught() -> Result<mpsc::Receiver<SignalKind>, String> {
    let (sender, receiver) = mpsc::channel(PASSED_ON.len());
    for kind in PASSED_ON.into_iter().filter(|it| !is_ignored(*it)) {
        let mut signal =
            signal(kind).map_err(|error| format!("can't wait for signals ({error}): try again"))?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while signal.recv().await.is_some() && sender.send(kind).await.is_ok() {}
        });
    }
    Ok(receiver)
}

fn pass_on(kind: SignalKind, child: &Child) {
    let is_of_terminal = [SignalKind::interrupt(), SignalKind::quit()].contains(&kind);
    if is_of_terminal && is_foreground() {
        return;
    }
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(kind.as_raw_value())) {
        // It may have ended by now.
        let _ = kill_process(pid, signal);
    }
}

/// Whether this command is in the foreground of its terminal, if it has one.
fn is_foreground() -> bool {
    std::fs::File::open("/dev/tty")
        .is_ok_and(|terminal| tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()))
}

/// As shells say it: the number of a signal above 128.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|it| 128 + it)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
