//! The service file, as text: sections with settings, one per line (libpq: `parseServiceFile` in
//! fe-connect.c). The face finds the file and reads it.

use std::fmt;

/// A line of the section: its number from 1, a keyword and its value.
pub type Line<'a> = (usize, &'a str, &'a str);

/// A line that can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it, and what to do.
    pub what: &'static str,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// The settings of the first section with this name; `None` if there is no such section. A line that
/// stands in another section is not read.
///
/// # Errors
/// A line of the section is no setting, names a service itself or asks a directory service; or a
/// line up to the end of the section is longer than libpq's limit.
pub fn settings<'a>(file: &'a str, service: &str) -> Result<Option<Vec<Line<'a>>>, Wrong> {
    let mut found: Option<Vec<Line<'a>>> = None;
    for (line, text) in (1..).zip(file.split_inclusive('\n')) {
        if text.len() > LINE_MAX {
            return Err(Wrong { line, what: says::TOO_LONG });
        }
        let text = text.trim_matches(is_space);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some(inside) = text.strip_prefix('[') {
            if found.is_some() {
                break;
            }
            // As in libpq, what stands behind the bracket is not looked at.
            let is_it = inside.strip_prefix(service).is_some_and(|rest| rest.starts_with(']'));
            found = is_it.then(Vec::new);
        } else if let Some(settings) = &mut found {
            settings.push(setting(line, text).map_err(|what| Wrong { line, what })?);
        }
    }
    Ok(found)
}

fn setting(line: usize, text: &str) -> Result<Line<'_>, &'static str> {
    if text.starts_with("ldap") {
        return Err(says::LDAP);
    }
    match text.split_once('=') {
        None => Err(says::NO_SETTING),
        Some(("service" | "servicefile", _)) => Err(says::NESTED),
        Some((keyword, value)) => Ok((line, keyword, value)),
    }
}

/// As C's `isspace`.
fn is_space(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Bytes of a line with its end: libpq's buffer.
pub const LINE_MAX: usize = 1022;

/// Parts of the messages about a service.
pub mod says {
    /// The line is longer than libpq reads.
    pub const TOO_LONG: &str = "the line is too long: libpq reads 1,022 bytes of one";
    /// The line lacks an equals sign.
    pub const NO_SETTING: &str = "the line is no keyword=value";
    /// A section names a section.
    pub const NESTED: &str = "a service can't name another service: write its settings here";
    /// The settings are in a directory.
    pub const LDAP: &str =
        "the line asks an LDAP directory, which isn't in this version: write the settings here";
    /// The files follow in which the section was looked for.
    pub const NOT_FOUND: &str = "the service has no section in ";
    /// The path of a file that was named follows.
    pub const NO_FILE: &str = "this service file can't be read: ";
}
