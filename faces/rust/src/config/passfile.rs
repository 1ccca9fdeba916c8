//! The password file, which `onetrip_postgres` matches.

use std::fs;
use std::path::Path;

pub(super) use onetrip_postgres::client::connect::passfile::password;

/// Reads the file. `Ok(None)` if there is none; `Err` has the note why it isn't used.
pub(super) fn read(path: &Path) -> Result<Option<String>, String> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(None) };
    let shown = path.display();
    if !metadata.is_file() {
        return Err(format!("the password file {shown} is not a plain file and was not used"));
    }
    if readable_by_others(&metadata) {
        return Err(format!(
            "the password file {shown} can be read by its group or by all and was not used: \
             chmod 600 it"
        ));
    }
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(_) => Err(format!("the password file {shown} can't be read and was not used")),
    }
}

#[cfg(unix)]
fn readable_by_others(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn readable_by_others(_: &fs::Metadata) -> bool {
    false
}
