//! The one error of the lab's servers, made to be printed as it is.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::Output;

/// Why a server could not be provided. Displays as one line: what failed, where, and what to do.
pub struct LabError {
    message: String,
    source: Option<io::Error>,
}

impl LabError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: with_advice(message.into()), source: None }
    }

    /// `what` reads like "cannot create"; the path follows it.
    pub(crate) fn io(what: &str, path: &Path, source: io::Error) -> Self {
        let message = with_advice(format!("{what} {}: {source}", path.display()));
        Self { message, source: Some(source) }
    }

    /// A program ran and failed; the error includes its output.
    pub(crate) fn program(what: &str, output: &Output) -> Self {
        let said = String::from_utf8_lossy(&output.stderr);
        Self::new(format!("{what}: {} ({})", essence(&said), output.status))
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for LabError {
    /// The same as Display, so that a test that unwraps shows the readable line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Lines of a log that an error repeats: enough for PostgreSQL's message, its detail and its hint.
const LOG_LINES: usize = 4;

/// The essential part of a log or of stderr, as one line: the first known problem, otherwise the
/// end.
pub(crate) fn essence(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let Some(known) = lines.iter().find(|line| advice_on(line).is_some()) {
        return (*known).to_owned();
    }
    match lines.is_empty() {
        true => "it said nothing".into(),
        false => lines[lines.len().saturating_sub(LOG_LINES)..].join(" | "),
    }
}

fn with_advice(message: String) -> String {
    match advice_on(&message) {
        Some(advice) => format!("{message}; {advice}"),
        None => message,
    }
}

/// Matches on text because half of these errors come from programs, not from system calls.
fn advice_on(message: &str) -> Option<&'static str> {
    const SPACE: &str = "free space there, or set TMPDIR to a directory with 200 MB free";
    const OWNER: &str = "check its owner and mode (TMPDIR names another temporary directory)";
    let known = [
        ("No space left on device", SPACE),
        ("Disk quota exceeded", SPACE),
        // PostgreSQL's message when only a part of a page fitted on the disk.
        ("wrote only", SPACE),
        ("Read-only file system", "set TMPDIR to a directory that can be written"),
        ("Permission denied", OWNER),
        ("Cannot allocate memory", "free memory, or ask for fewer connections or buffers"),
    ];
    known.iter().find(|(sign, _)| message.contains(sign)).map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_with_advice() {
        let full = io::Error::from_raw_os_error(28);
        let text = LabError::io("cannot write", Path::new("/tmp/x"), full).to_string();
        assert!(text.starts_with("cannot write /tmp/x: No space left on device"), "{text}");
        assert!(text.contains("TMPDIR") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn the_essence_of_a_log_is_its_last_lines_joined() {
        assert_eq!(essence("a\nb\n\nc\nd\ne\n"), "b | c | d | e");
        assert_eq!(essence(" \n"), "it said nothing");
    }

    #[test]
    fn a_known_trouble_is_found_among_its_consequences() {
        let log = "LOG: hello\nFATAL: x: No space left on device\na\nb\nc\nd\n";
        assert_eq!(essence(log), "FATAL: x: No space left on device");
    }
}
