//! A function fits on a screen.

use crate::source::{Source, block_end, files};

const LINES_MAX: usize = 70;

/// Where functions are measured.
const DIRECTORIES: [&str; 9] = [
    "core/engine/src",
    "core/postgres/src",
    "core/redis/src",
    "core/client/src",
    "faces/abi/src",
    "faces/arrow/src",
    "faces/c/src",
    "faces/rust/src",
    "faces/node/src",
];

/// Tables: one line for each of what they know, however many that are.
const TABLES: [(&str, &str); 2] =
    [("faces/rust/src/config/value.rs", "set"), ("faces/rust/src/params.rs", "candidates")];

#[test]
fn no_function_is_longer_than_a_screen_but_tables() {
    let sources: Vec<Source> = DIRECTORIES.into_iter().flat_map(files).collect();
    let long: Vec<Function> =
        sources.iter().flat_map(functions).filter(|it| it.lines > LINES_MAX).collect();
    let mut wrong = Vec::new();
    for Function { path, name, lines } in &long {
        let is_named = |(of, it): (&str, &str)| of == path && it == name;
        let table = TABLES.into_iter().any(is_named);
        if !table {
            wrong.push(format!("{path}: {name} has {lines} lines"));
        }
    }
    for (path, name) in TABLES {
        if !long.iter().any(|it| it.path == path && it.name == name) {
            wrong.push(format!("{path}: {name} is no exception any more"));
        }
    }
    assert!(wrong.is_empty(), "at most {LINES_MAX} lines:\n{}", wrong.join("\n"));
}

struct Function {
    path: String,
    name: String,
    lines: usize,
}

/// The functions of a file; one within another is counted with it, and by itself.
fn functions(source: &Source) -> Vec<Function> {
    let code = &source.code;
    let braces = code.bytes().enumerate().filter(|(_, byte)| *byte == b'{').map(|(at, _)| at);
    let is_rust = source.path.ends_with(".rs");
    let named = braces.filter_map(|brace| {
        let (begin, name) =
            if is_rust { of_rust(code, brace)? } else { of_typescript(code, brace)? };
        let lines = code[begin..block_end(code, brace)].matches('\n').count() + 1;
        Some(Function { path: source.path.clone(), name, lines })
    });
    named.collect()
}

/// Where the function begins whose body this brace opens, and its name.
fn of_rust(code: &str, brace: usize) -> Option<(usize, String)> {
    let head = header(code, brace);
    let at = head.rfind("fn ").filter(|at| {
        *at == 0 || head.as_bytes()[at - 1] == b' ' || head.as_bytes()[at - 1] == b'\n'
    })?;
    // A closure, or a block within a call, is a part of its function.
    let name = word(&head[at + 3..]);
    (!name.is_empty() && depth(&head[at..]) == 0).then(|| (brace - head.len() + at, name))
}

fn of_typescript(code: &str, brace: usize) -> Option<(usize, String)> {
    const OTHERS: [&str; 12] = [
        "if",
        "for",
        "while",
        "switch",
        "catch",
        "with",
        "class",
        "interface",
        "do",
        "else",
        "enum",
        "return",
    ];
    let line = code[..brace].rfind('\n').map_or(0, |at| at + 1);
    let opening = code[line..brace].trim_end();
    let arrow = opening.ends_with("=>");
    let method =
        opening.trim_start().starts_with(')') || opening.contains('(') && depth(opening) == 0;
    if !arrow && !method || code[line..=brace].contains(" = {") {
        return None;
    }
    let begin = signature(code, line, brace);
    let head = code[begin..brace].trim_start();
    let head = head.trim_start_matches("} ");
    let words = ["export ", "default ", "private ", "static ", "async ", "function ", "const "];
    let named = words.iter().fold(head, |head, word| head.strip_prefix(word).unwrap_or(head));
    let name = word(named.trim_start_matches('#'));
    (!OTHERS.contains(&name.as_str())).then_some((begin, name))
}

/// The line where the parentheses begin that end in this one.
fn signature(code: &str, line: usize, brace: usize) -> usize {
    let mut begin = line;
    while depth(&code[begin..brace]) < 0 && begin > 0 {
        begin = code[..begin - 1].rfind('\n').map_or(0, |at| at + 1);
    }
    begin
}

/// Parentheses that are open in the end.
fn depth(text: &str) -> i32 {
    text.bytes().map(|it| i32::from(it == b'(') - i32::from(it == b')')).sum()
}

/// What stands before a brace, from the end of what comes before it.
fn header(code: &str, brace: usize) -> &str {
    let begin = code[..brace].rfind(['{', '}']).map_or(0, |at| at + 1);
    let begin = code[begin..brace].rfind(";\n").map_or(begin, |at| begin + at + 1);
    &code[begin..brace]
}

fn word(text: &str) -> String {
    text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect()
}

#[test]
fn the_length_of_a_function_is_that_from_its_name_to_its_end() {
    let rust = "struct A;\nfn one(\n    a: [u8; 3],\n) -> char {\n    if true { '{' } else { '}' }\n}\n\
        fn two() {}\n";
    let script = "export function one(\n  a: string,\n): string {\n  if (a) {\n    return '}'\n  }\n}\n\
        class B {\n  #two() {\n  }\n}\n";
    for (path, text) in [("a.rs", rust), ("a.ts", script)] {
        let found = functions(&Source::new(path.to_owned(), text));
        let found: Vec<_> = found.iter().map(|it| (&*it.name, it.lines)).collect();
        let two = if path == "a.rs" { 1 } else { 2 };
        assert_eq!(found, [("one", if path == "a.rs" { 5 } else { 7 }), ("two", two)], "{path}");
    }
}
