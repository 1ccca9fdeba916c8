//! Keys at the terminal: `r` and Enter.

use std::io::{IsTerminal, stdin};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use tokio::sync::Notify;

/// Notifies whenever `r` and Enter are typed; never without a terminal.
pub(super) fn resets() -> Arc<Notify> {
    let typed = Arc::new(Notify::new());
    let told = typed.clone();
    if stdin().is_terminal() {
        let thread = std::thread::Builder::new().name("onetrip-keys".into());
        // If the thread can't be started, SIGUSR1 still works.
        thread.spawn(move || read(&told)).ok();
    }
    typed
}

/// Reads lines until the end of input. The system stops a background program that reads from its
/// terminal, so this reads only in the foreground.
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

/// How often it checks whether the program is in the foreground again.
const BACKGROUND: Duration = Duration::from_millis(500);
