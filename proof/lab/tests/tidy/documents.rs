//! Documents: their lines fit, and their links lead to something.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::root;

const COLUMNS_MAX: usize = 100;

#[test]
fn no_line_of_prose_in_a_document_is_longer_than_100_columns() {
    let Some(tracked) = tracked() else { return };
    let mut wrong = Vec::new();
    for path in documents(&tracked) {
        let long = long_lines(&read(path));
        wrong.extend(long.iter().map(|(number, len)| format!("{path}:{number} has {len}")));
    }
    assert!(wrong.is_empty(), "at most {COLUMNS_MAX} columns of prose:\n{}", wrong.join("\n"));
}

#[test]
fn every_relative_link_in_a_document_leads_to_a_tracked_file_and_a_heading_of_it() {
    let Some(tracked) = tracked() else { return };
    let headings: BTreeMap<&str, BTreeSet<String>> =
        documents(&tracked).map(|path| (path, slugs(&read(path)))).collect();
    let mut wrong = Vec::new();
    for path in documents(&tracked) {
        let links = links(&read(path));
        let dead = links.iter().filter(|link| !leads_somewhere(path, link, &tracked, &headings));
        wrong.extend(dead.map(|link| format!("{path}: {link}")));
    }
    assert!(wrong.is_empty(), "these links lead nowhere:\n{}", wrong.join("\n"));
}

/// The files that git knows, from the root of the repository.
pub(crate) fn tracked() -> Option<BTreeSet<String>> {
    let output = Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output();
    let Some(output) = output.ok().filter(|it| it.status.success()) else {
        println!("skipped: git does not tell which documents there are");
        return None;
    };
    let names = String::from_utf8(output.stdout).unwrap();
    let names = names.split('\0').filter(|it| !it.is_empty());
    // One that was removed may be known until that is committed.
    Some(names.filter(|it| root().join(it).exists()).map(str::to_owned).collect())
}

pub(crate) fn documents(tracked: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    tracked.iter().map(String::as_str).filter(|path| path.ends_with(".md"))
}

pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

pub(crate) fn events(text: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS).into_offset_iter()
}

/// The numbers and lengths of lines that are too long: not those of tables, code and comments, and no
/// line that is one link, since these can't be broken.
fn long_lines(text: &str) -> Vec<(usize, usize)> {
    let (mut exempt, mut links) = (Vec::new(), Vec::new());
    for (event, range) in events(text) {
        match event {
            Event::Start(Tag::Table(_) | Tag::CodeBlock(_) | Tag::HtmlBlock) => exempt.push(range),
            Event::Start(Tag::Link { .. } | Tag::Image { .. }) => links.push(range),
            _ => {}
        }
    }
    let (mut start, mut found) = (0, Vec::new());
    for (number, line) in text.lines().enumerate() {
        let len = line.chars().count();
        let is_link = |link: &Range<usize>| {
            let around =
                [line.get(..link.start.saturating_sub(start)), line.get(link.end - start..)];
            let is_bare = |it: &str| it.chars().all(|it| !it.is_alphanumeric());
            around.into_iter().all(|it| it.is_some_and(is_bare))
        };
        let inside = |it: &&Range<usize>| it.start >= start && it.end <= start + line.len();
        let is_exempt = exempt.iter().any(|it| it.contains(&start))
            || links.iter().filter(inside).any(is_link)
            || line.starts_with('[') && line.contains("]: ");
        if len > COLUMNS_MAX && !is_exempt {
            found.push((number + 1, len));
        }
        start += line.len() + 1;
    }
    found
}

/// Where the links of a document lead that are not to other sites.
fn links(text: &str) -> Vec<String> {
    let targets = events(text).filter_map(|(event, _)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url),
        _ => None,
    });
    let is_elsewhere = |it: &str| it.contains("://") || it.starts_with("mailto:");
    targets.filter(|it| !is_elsewhere(it)).map(|it| it.to_string()).collect()
}

fn leads_somewhere(
    from: &str,
    link: &str,
    tracked: &BTreeSet<String>,
    headings: &BTreeMap<&str, BTreeSet<String>>,
) -> bool {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let Some(path) = (if path.is_empty() { Some(from.to_owned()) } else { joined(from, path) })
    else {
        return false;
    };
    let directory = format!("{path}/");
    let is_there = tracked.contains(&path)
        || tracked.range(directory.clone()..).next().is_some_and(|it| it.starts_with(&directory));
    let is_heading = || headings.get(path.as_str()).is_some_and(|it| it.contains(anchor));
    let is_line = || anchor.strip_prefix('L').is_some_and(|it| it.parse::<u32>().is_ok());
    is_there && (anchor.is_empty() || is_heading() || is_line())
}

/// The path from the root that a relative link in a document means; none where it leads out.
pub(crate) fn joined(from: &str, link: &str) -> Option<String> {
    let directory = Path::new(from).parent().and_then(Path::to_str).unwrap_or_default();
    let mut parts: Vec<&str> = directory.split('/').filter(|it| !it.is_empty()).collect();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "" => return None,
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a document's headings, as GitHub makes them.
fn slugs(text: &str) -> BTreeSet<String> {
    let (mut found, mut seen) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    let mut heading: Option<String> = None;
    for (event, _) in events(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                heading.iter_mut().for_each(|it| it.push_str(&text));
            }
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap());
                let times = seen.entry(slug.clone()).or_default();
                found.insert(if *times == 0 { slug } else { format!("{slug}-{times}") });
                *times += 1;
            }
            _ => {}
        }
    }
    found
}

fn slug(heading: &str) -> String {
    let kept = |it: &char| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_');
    heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

#[test]
fn only_prose_has_long_lines() {
    let long = "word ".repeat(24);
    let link = format!("[a](b.md#{})", "c".repeat(100));
    let text = format!(
        "# A\n\n{long}\n\n- {link}.\n- {link} and\n\n<!-- {long} -->\n\n```\n{long}\n```\n\n\
         | a |\n|---|\n| {long} |\n\n[a]: b.md \"{long}\"\n\n{}\n",
        "é".repeat(100)
    );
    assert_eq!(long_lines(&text), [(3, 120), (6, 116)]);
}

#[test]
fn a_slug_is_lower_case_without_signs_and_repeated_ones_are_numbered() {
    let text = "# What `Full` means, and why\n\n## Größe: a_b-c…\n\n## A\n\n## A\n\n## A *b*\n";
    let expected = ["a", "a-1", "a-b", "größe-a_b-c", "what-full-means-and-why"];
    assert_eq!(slugs(text).into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn links_are_followed_from_the_document_that_has_them() {
    let tracked = BTreeSet::from(["docs/a.md", "docs/b/c.rs", "d.md"].map(str::to_owned));
    let of = |path, text| (path, slugs(text));
    let headings = BTreeMap::from([of("docs/a.md", "# One\n"), of("d.md", "# Two\n")]);
    let leads = |link: &str| leads_somewhere("docs/a.md", link, &tracked, &headings);
    for link in ["#one", "../d.md", "../d.md#two", "b", "b/", "./b/c.rs#L7"] {
        assert!(leads(link), "{link}");
    }
    for link in ["#two", "d.md", "../d.md#one", "../../d.md", "/d.md", "b/c.rs#one", "b/c"] {
        assert!(!leads(link), "{link}");
    }
}
