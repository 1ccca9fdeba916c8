//! Data directories fresh from initdb: made once per version, and copied for each server.

use std::fs;
use std::path::{Path, PathBuf};

use super::installation::Installation;
use super::server::USER;
use crate::private::{
    Account, Base, BaseLock, LabError, TEMPLATE_PREFIX, WorkDirectory, make_private, random_digits,
    rename, write_private,
};

/// A data directory to copy, and the password that its superuser has.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) data: PathBuf,
    pub(super) password: String,
}

impl Base {
    /// `installation`, or a copy of it when the account can't execute it where it is (binaries
    /// under `/root`, say). PostgreSQL finds its libraries relative to its binaries.
    pub(super) fn reachable(
        &self,
        installation: Installation,
        lock: &BaseLock,
    ) -> Result<Installation, LabError> {
        let postgres = installation.bin().join("postgres");
        let postgres = self.reachable_program(&postgres, installation.version(), lock)?;
        let bin = postgres.parent().unwrap_or(installation.bin()).to_path_buf();
        Ok(installation.moved_to(bin))
    }

    /// The template for this installation. Creates it if there is none.
    pub(super) fn template(
        &self,
        installation: &Installation,
        lock: &BaseLock,
    ) -> Result<Template, LabError> {
        let postgres = installation.bin().join("postgres");
        let made = [&INITDB_OPTIONS[..], &["sparse"]].concat();
        let name = self.name_of(&postgres, installation.version(), &made)?;
        let name = format!("{TEMPLATE_PREFIX}{name}");
        let path = self.path.join(name);
        if !path.exists() {
            let work = self.work_directory(lock)?;
            rename(&self.make_template(installation, &work)?, &path)?;
        }
        let password_path = path.join("password");
        let password = fs::read_to_string(&password_path)
            .map_err(|error| LabError::io("cannot read", &password_path, error))?;
        Ok(Template { data: path.join("data"), password })
    }

    fn make_template(
        &self,
        installation: &Installation,
        work: &WorkDirectory,
    ) -> Result<PathBuf, LabError> {
        let path = work.path().join("template");
        make_private(&path, &self.account)?;
        let password_path = path.join("password");
        write_private(&password_path, random_digits()?.as_bytes())?;
        self.account.own(&password_path)?;
        // glibc and musl know C.UTF-8, some others do not; C sorts the same way.
        let first = self.initdb(installation, work, &path, "C.UTF-8");
        match first {
            Err(error) if error.to_string().contains("invalid locale name") => {
                self.initdb(installation, work, &path, "C")?;
            }
            other => other?,
        }
        make_sparse(&path.join("data/pg_wal"))?;
        Ok(path)
    }

    fn initdb(
        &self,
        installation: &Installation,
        work: &WorkDirectory,
        template: &Path,
        locale: &str,
    ) -> Result<(), LabError> {
        let initdb = installation.bin().join("initdb");
        let mut command = self.account.command(&initdb);
        command.args(INITDB_OPTIONS).arg(format!("--locale={locale}")).arg("--pwfile");
        command.arg(template.join("password")).arg("-D").arg(template.join("data"));
        let place = work.path().display();
        work.run(&mut command, &format!("{} in {place}", initdb.display()))
    }
}

impl WorkDirectory {
    /// Fills the data directory. The account runs the copy, so that it owns all files.
    pub(super) fn copy(&self, template: &Template, account: &Account) -> Result<(), LabError> {
        let mut command = account.command("cp");
        command.arg("-Rp").arg(&template.data).arg(self.data());
        self.run(&mut command, &format!("cp to {}", self.path().display()))
    }
}

/// Frees the zeros at the end of each file here: nearly half of a new data directory are those of a
/// log that nothing was written to, and each server has a copy.
fn make_sparse(directory: &Path) -> Result<(), LabError> {
    let wrong = |error| LabError::io("cannot make files sparse in", directory, error);
    for entry in fs::read_dir(directory).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if !path.is_file() {
            continue;
        }
        let bytes = fs::read(&path).map_err(wrong)?;
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let file = fs::OpenOptions::new().write(true).open(&path).map_err(wrong)?;
        file.set_len(used as u64).map_err(wrong)?;
        file.set_len(bytes.len() as u64).map_err(wrong)?;
    }
    Ok(())
}

/// SCRAM for the socket as well as for TCP: a client's tests want to see it on both.
const INITDB_OPTIONS: [&str; 5] = [
    "--username",
    USER,
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    // A template holds no one's data, so a crash that damages it does not justify an fsync.
    "--no-sync",
];
