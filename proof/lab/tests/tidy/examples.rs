//! Examples: a test compiles or runs all Rust, JavaScript and TypeScript code that a page shows.

use std::collections::BTreeSet;

use pulldown_cmark::{CodeBlockKind, Event, Tag};

use crate::documents::{documents, events, joined, read, tracked};

/// What readers copy from.
const PLACES: [&str; 5] =
    ["README.md", "docs/guide/", "docs/concepts/", "docs/operations/", "docs/reference/"];

const RUST: &str = "faces/rust/src/";
const NODE: &str = "faces/node/test/package-docs.test.ts";

#[test]
fn every_example_is_compiled_or_run() {
    let Some(tracked) = tracked() else { return };
    let (rust, node) = (doctests(&tracked), files_of_node(&read(NODE)));
    let is_shown = |page: &&str| PLACES.iter().any(|place| page.starts_with(place));
    let mut wrong = Vec::new();
    for page in documents(&tracked).filter(is_shown) {
        let faults = infos(&read(page)).into_iter().filter_map(|info| {
            fault(&info, rust.contains(page), node.contains(page))
                .map(|fault| format!("{page}: ```{info}: {fault}"))
        });
        wrong.extend(faults);
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "no test runs these examples:\n{}", wrong.join("\n"));
}

/// What is wrong with an example on a page that is or isn't a doctest, and is or isn't one of
/// Node's.
fn fault(info: &str, is_rust: bool, is_node: bool) -> Option<&'static str> {
    let mut words = info.split([' ', ',']).filter(|it| !it.is_empty());
    let language = words.next()?;
    let has = |word: &str| words.clone().any(|it| it == word);
    match language {
        "rust" if has("ignore") && !info.contains('(') => Some("say why: ignore (reason)"),
        "rust" if !is_rust && !has("ignore") => {
            Some("include the page as a doctest in faces/rust/src/lib.rs")
        }
        "js" | "ts" if !is_node => {
            Some("add the page to FILES in faces/node/test/package-docs.test.ts")
        }
        "javascript" | "typescript" | "mjs" | "cjs" | "mts" => Some("write js or ts"),
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

#[test]
fn an_example_that_nothing_tries_is_found() {
    let text = "```rust\n```\n\n```rust,no_run\n```\n\n- a\n\n  ```ts no-run\n  ```\n\n```\n```\n";
    assert_eq!(infos(text), ["rust", "rust,no_run", "ts no-run", ""]);
    for info in ["rust", "rust,no_run", "ts no-run", "js", "sh", "", "rust,ignore (why)"] {
        assert_eq!(fault(info, true, true), None, "{info}");
    }
    for info in ["rust", "rust,no_run", "rust,ignore", "ts no-run", "js", "typescript"] {
        assert!(fault(info, false, false).is_some(), "{info}");
    }
}

#[test]
fn the_lists_of_pages_are_read() {
    let source = "#[doc = include_str!(\"../../../docs/a.md\")]\nstruct A;\ninclude_str!(\"b.md\")";
    assert_eq!(included("faces/rust/src/lib.rs", source), ["docs/a.md"]);
    let list = "const FILES = [\n  'README.md',\n  '../../docs/a.md',\n]\nconst B = ['c.md']";
    let expected = ["docs/a.md", "faces/node/README.md"].map(str::to_owned);
    assert_eq!(files_of_node(list), BTreeSet::from(expected));
}
