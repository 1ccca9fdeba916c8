//! The operating-system user that servers run as. PostgreSQL refuses to run as root, so if this
//! process runs as root, servers run as an unprivileged user. Otherwise they run as the user of
//! this process.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::asked;
use super::error::LabError;

/// The user that owns the server's processes and files.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    uid: u32,
    gid: u32,
    /// Whether this process is root and the account is another user.
    dropped: bool,
}

impl Account {
    /// This user; for root the user `postgres` if there is one, else `nobody`. It is looked for once.
    pub(crate) fn current() -> Result<Self, LabError> {
        static FOUND: OnceLock<Account> = OnceLock::new();
        if let Some(account) = FOUND.get() {
            return Ok(account.clone());
        }
        let account = Self::look()?;
        Ok(FOUND.get_or_init(|| account).clone())
    }

    fn look() -> Result<Self, LabError> {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        if !uid.is_root() {
            return Ok(Self { uid: uid.as_raw(), gid: gid.as_raw(), dropped: false });
        }
        let unprivileged = ["postgres", "nobody"].iter().find_map(|name| {
            Some((id_of("-u", name).filter(|&uid| uid != 0)?, id_of("-g", name)?))
        });
        let (uid, gid) = unprivileged.ok_or_else(|| {
            LabError::new(
                "a server does not run as root, and there is no user `postgres` or `nobody` to \
                 run it as; add one, or start this as an ordinary user",
            )
        })?;
        let account = Self { uid, gid, dropped: true };
        match account.can_enter(Path::new("/")) {
            true => Ok(account),
            // A container or namespace with a single user.
            false => Err(LabError::new(format!(
                "a server does not run as root, and root may not become user {uid} here; start \
                 this as an ordinary user"
            ))),
        }
    }

    /// A command that runs as this account, in `/`, and with an environment that no setting of the
    /// caller's shell (`PGDATA`, `PGPORT`, a locale) can reach.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Self::own_command(program);
        if self.dropped {
            // `uid` makes std drop root's supplementary groups too.
            command.uid(self.uid).gid(self.gid);
        }
        command
    }

    /// The same as the user of this process: root can end and remove what the account can't.
    pub(crate) fn own_command(program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").env_clear().env("LC_ALL", "C").env("TZ", "UTC");
        for name in ["PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
    }

    /// Gives a file or directory that this process made to the account.
    pub(crate) fn own(&self, path: &Path) -> Result<(), LabError> {
        if !self.dropped {
            return Ok(());
        }
        chown(path, Some(self.uid), Some(self.gid))
            .map_err(|error| LabError::io("cannot change the owner of", path, error))
    }

    /// Whether the account may work in `directory`: every directory above it counts.
    pub(crate) fn can_enter(&self, directory: &Path) -> bool {
        !self.dropped || self.run_quietly(self.command("/bin/sh").args(["-c", ":"]), directory)
    }

    /// Whether the account may execute `program`.
    pub(crate) fn can_execute(&self, program: &Path) -> bool {
        let ask = || self.run_quietly(self.command(program).arg("--version"), Path::new("/"));
        !self.dropped || asked::can_execute(self.uid, program, ask)
    }

    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// A spawn fails when the account can't reach the directory or the program.
    fn run_quietly(&self, command: &mut Command, directory: &Path) -> bool {
        let quiet = command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null());
        quiet.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }
}

/// `id` knows every source of users that the system has, `/etc/passwd` being only one.
fn id_of(which: &str, name: &str) -> Option<u32> {
    let output: io::Result<_> = Command::new("id").args([which, name]).output();
    let output = output.ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
