//! Writes a report as files: all of them, or none.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::picture::Picture;
use super::{csv, html, json, sheets};
use crate::error::{Error, Result};
use crate::results::Results;

/// Writes `results.json`, `results.csv`, `results.xlsx` and `report.html` into a directory, which
/// is made if need be, and returns their paths. Where transfers were recorded their picture comes
/// with them, as `transfer.svg`. Each is written beside its place, put on the disk and then moved
/// there, all of them at the end: until then files of an earlier report stay as they are.
///
/// # Errors
/// The directory can't be made or is a file, or a file can't be written: one line that names the
/// path and says what to do. What was written beside is removed.
pub fn write_all(results: &Results, dir: &Path) -> Result<Vec<PathBuf>> {
    write_with(results, dir, create)
}

/// Whether [`write_all`] would be able to write there: to be asked before a long run. Makes the
/// directory, and writes and removes a small file.
///
/// # Errors
/// As those of [`write_all`].
pub fn check_writable(dir: &Path) -> Result<()> {
    make(dir)?;
    let path = beside(&dir.join("check"));
    let written = create(&path).and_then(|mut file| file.write_all(b"can this be written?\n"));
    let removed = fs::remove_file(&path);
    written.and(removed).map_err(|error| failed(&path, &error))
}

/// What the files are made by; tests have a disk that is full.
type Create<W> = fn(&Path) -> io::Result<W>;

/// Creates the file anew. A killed process with the same pid may have left one; it is never written
/// through a link of another user.
fn create(path: &Path) -> io::Result<File> {
    let _ = fs::remove_file(path);
    File::options().write(true).create_new(true).open(path)
}

/// A file whose bytes can be put on the disk.
trait Durable: Write {
    fn put_on_disk(&mut self) -> io::Result<()>;
}

impl Durable for File {
    fn put_on_disk(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

fn write_with<W: Durable>(
    results: &Results,
    dir: &Path,
    create: Create<W>,
) -> Result<Vec<PathBuf>> {
    let mut files = vec![
        ("results.json", json::bytes(results)?),
        ("results.csv", csv::bytes(results)?),
        ("results.xlsx", sheets::bytes(results)?),
        ("report.html", html::html(results).into_bytes()),
    ];
    let picture = Picture::of(results);
    files.extend(picture.map(|it| ("transfer.svg", it.file().into_bytes())));
    make(dir)?;
    let mut written = Written::default();
    for (name, bytes) in &files {
        written.add(dir.join(name), bytes, create)?;
    }
    written.keep(dir)
}

fn make(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => Error::new(format!(
            "can't write the report to {}: it is, or lies in, a file; name a directory",
            dir.display()
        )),
        _ => failed(dir, &error),
    })
}

/// Files beside their places. Those that are not kept are removed.
#[derive(Default)]
struct Written(Vec<(PathBuf, PathBuf)>);

impl Written {
    fn add<W: Durable>(&mut self, path: PathBuf, bytes: &[u8], create: Create<W>) -> Result<()> {
        let beside = beside(&path);
        let file = create(&beside);
        let named = |error: io::Error| failed(&path, &error);
        let mut file = file.map_err(named)?;
        self.0.push((beside, path.clone()));
        file.write_all(bytes).and_then(|()| file.put_on_disk()).map_err(named)
    }

    fn keep(mut self, dir: &Path) -> Result<Vec<PathBuf>> {
        let mut kept = Vec::new();
        while let Some((beside, path)) = self.0.first().cloned() {
            fs::rename(&beside, &path).map_err(|error| failed(&path, &error))?;
            self.0.remove(0);
            kept.push(path);
        }
        // The names are on the disk when the directory is; where that can't be asked for, it is
        // none the less readable.
        let _ = File::open(dir).and_then(|dir| dir.sync_all());
        Ok(kept)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        for (beside, _) in &self.0 {
            // An error here is ignored: the first error has been reported.
            let _ = fs::remove_file(beside);
        }
    }
}

/// Of this process alone: two at once don't write into one file.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

fn failed(path: &Path, error: &io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or name a directory on another disk"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "name a directory that you may write to"
        }
        _ => "name another directory",
    };
    Error::new(format!("can't write {}: {error}; {advice}", path.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn nothing() -> Results {
        let text = r#"{"schema":"onetrip-bench","schema_version":1,"onetrip_version":"0.1.0",
            "started_at":"2026-11-21T19:00:00Z","elapsed_s":0.0,"stopped":null,"command":[],"seed":1,
            "server":{"url":"","product":"PostgreSQL","version":"17.2","private":true,"settings":{}},
            "client":{"cpus":1,"threads":1,"system":"linux"},"lines":[],"cells":[]}"#;
        serde_json::from_str(text).unwrap()
    }

    /// A directory that goes with it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let dir = std::env::temp_dir().join(format!("onetrip-{name}-{}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            Scratch(dir)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            let name =
                |it: io::Result<fs::DirEntry>| it.unwrap().file_name().into_string().unwrap();
            let mut names: Vec<String> = entries.map(name).collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The disk is full from the spreadsheet on: the file is there, and what is written fails as it
    /// does on a full disk.
    fn full(path: &Path) -> io::Result<File> {
        let file = create(path)?;
        match path.to_string_lossy().contains("xlsx") {
            true => File::options().write(true).open("/dev/full"),
            false => Ok(file),
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_leaves_the_earlier_report_and_nothing_else() {
        let dir = Scratch::new("full");
        fs::write(dir.0.join("results.csv"), "earlier").unwrap();
        let error = write_with(&nothing(), &dir.0, full).unwrap_err().to_string();
        assert!(error.starts_with("can't write ") && error.contains("results.xlsx: "), "{error}");
        assert!(error.ends_with("free some space, or name a directory on another disk"), "{error}");
        assert_eq!(dir.names(), ["results.csv"]);
        assert_eq!(fs::read(dir.0.join("results.csv")).unwrap(), b"earlier");
    }

    #[test]
    fn a_whole_report_replaces_the_earlier_one() {
        let dir = Scratch::new("whole");
        fs::write(dir.0.join("results.csv"), "earlier").unwrap();
        let paths = write_all(&nothing(), &dir.0).unwrap();
        let names = ["report.html", "results.csv", "results.json", "results.xlsx"];
        assert_eq!(dir.names(), names);
        assert!(paths.iter().all(|path| path.starts_with(&dir.0) && path.exists()));
        assert_ne!(fs::read(dir.0.join("results.csv")).unwrap(), b"earlier");
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_is_told_of() {
        let dir = Scratch::new("file");
        let file = dir.0.join("file");
        fs::write(&file, "").unwrap();
        for place in [file.clone(), file.join("below")] {
            let error = check_writable(&place).unwrap_err().to_string();
            assert!(error.contains("it is, or lies in, a file; name a directory"), "{error}");
            assert_eq!(write_all(&nothing(), &place).unwrap_err().to_string(), error);
        }
        assert_eq!(dir.names(), ["file"]);
    }

    #[test]
    fn checking_makes_the_directory_and_leaves_no_file() {
        let dir = Scratch::new("check");
        check_writable(&dir.0.join("a/b")).unwrap();
        assert_eq!(fs::read_dir(dir.0.join("a/b")).unwrap().count(), 0);
    }
}
