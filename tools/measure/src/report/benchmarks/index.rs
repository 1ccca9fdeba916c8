//! The list of pages in a directory's `README.md`.

use std::fs;
use std::path::{Path, PathBuf};

use super::{failed, listed};
use crate::error::{Error, Result};

/// Around the list, which is written anew each time.
const BEGINS: &str = "<!-- pages -->\n";
const ENDS: &str = "<!-- /pages -->";

pub(super) fn write(dir: &Path) -> Result<PathBuf> {
    let path = dir.join("README.md");
    let text = fs::read_to_string(&path).map_err(|error| failed("read", &path, &error))?;
    let place = text.split_once(BEGINS).and_then(|(head, rest)| {
        let (_, tail) = rest.split_once(ENDS)?;
        Some((head, tail))
    });
    let (head, tail) = place.ok_or_else(|| {
        let (begins, shown) = (BEGINS.trim(), path.display());
        Error::new(format!("{shown} has no place for the list; add {begins} and {ENDS} to it"))
    })?;
    let mut pages = pages(dir)?;
    // A page of a day is newer than one of its whole month.
    pages.sort_by(|(a, _), (b, _)| since(b).cmp(since(a)).then(a.cmp(b)));
    let items = pages.iter().map(|(name, title)| format!("- [{title}]({name})\n"));
    let text = format!("{head}{BEGINS}{}{ENDS}{tail}", items.collect::<String>());
    fs::write(&path, text).map_err(|error| failed("write", &path, &error))?;
    Ok(path)
}

/// Names of files, and what stands on top of each.
fn pages(dir: &Path) -> Result<Vec<(String, String)>> {
    let mut pages = Vec::new();
    for path in listed(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".md") || name == "README.md" {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|error| failed("read", &path, &error))?;
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(&name);
        pages.push((name.clone(), title.to_owned()));
    }
    Ok(pages)
}

/// The date that a name begins with: as much of it as there is.
fn since(name: &str) -> &str {
    let end = name.find(|it: char| !it.is_ascii_digit() && it != '-').unwrap_or(name.len());
    name[..end].trim_end_matches('-')
}
