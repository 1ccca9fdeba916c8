//! Lines about what is going on, for commands that serve until they are stopped.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{End, print};

/// Where they are shown: in a line of the terminal, or line by line on standard output.
#[derive(Clone)]
pub(crate) struct Shown(Option<ProgressBar>);

impl Shown {
    pub(crate) fn new() -> Shown {
        let bar = || {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{wide_msg}");
            if let Ok(style) = style { bar.with_style(style) } else { bar }
        };
        Shown(std::io::stderr().is_terminal().then(bar))
    }

    pub(crate) fn interval(&self, line: String, happened: bool) -> Result<(), End> {
        match &self.0 {
            Some(bar) => {
                bar.set_message(line);
                bar.tick();
                Ok(())
            }
            None if happened => print(&line),
            None => Ok(()),
        }
    }

    /// Prints a line that stays on the screen.
    pub(crate) fn print(&self, line: &str) -> Result<(), End> {
        match &self.0 {
            Some(bar) => {
                bar.set_message("");
                bar.suspend(|| print(line))
            }
            None => print(line),
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
