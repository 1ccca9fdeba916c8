//! The source as the checks read it: without comments, texts and tests, in the lines that it has.

use std::path::Path;

use crate::root;

/// A file of the product.
pub(crate) struct Source {
    /// From the root of the repository.
    pub(crate) path: String,
    /// Braces and names in it are those of code.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: String, text: &str) -> Source {
        let code = code(text, path.ends_with(".rs"));
        Source { path, code }
    }
}

/// All files in a directory that are no tests.
pub(crate) fn files(directory: &str) -> Vec<Source> {
    let mut found = Vec::new();
    collect(&root().join(directory), directory, &mut found);
    // A module of tests may be a file of any name.
    let tests: Vec<String> = found.iter_mut().flat_map(remove_tests).collect();
    let is_test = |path: &str| {
        tests.iter().any(|it| {
            path.strip_prefix(it.as_str()).is_some_and(|rest| rest.starts_with(['.', '/']))
        })
    };
    found.retain(|source| !is_test(&source.path));
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "{directory}: there are no files");
    found
}

fn collect(directory: &Path, name: &str, found: &mut Vec<Source>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        let name = format!("{name}/{file}");
        if path.is_dir() && !matches!(file, "test" | "tests") {
            collect(&path, &name, found);
        } else if (file.ends_with(".rs") && file != "tests.rs")
            || (file.ends_with(".ts") && !file.contains(".test."))
        {
            found.push(Source::new(name, &std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// What is a comment or quoted becomes spaces, so that the rest stays where it was.
fn code(text: &str, is_rust: bool) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let len = match is_rust {
            true => skipped_in_rust(rest, code.chars().next_back()),
            false => skipped_in_typescript(rest),
        };
        let (skipped, after) = rest.split_at(len.max(next.len_utf8()));
        match len {
            0 => code.push_str(skipped),
            _ => code.extend(skipped.chars().map(|it| if it == '\n' { it } else { ' ' })),
        }
        rest = after;
    }
    code
}

/// How long the comment or the text is with which this begins.
fn skipped_in_rust(rest: &str, before: Option<char>) -> usize {
    let is_word = before.is_some_and(|it| it.is_alphanumeric() || it == '_');
    let after_one = rest.chars().nth(2);
    match rest.as_bytes() {
        [b'/', b'/' | b'*', ..] => comment(rest),
        [b'r', b'"' | b'#', ..] if !is_word => raw(rest),
        [b'"', ..] => quoted(rest, b'"'),
        // Others are lifetimes.
        [b'\'', b'\\', ..] => quoted(rest, b'\''),
        [b'\'', ..] if after_one == Some('\'') => quoted(rest, b'\''),
        _ => 0,
    }
}

/// A text ends with its line, so that a quote in a regular expression spoils no more.
fn skipped_in_typescript(rest: &str) -> usize {
    match rest.as_bytes() {
        [b'/', b'/' | b'*', ..] => comment(rest),
        [b'`', ..] => quoted(rest, b'`'),
        [quote @ (b'"' | b'\''), ..] => match quoted(rest, *quote) {
            len if rest[..len].contains('\n') => 0,
            len => len,
        },
        _ => 0,
    }
}

fn comment(rest: &str) -> usize {
    match rest.starts_with("//") {
        true => rest.find('\n').unwrap_or(rest.len()),
        false => rest.find("*/").map_or(rest.len(), |at| at + 2),
    }
}

fn raw(rest: &str) -> usize {
    let hashes = rest[1..].bytes().take_while(|it| *it == b'#').count();
    let (begin, end) = (2 + hashes, format!("\"{}", "#".repeat(hashes)));
    match rest.as_bytes().get(1 + hashes) {
        Some(b'"') => rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len()),
        _ => 0,
    }
}

fn quoted(rest: &str, quote: u8) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Where the block ends that begins here, which is at its brace.
pub(crate) fn block_end(code: &str, begin: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(begin) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// Blanks modules of tests, and returns the paths of those that are files, without their ends.
fn remove_tests(source: &mut Source) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(found) = source.code[at..].find("#[cfg(") {
        let begin = at + found;
        at = begin + "#[cfg(".len();
        let is_test = ["test)", "all(test,"].iter().any(|it| source.code[at..].starts_with(it));
        let Some(end) = source.code[at..].find(['{', ';']).map(|end| at + end) else { break };
        let words: Vec<&str> = source.code[at..end].split_whitespace().collect();
        let name = words.iter().rposition(|it| *it == "mod").and_then(|it| words.get(it + 1));
        let (true, Some(name)) = (is_test, name) else { continue };
        if source.code.as_bytes()[end] == b';' {
            names.push(format!("{}/{name}", home(&source.path)));
            continue;
        }
        let end = (block_end(&source.code, end) + 1).min(source.code.len());
        let blank: String =
            source.code[begin..end].chars().map(|it| if it == '\n' { it } else { ' ' }).collect();
        source.code.replace_range(begin..end, &blank);
        at = begin;
    }
    names
}

/// The directory of what a file of Rust has as its modules.
pub(crate) fn home(path: &str) -> &str {
    let (directory, file) = path.rsplit_once('/').unwrap();
    match file {
        "mod.rs" | "lib.rs" | "main.rs" => directory,
        _ => path.trim_end_matches(".rs"),
    }
}
