//! Files that use each other in a circle have to be read together, so a circle may have three at
//! most.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, files, home};

const FILES_MAX: usize = 3;

/// The directories that are searched for circles.
const DIRECTORIES: [&str; 8] = [
    "core/engine/src",
    "core/postgres/src",
    "core/redis/src",
    "core/client/src",
    "faces/abi/src",
    "faces/arrow/src",
    "faces/rust/src",
    "faces/node/src",
];

#[test]
fn no_more_than_three_files_use_each_other_in_a_circle() {
    let mut wrong = Vec::new();
    for directory in DIRECTORIES {
        let uses = uses(directory, &files(directory));
        let circles = circles(&uses);
        let large = circles.iter().filter(|it| it.len() > FILES_MAX);
        wrong.extend(large.map(|it| format!("{directory}: {it:?}")));
    }
    assert!(wrong.is_empty(), "at most {FILES_MAX} files in a circle:\n{}", wrong.join("\n"));
}

/// Which files each file uses, by their numbers.
struct Uses {
    paths: Vec<String>,
    of: Vec<BTreeSet<usize>>,
}

fn uses(directory: &str, sources: &[Source]) -> Uses {
    let paths: Vec<String> = sources.iter().map(|it| it.path.clone()).collect();
    let of = match directory.starts_with("faces/node") {
        true => sources.iter().map(|it| imports(it, &paths)).collect(),
        false => Modules::of(directory, sources).uses(),
    };
    Uses { paths, of }
}

/// The files that a file of TypeScript imports; what it only passes on is used by who imports that.
fn imports(source: &Source, paths: &[String]) -> BTreeSet<usize> {
    let directory = source.path.rsplit_once('/').unwrap().0;
    let text = std::fs::read_to_string(crate::root().join(&source.path)).unwrap();
    let quoted = text.split(" from '").skip(1).filter_map(|rest| rest.split('\'').next());
    let relative = quoted.filter(|it| it.starts_with('.'));
    let resolved = relative.filter_map(|it| {
        let path = joined(directory, it.trim_end_matches(".js"));
        paths.iter().position(|of| *of == format!("{path}.ts") || *of == format!("{path}/index.ts"))
    });
    resolved.collect()
}

fn joined(directory: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = directory.split('/').collect();
    for part in relative.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The modules of a crate that are files.
struct Modules<'a> {
    sources: &'a [Source],
    /// By their paths from the crate on, like `types::range`.
    numbers: BTreeMap<String, usize>,
    names: Vec<String>,
    /// What a module passes on: the name there, and the path of what it is.
    passed_on: Vec<BTreeMap<String, String>>,
}

impl Modules<'_> {
    fn of<'a>(directory: &str, sources: &'a [Source]) -> Modules<'a> {
        let name = |it: &Source| {
            home(&it.path)[directory.len()..].trim_start_matches('/').replace('/', "::")
        };
        let names: Vec<String> = sources.iter().map(name).collect();
        let numbers = names.iter().cloned().zip(0..).collect();
        let mut modules = Modules { sources, numbers, names, passed_on: Vec::new() };
        modules.passed_on = (0..sources.len()).map(|it| modules.passed_on_by(it)).collect();
        modules
    }

    fn uses(&self) -> Vec<BTreeSet<usize>> {
        (0..self.sources.len()).map(|it| self.used_by(it)).collect()
    }

    fn used_by(&self, number: usize) -> BTreeSet<usize> {
        let mut used: BTreeSet<usize> =
            self.named_in(number, false).iter().filter_map(|(_, path)| self.find(path)).collect();
        used.remove(&number);
        used
    }

    fn passed_on_by(&self, number: usize) -> BTreeMap<String, String> {
        self.named_in(number, true).into_iter().collect()
    }

    /// The paths within the crate that a module names, with their names there: those that it uses,
    /// or those that it passes on.
    fn named_in(&self, number: usize, passed_on: bool) -> Vec<(String, String)> {
        let code = &self.sources[number].code;
        let mut found = Vec::new();
        let mut rest = String::new();
        for statement in code.split_inclusive(';') {
            let Some(at) = import(statement) else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(&statement[..at]);
            let line = statement[..at].rsplit('\n').next().unwrap();
            if line.trim_start().starts_with("pub") == passed_on {
                found.extend(expanded(&statement[at + "use ".len()..statement.len() - 1]));
            }
        }
        if !passed_on {
            found.extend(inline(&rest).map(|path| (String::new(), path)));
        }
        let absolute = |(name, path): (String, String)| Some((name, self.absolute(number, &path)?));
        found.into_iter().filter_map(absolute).collect()
    }

    /// A path from the crate on, if it leads into it.
    fn absolute(&self, number: usize, path: &str) -> Option<String> {
        let parts: Vec<&str> = path.split("::").map(str::trim).collect();
        let mut from: Vec<&str> =
            self.names[number].split("::").filter(|it| !it.is_empty()).collect();
        let mut skipped = 0;
        for part in &parts {
            match *part {
                "crate" => from.clear(),
                "self" => {}
                "super" => drop(from.pop()),
                _ => break,
            }
            skipped += 1;
        }
        if skipped == 0 {
            // A child of this module, or another crate.
            let child = [&from[..], &parts[..1]].concat().join("::");
            self.numbers.get(&child)?;
        }
        Some([&from[..], &parts[skipped..]].concat().join("::"))
    }

    /// The file where this is written, by way of those that pass it on.
    fn find(&self, path: &str) -> Option<usize> {
        let mut path = path.to_owned();
        for _ in 0..8 {
            let parts: Vec<&str> = path.split("::").filter(|it| !it.is_empty()).collect();
            let prefixes = (0..=parts.len()).rev().map(|len| (len, parts[..len].join("::")));
            let (len, number) =
                prefixes.into_iter().find_map(|(len, it)| Some((len, *self.numbers.get(&it)?)))?;
            let next = parts.get(len).and_then(|name| self.passed_on.get(number)?.get(*name));
            match next {
                Some(next) => {
                    path = [next.as_str()]
                        .into_iter()
                        .chain(parts[len + 1..].iter().copied())
                        .collect::<Vec<_>>()
                        .join("::")
                }
                None => return Some(number),
            }
        }
        None
    }
}

/// Where a `use` begins in a statement.
fn import(statement: &str) -> Option<usize> {
    let at = statement.rfind("use ")?;
    let line = statement[..at].rsplit('\n').next().unwrap().trim_start();
    let is_word = statement[..at].is_empty() || statement[..at].ends_with([' ', '\n']);
    (is_word && (line.is_empty() || line.starts_with("pub"))).then_some(at)
}

/// `a::{b, c as d}` as a path for each, with its name.
fn expanded(tree: &str) -> Vec<(String, String)> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else {
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, tree));
        let path = path.trim().trim_end_matches("::self");
        let name = name.trim().trim_end_matches("::self");
        let name = name.rsplit("::").next().unwrap().to_owned();
        return vec![(name, path.to_owned())];
    };
    let Some((inside, _)) = rest.rsplit_once('}') else { panic!("no path: {tree}") };
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for letter in inside.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().unwrap().push(letter);
    }
    let parts = parts.iter().filter(|it| !it.trim().is_empty());
    parts.flat_map(|it| expanded(&format!("{}{}", prefix.trim(), it.trim()))).collect()
}

/// Paths in the middle of code.
fn inline(code: &str) -> impl Iterator<Item = String> {
    let is_path = |it: char| it.is_alphanumeric() || matches!(it, '_' | ':');
    let words = code.split(move |it: char| !is_path(it));
    let inside = words.filter(|it| it.starts_with("crate::") || it.starts_with("super::"));
    inside.map(|it| it.trim_matches(':').to_owned())
}

/// Files that all reach each other, where they are more than one.
fn circles(uses: &Uses) -> Vec<Vec<&str>> {
    let reached: Vec<BTreeSet<usize>> =
        (0..uses.of.len()).map(|it| reached(&uses.of, it)).collect();
    let mut seen = BTreeSet::new();
    let mut circles = Vec::new();
    for (number, from) in reached.iter().enumerate() {
        let circle: Vec<usize> =
            from.iter().copied().filter(|it| reached[*it].contains(&number)).collect();
        if circle.len() > 1 && seen.insert(circle.clone()) {
            circles.push(circle.into_iter().map(|it| &*uses.paths[it]).collect());
        }
    }
    circles
}

fn reached(of: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(number) = next.pop() {
        next.extend(of[number].iter().copied().filter(|it| reached.insert(*it)));
    }
    reached
}

#[test]
fn files_that_use_each_other_by_way_of_others_are_a_circle() {
    let source = |path: &str, text: &str| Source::new(format!("src/{path}"), text);
    let sources = [
        source("a.rs", "use crate::{b::B, Last};\n"),
        source("b/c.rs", "fn f() { super::super::d::f() }\n"),
        source("b/mod.rs", "mod c;\nuse c::C;\n"),
        source("d.rs", "use crate::a::A;\nuse std::fmt;\n"),
        source("last.rs", "// use crate::a;\n"),
        source("lib.rs", "mod a;\npub use last::Last;\n"),
    ];
    let uses = uses("src", &sources);
    assert_eq!(circles(&uses), [["src/a.rs", "src/b/c.rs", "src/b/mod.rs", "src/d.rs"]]);
    assert_eq!(uses.of[0], BTreeSet::from([2, 4]), "what lib.rs passes on is in last.rs");
}
