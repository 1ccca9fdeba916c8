//! Examples: a test compiles or runs all Rust, JavaScript, TypeScript, Python, C and C++ code that a
//! page shows.

use std::collections::BTreeSet;

use pulldown_cmark::{CodeBlockKind, Event, Tag};

use crate::documents::{documents, events, joined, read, tracked};

/// What readers copy from.
const PLACES: [&str; 5] =
    ["README.md", "docs/guide/", "docs/concepts/", "docs/operations/", "docs/reference/"];

const RUST: &str = "faces/rust/src/";
const NODE: &str = "faces/node/test/package-docs.test.ts";
const PYTHON: &str = "faces/python/tests/test_docs.py";
const C: &str = "faces/c/tests/it/documented.rs";

/// In which languages the examples of a page are tried.
#[derive(Clone, Copy)]
struct Tried {
    rust: bool,
    node: bool,
    python: bool,
    c: bool,
}

#[test]
fn every_example_is_compiled_or_run() {
    let Some(tracked) = tracked() else { return };
    let (rust, node) = (doctests(&tracked), files_of_node(&read(NODE)));
    let python = files_of_python(&read(PYTHON));
    let c = read(C);
    let is_shown = |page: &&str| PLACES.iter().any(|place| page.starts_with(place));
    let mut wrong = Vec::new();
    for page in documents(&tracked).filter(is_shown) {
        let tried = Tried {
            rust: rust.contains(page),
            node: node.contains(page),
            python: python.contains(page),
            c: c.contains(&format!("PAGE: &str = \"{page}\"")),
        };
        let faults = infos(&read(page)).into_iter().filter_map(|info| {
            fault(&info, tried).map(|fault| format!("{page}: ```{info}: {fault}"))
        });
        wrong.extend(faults);
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "no test runs these examples:\n{}", wrong.join("\n"));
}

/// What is wrong with an example on a page whose examples are tried in these languages.
fn fault(info: &str, tried: Tried) -> Option<&'static str> {
    let mut words = info.split([' ', ',']).filter(|it| !it.is_empty());
    let language = words.next()?;
    let has = |word: &str| words.clone().any(|it| it == word);
    match language {
        "rust" if has("ignore") && !info.contains('(') => Some("say why: ignore (reason)"),
        "rust" if !tried.rust && !has("ignore") => {
            Some("include the page as a doctest in faces/rust/src/lib.rs")
        }
        "js" | "ts" if !tried.node => {
            Some("add the page to FILES in faces/node/test/package-docs.test.ts")
        }
        "python" if !tried.python => {
            Some("add the page to FILES in faces/python/tests/test_docs.py")
        }
        "c" | "cpp" if !tried.c => Some("make it the PAGE of faces/c/tests/it/documented.rs"),
        "javascript" | "typescript" | "mjs" | "cjs" | "mts" => Some("write js or ts"),
        "py" | "python3" | "pycon" => Some("write python"),
        _ => None,
    }
}

/// The languages of the blocks of code, and what stands behind them.
fn infos(text: &str) -> Vec<String> {
    let info = |event| match event {
        Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => Some(info.to_string()),
        _ => None,
    };
    events(text).filter_map(|(event, _)| info(event)).collect()
}

/// The pages that the Rust face includes for rustdoc.
fn doctests(tracked: &BTreeSet<String>) -> BTreeSet<String> {
    let sources = tracked.iter().filter(|path| path.starts_with(RUST) && path.ends_with(".rs"));
    sources.flat_map(|path| included(path, &read(path))).collect()
}

fn included(path: &str, source: &str) -> Vec<String> {
    let parts = source.split("#[doc = include_str!(\"").skip(1);
    parts.filter_map(|it| joined(path, it.split('"').next()?)).collect()
}

/// The pages whose examples the Node package's tests run.
fn files_of_node(source: &str) -> BTreeSet<String> {
    let list = source.split("const FILES = [").nth(1).and_then(|it| it.split(']').next());
    let names = list.unwrap_or_default().split('\'').skip(1).step_by(2);
    names.filter_map(|name| joined("faces/node/package.json", name)).collect()
}

/// The pages whose examples the tests of the package for Python run.
fn files_of_python(source: &str) -> BTreeSet<String> {
    let list = source.split("FILES = [").nth(1).and_then(|it| it.split(']').next());
    let names = list.unwrap_or_default().split('"').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

#[test]
fn an_example_that_nothing_tries_is_found() {
    const ALL: Tried = Tried { rust: true, node: true, python: true, c: true };
    const NONE: Tried = Tried { rust: false, node: false, python: false, c: false };
    let text = "```rust\n```\n\n```rust,no_run\n```\n\n- a\n\n  ```ts no-run\n  ```\n\n```\n```\n";
    assert_eq!(infos(text), ["rust", "rust,no_run", "ts no-run", ""]);
    for info in ["rust", "rust,no_run", "ts no-run", "js", "python", "c", "sh", "rust,ignore (why)"]
    {
        assert_eq!(fault(info, ALL), None, "{info}");
    }
    for info in
        ["rust", "rust,no_run", "rust,ignore", "ts no-run", "js", "typescript", "python", "cpp"]
    {
        assert!(fault(info, NONE).is_some(), "{info}");
    }
}

#[test]
fn the_lists_of_pages_are_read() {
    let source = "#[doc = include_str!(\"../../../docs/a.md\")]\nstruct A;\ninclude_str!(\"b.md\")";
    assert_eq!(included("faces/rust/src/lib.rs", source), ["docs/a.md"]);
    let list = "const FILES = [\n  'README.md',\n  '../../docs/a.md',\n]\nconst B = ['c.md']";
    let expected = ["docs/a.md", "faces/node/README.md"].map(str::to_owned);
    assert_eq!(files_of_node(list), BTreeSet::from(expected));
    let list = "FILES = [\n    \"docs/a.md\",\n]\nOTHERS = [\"b.md\"]";
    assert_eq!(files_of_python(list), BTreeSet::from(["docs/a.md".to_owned()]));
}
