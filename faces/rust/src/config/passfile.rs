//! The password file. Each line has `host:port:database:user:password`, where `*` matches anything,
//! and a backslash stands before a colon or backslash within a field (libpq: `passwordFromFile` in
//! fe-connect.c).

use std::fs;
use std::path::Path;

/// Reads the file. `Ok(None)` if there is none; `Err` has the note why it isn't used.
pub(super) fn read(path: &Path) -> Result<Option<String>, String> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(None) };
    let shown = path.display();
    if !metadata.is_file() {
        return Err(format!("the password file {shown} is not a plain file and was not used"));
    }
    if readable_by_others(&metadata) {
        return Err(format!(
            "the password file {shown} can be read by its group or by all and was not used: \
             chmod 600 it"
        ));
    }
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(_) => Err(format!("the password file {shown} can't be read and was not used")),
    }
}

#[cfg(unix)]
fn readable_by_others(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn readable_by_others(_: &fs::Metadata) -> bool {
    false
}

/// The password of the first line that matches host, port, database and user.
pub(super) fn password(file: &str, wanted: [&str; 4]) -> Option<String> {
    let lines = file.split('\n').map(|line| line.trim_end_matches('\r'));
    lines.filter(|line| !line.starts_with('#')).find_map(|line| {
        let rest = wanted.iter().try_fold(line, |rest, field| behind_field(rest, field))?;
        Some(field(rest))
    })
}

/// The text behind the first field and its colon, if the field is `wanted` or `*`.
fn behind_field<'a>(line: &'a str, wanted: &str) -> Option<&'a str> {
    if let Some(rest) = line.strip_prefix("*:") {
        return Some(rest);
    }
    let mut wanted = wanted.chars();
    let mut chars = line.chars();
    loop {
        let literal = match chars.next()? {
            ':' => return wanted.next().is_none().then_some(chars.as_str()),
            '\\' => chars.next()?,
            other => other,
        };
        if wanted.next() != Some(literal) {
            return None;
        }
    }
}

/// The text up to the next colon, without its backslashes.
fn field(text: &str) -> String {
    let mut chars = text.chars();
    let mut field = String::new();
    while let Some(char) = chars.next() {
        match char {
            ':' => break,
            '\\' => field.push(chars.next().unwrap_or('\\')),
            other => field.push(other),
        }
    }
    field
}
