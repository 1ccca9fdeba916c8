//! What is going on: a bar on a terminal, plain lines elsewhere. On standard error, so that the
//! table can be kept.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::turns;

pub struct Progress {
    /// `None` if standard error is no terminal.
    bar: Option<ProgressBar>,
    /// Whether it is another process that asks for the rounds.
    is_asked: bool,
}

impl Progress {
    pub fn start() -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg:50} {bar:30} {pos}/{len}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            // It is drawn between rounds: a thread of its own would cost CPU time in them.
            ProgressBar::new(0).with_style(style)
        });
        Progress { bar, is_asked: false }
    }

    /// For a process that does a round when it is its turn, and shows nothing.
    pub fn in_turns() -> Progress {
        Progress { bar: None, is_asked: true }
    }

    /// Tells of something that is not a row.
    pub fn say(&self, message: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(message.to_owned()),
            None if self.is_asked => {}
            None => eprintln!("{message}"),
        }
    }

    /// Prints text for the reader of the figures, on standard output.
    pub fn print(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| println!("{text}")),
            None if self.is_asked => {}
            None => println!("{text}"),
        }
    }

    /// Begins with a group of rows.
    pub fn begin(&self, names: String) {
        self.say(&names);
        if let Some(bar) = &self.bar {
            bar.reset();
        }
    }

    /// A round is done. Where another process asks for them, this waits for the next turn.
    pub fn tick(&self, done: usize, all: usize) {
        if self.is_asked {
            turns::wait(done, all);
        }
        if let Some(bar) = &self.bar {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        }
    }

    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How long a figure took, for messages.
pub fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}
