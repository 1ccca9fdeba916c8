//! What the command prints, and how it ends where nobody can read that.

use std::io::{self, Write};

/// Why the command ends before it has done all it was asked for.
#[derive(Debug)]
pub(crate) enum End {
    /// One line: what failed, where, and what to do.
    Failed(String),
    /// It did all of it, and what it found is bad and has been printed.
    Found,
    /// Whoever reads standard output has closed it, and so wants no more. Not a failure.
    Unread,
}

impl End {
    /// A failure says which command it is of.
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

/// Prints a text and a line's end to standard output, at once.
///
/// # Errors
/// It is closed, or what it leads to can't take more: a full disk.
pub(crate) fn print(text: &str) -> Result<(), End> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => End::Unread,
        _ => End::Failed(format!("can't write to standard output: {error}")),
    })
}

/// Prints a line to standard error; where that can't be written there is nowhere left to say so.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A number without a fraction, with commas between its thousands.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
