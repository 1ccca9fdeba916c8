//! The password file, as text. Each line has `host:port:database:user:password`, where `*` stands
//! for anything, and a backslash for the character behind it (libpq: `passwordFromFile` in
//! fe-connect.c). The face finds the file, checks who can read it, and reads it.

/// The directories where servers create their sockets: Debian's, and PostgreSQL's own. The password
/// file has entries for `localhost` for the servers in them.
pub const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// The password of the first line that matches host, port, database and user. The host of a Unix
/// socket is its directory.
pub fn password(file: &str, mut wanted: [&str; 4]) -> Option<String> {
    if SOCKET_DIRECTORIES.contains(&wanted[0]) {
        wanted[0] = "localhost";
    }
    let lines = file.split('\n').map(|line| line.trim_end_matches('\r'));
    lines.filter(|line| !line.starts_with('#')).find_map(|line| {
        let rest = wanted.iter().try_fold(line, |rest, field| behind_field(rest, field))?;
        Some(field(rest))
    })
}

/// The text behind the first field and its colon, if the field is `wanted` or `*`. A colon of
/// `wanted` need not have its backslash, so that `::1` may stand in the file as it is.
fn behind_field<'a>(line: &'a str, wanted: &str) -> Option<&'a str> {
    if let Some(rest) = line.strip_prefix("*:") {
        return Some(rest);
    }
    let mut wanted = wanted.chars();
    let mut chars = line.chars();
    loop {
        let (char, expected) = (chars.next()?, wanted.next());
        if char == ':' && expected.is_none() {
            return Some(chars.as_str());
        }
        let literal = if char == '\\' { chars.next()? } else { char };
        if expected != Some(literal) {
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
