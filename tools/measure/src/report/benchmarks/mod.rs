//! Pages of the results of `make bench`, with charts: first the rows in which the peer is ahead or
//! a bar is missed, then all others by subject. The same files always give the same page.

mod charts;
mod index;
mod markdown;
mod page;
mod rows;
mod setting;
mod sittings;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use sittings::Measured;

/// Makes the page of a day of files of rows, in a directory of such pages: `DATE.md` with its
/// charts `DATE-….svg`, the rows as `DATE.json`, and `DATE-environment.json`. Of two rows with one
/// name the later one counts. Without a date it is the day of the last sitting. The page is added
/// to the list in the directory's `README.md`. Returns the paths that were written.
///
/// # Errors
/// A file can't be read or written, or is not from `make bench`; the date is invalid; or the
/// `README.md` has no place for the list. One line that names the file and says what to do.
pub fn write(files: &[PathBuf], date: Option<&str>, dir: &Path) -> Result<Vec<PathBuf>> {
    let measured = Measured::read(files)?;
    let date = date.map(str::to_owned).or_else(|| measured.day());
    let date = date.ok_or_else(|| Error::new("the files do not say when it was; add --date"))?;
    if date.parse::<jiff::civil::Date>().is_err() || date.len() != 10 {
        return Err(Error::new(format!("{date} is no date; write it as 2026-11-24")));
    }
    let (text, charts) = page::page(&measured, &date);
    let rows = dir.join(format!("{date}.json"));
    let mut files = vec![
        (dir.join(format!("{date}.md")), text),
        (sittings::environment_of(&rows), json(&measured.environment())),
        (rows, json(&measured.rows)),
    ];
    files.extend(charts.into_iter().map(|chart| (dir.join(chart.name), chart.svg)));
    remove_others(dir, &date, &files)?;
    for (path, text) in &files {
        fs::write(path, text).map_err(|error| failed("write", path, &error))?;
    }
    let mut paths: Vec<PathBuf> = files.into_iter().map(|(path, _)| path).collect();
    paths.push(index::write(dir)?);
    Ok(paths)
}

/// Removes charts that only an earlier page of that day had.
fn remove_others(dir: &Path, date: &str, files: &[(PathBuf, String)]) -> Result<()> {
    for path in listed(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_chart = name.starts_with(&format!("{date}-")) && name.ends_with(".svg");
        if is_chart && files.iter().all(|(it, _)| *it != path) {
            fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))?;
        }
    }
    Ok(())
}

fn listed(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(|error| failed("read", dir, &error))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

fn json(what: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(what).expect("rows are JSON") + "\n"
}

fn failed(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::new(format!("can't {doing} {}: {error}; name a directory of pages", path.display()))
}
