//! Files that nobody but their owner may read.

use std::fs::{DirBuilder, OpenOptions, rename};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes a directory for its owner alone, and those above it. One that is there stays as it is.
///
/// # Errors
/// One line.
pub(super) fn directory(path: &Path) -> Result<(), String> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
        format!("can't create {} ({error}): choose another directory with --out", path.display())
    })
}

/// Writes a file into a directory, in place of one that is there, all of it or nothing.
///
/// # Errors
/// One line.
pub(super) fn write(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), String> {
    let path = directory.join(name);
    let fresh = directory.join(format!(".{name}.{}", std::process::id()));
    let written = write_fresh(&fresh, bytes).and_then(|()| rename(&fresh, &path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&fresh);
        format!("can't write {} ({error}): choose another directory with --out", path.display())
    })
}

fn write_fresh(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // What a run with the same number left behind when it was killed.
    let _ = std::fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_for_their_owner_alone_and_replaced_whole() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("a/b");
        directory(&out).unwrap();
        directory(&out).unwrap();
        write(&out, "it", b"a longer text").unwrap();
        std::fs::set_permissions(out.join("it"), PermissionsExt::from_mode(0o644)).unwrap();
        write(&out, "it", b"text").unwrap();
        assert_eq!(std::fs::read(out.join("it")).unwrap(), b"text");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&out), mode(&out.join("it"))), (0o700, 0o600));
        assert_eq!(out.read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_cannot_be_is_one_line() {
        let error = directory(Path::new("/dev/null/x")).unwrap_err();
        assert!(error.contains("--out") && error.lines().count() == 1, "{error}");
        let error = write(Path::new("/no/such"), "it", b"").unwrap_err();
        assert!(error.contains("/no/such/it"), "{error}");
    }
}
