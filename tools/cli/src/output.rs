//! Output of the command, and how it ends if standard output is closed.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Why the command ends with another status than success.
#[derive(Debug)]
pub(crate) enum End {
    /// One line: what failed, where, and what to do.
    Failed(String),
    /// It finished, and it printed a problem that it found.
    Found,
    /// It finished, with a status that is explained where it is given.
    Status(u8),
    /// The reader of standard output has closed it. That is no failure.
    Unread,
}

impl End {
    /// Adds the name of the command to a failure.
    pub(crate) fn within(self, command: &str) -> End {
        match self {
            End::Failed(message) => End::Failed(format!("{command}: {message}")),
            other => other,
        }
    }
}

impl From<String> for End {
    fn from(message: String) -> End {
        End::Failed(message)
    }
}

/// Whether each line is a JSON object, for a collector of logs.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// From now on each line that the command says is a JSON object, or is none any more.
pub(crate) fn set_json(is_json: bool) {
    IS_JSON.store(is_json, Ordering::Relaxed);
}

/// A line in the form that is wanted.
fn shaped(text: &str) -> String {
    if !IS_JSON.load(Ordering::Relaxed) {
        return text.to_owned();
    }
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    serde_json::json!({ "time": since.as_secs_f64(), "message": text }).to_string()
}

/// Prints a text and a line end to standard output, and flushes it.
///
/// # Errors
/// It is closed, or can't be written, for example because the disk is full.
pub(crate) fn print(text: &str) -> Result<(), End> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", shaped(text)).and_then(|()| out.flush()).map_err(|error| {
        match error.kind() {
            io::ErrorKind::BrokenPipe => End::Unread,
            _ => End::Failed(format!("can't write to standard output: {error}")),
        }
    })
}

/// Prints a line to standard error. Errors are ignored, because they could be reported nowhere.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{}", shaped(text));
}

/// A number without a fraction, with commas between groups of three digits.
pub(crate) fn thousands(value: f64) -> String {
    // Nothing is added to any number but -0, the sum of none.
    let digits = format!("{:.0}", value + 0.0);
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
