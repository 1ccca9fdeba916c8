//! Keys at the terminal: `r` and Enter.

use std::io::{IsTerminal, stdin};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use tokio::sync::Notify;

/// Told whenever somebody types `r` and Enter; never where nobody can.
pub(super) fn resets() -> Arc<Notify> {
    let typed = Arc::new(Notify::new());
    let told = typed.clone();
    if stdin().is_terminal() {
        let thread = std::thread::Builder::new().name("onetrip-keys".into());
        // Without it there is still the signal.
        thread.spawn(move || read(&told)).ok();
    }
    typed
}

/// Until there is no more to read. A program in the background that reads from its terminal is
/// stopped by the system, so what is typed then, which is for others, is left alone.
fn read(typed: &Notify) {
    let terminal = stdin();
    let mut line = String::new();
    loop {
        match poll(&mut [PollFd::new(&terminal, PollFlags::IN)], None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        match tcgetpgrp(&terminal) {
            Ok(group) if group == getpgrp() => {}
            Ok(_) => {
                std::thread::sleep(BACKGROUND);
                continue;
            }
            Err(_) => return,
        }
        line.clear();
        match terminal.read_line(&mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) if line.trim() == "r" => typed.notify_one(),
            Ok(_) => {}
        }
    }
}

/// How often it is looked whether this is the foreground again.
const BACKGROUND: Duration = Duration::from_millis(500);
