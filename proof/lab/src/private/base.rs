//! The directories: one per user under the system's temporary directory, which holds
//!
//! - `template-*`: a data directory fresh from initdb, made once per version and copied per server;
//! - `binaries-*`: copies of binaries that the server's account can't reach where they are;
//! - `pg-*`: one working directory per server, removed with it.
//!
//! Each `pg-*` has a `log` that stays locked (flock) while anything of its server lives: the kernel
//! releases the lock with the last process that inherited the file. So a directory left behind by a
//! power cut, or by a SIGKILL of all processes, can be told from one in use, and the next start
//! removes it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::account::Account;
use super::error::LabError;
use super::guard::Guard;

/// A Unix socket's path may have 107 bytes on Linux and 103 elsewhere; `/pg-123456/.s.PGSQL.65535`
/// comes after the base directory.
const BASE_BYTES_MAX: usize = 74;

/// Cleaners of temporary directories remove files unused for ten days, one by one. Templates are
/// made anew before a cleaner can have removed a part of one.
const KEPT_AGE_MAX: Duration = Duration::from_secs(5 * 24 * 60 * 60);

const WORK_PREFIX: &str = "pg-";
pub(crate) const TEMPLATE_PREFIX: &str = "template-";
const BINARIES_PREFIX: &str = "binaries-";

/// The per-user directory.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) path: PathBuf,
    pub(crate) account: Account,
}

/// Held while templates and working directories come and go; the kernel releases it with us.
#[derive(Debug)]
pub(crate) struct BaseLock(File);

/// The directory of one server; removed on drop, or by its guard when this process dies before.
#[derive(Debug)]
pub(crate) struct WorkDirectory {
    path: PathBuf,
    log: File,
    /// `None` while a supervisor is responsible for the directory.
    guard: Option<Guard>,
}

impl Base {
    /// Opens it in the temporary directory. If that path is too long for a socket, or the account
    /// can't enter it, opens it in `/tmp`.
    pub(crate) fn open(account: &Account) -> Result<Self, LabError> {
        let preferred = std::env::temp_dir();
        let preferred = preferred.canonicalize().map_err(|error| {
            LabError::io("cannot use TMPDIR, the temporary directory", &preferred, error)
        })?;
        for parent in [preferred.as_path(), Path::new("/tmp")] {
            let path = parent.join(format!("onetrip-lab-{}", account.uid()));
            if path.as_os_str().len() > BASE_BYTES_MAX || !account.can_enter(parent) {
                continue;
            }
            make_private(&path, account)?;
            return Ok(Self { path, account: account.clone() });
        }
        Err(LabError::new(format!(
            "user {} has no place for a server: neither {} nor /tmp is both open to it and at most \
             {BASE_BYTES_MAX} bytes long; set TMPDIR to another directory",
            account.uid(),
            preferred.display(),
        )))
    }

    /// Waits until no other process makes or removes anything here.
    pub(crate) fn lock(&self) -> Result<BaseLock, LabError> {
        let file = File::open(&self.path)
            .map_err(|error| LabError::io("cannot open", &self.path, error))?;
        let lock = BaseLock(file);
        lock.flock(FlockOperation::LockExclusive)?;
        Ok(lock)
    }

    /// Removes the directories of servers that ended without cleaning up, and templates that are
    /// too old to be trusted. What can't be removed stays until the next time.
    pub(crate) fn sweep(&self, _lock: &BaseLock) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        for entry in entries.flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            let is_kept = [TEMPLATE_PREFIX, BINARIES_PREFIX].iter().any(|it| name.starts_with(it));
            let is_waste = match name.starts_with(WORK_PREFIX) {
                true => !is_in_use(&path),
                false => is_kept && !is_younger(&path, KEPT_AGE_MAX),
            };
            if is_waste {
                let _ = fs::remove_dir_all(path);
            }
        }
    }

    /// A new, empty working directory with its guard and its locked log.
    pub(crate) fn work_directory(&self, _lock: &BaseLock) -> Result<WorkDirectory, LabError> {
        let path = self.unused_path()?;
        // Started before the directory exists, so that the directory is never without a guard.
        let guard = guard_of(&path)?;
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| LabError::io("cannot create", &path, error))?;
        let log_path = path.join("log");
        let log = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&log_path);
        let log = log.map_err(|error| LabError::io("cannot create", &log_path, error))?;
        flock(&log, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| LabError::io("cannot lock", &log_path, error.into()))?;
        self.account.own(&log_path)?;
        self.account.own(&path)?;
        Ok(WorkDirectory { path, log, guard: Some(guard) })
    }

    /// A name that stays unused while the lock is held: a process takes the lock before it uses a
    /// name.
    fn unused_path(&self) -> Result<PathBuf, LabError> {
        loop {
            let path = self.path.join(format!("{WORK_PREFIX}{}", &random_digits()?[..6]));
            if !path.exists() {
                return Ok(path);
            }
        }
    }

    /// `program`, or a copy of it when the account can't execute it where it is (binaries under
    /// `/root`, say). The copy includes its `bin` directory and the directories beside that.
    pub(crate) fn reachable_program(
        &self,
        program: &Path,
        version: &str,
        lock: &BaseLock,
    ) -> Result<PathBuf, LabError> {
        if self.account.can_execute(program) {
            return Ok(program.to_path_buf());
        }
        let open = |error| LabError::io("cannot open", program, error);
        let real = program.canonicalize().map_err(open)?;
        let (Some(prefix), Some(file_name)) = (real.ancestors().nth(2), real.file_name()) else {
            return Err(LabError::new(format!("{} is in no bin directory", real.display())));
        };
        let bin_name = real.parent().and_then(Path::file_name).unwrap_or_default();
        let name = self.name_of(program, version, &[])?;
        let copy = self.path.join(format!("{BINARIES_PREFIX}{name}"));
        if !copy.exists() {
            let work = self.work_directory(lock)?;
            let target = work.path().join("binaries");
            // As root: the account can't read the source.
            let mut cp = Account::own_command("cp");
            work.run(cp.arg("-RP").arg(prefix).arg(&target), "cp")?;
            let mut chmod = Account::own_command("chmod");
            work.run(chmod.args(["-R", "a+rX"]).arg(&target), "chmod")?;
            rename(&target, &copy)?;
        }
        let copied = copy.join(bin_name).join(file_name);
        if self.account.can_execute(&copied) {
            return Ok(copied);
        }
        Err(LabError::new(format!(
            "user {} can run neither {} nor its copy in {}; install it where every user can reach \
             it",
            self.account.uid(),
            program.display(),
            copy.display()
        )))
    }

    /// A name for a program and all else that its output depends on. The file's size and time are
    /// part of it, so that an upgrade in place changes the name.
    pub(crate) fn name_of(
        &self,
        program: &Path,
        version: &str,
        options: &[&str],
    ) -> Result<String, LabError> {
        let file =
            fs::metadata(program).map_err(|error| LabError::io("cannot open", program, error))?;
        let mut hasher = DefaultHasher::new();
        (program, file.len(), file.mtime(), options).hash(&mut hasher);
        Ok(format!("{version}-{:016x}", hasher.finish()))
    }
}

impl BaseLock {
    /// Makes the lock shared: other processes may copy templates too, but still not replace them.
    pub(crate) fn share(&self) -> Result<(), LabError> {
        self.flock(FlockOperation::LockShared)
    }

    fn flock(&self, operation: FlockOperation) -> Result<(), LabError> {
        rustix::io::retry_on_intr(|| flock(&self.0, operation)).map_err(|error| {
            LabError::new(format!("cannot lock the directory of private servers: {error}"))
        })
    }
}

impl WorkDirectory {
    /// Makes an empty data directory, for a server that copies no template.
    pub(crate) fn make_data(&self, account: &Account) -> Result<(), LabError> {
        make_private(&self.data(), account)
    }

    /// Runs a command that works in here, and that ends with this process.
    pub(crate) fn run(&self, command: &mut Command, what: &str) -> Result<(), LabError> {
        if let Some(guard) = &self.guard {
            guard.watch(command);
        }
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|error| LabError::new(format!("cannot run {what}: {error}")))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(LabError::program(&format!("{what} failed"), &output)),
        }
    }

    /// Starts a guard. Call it before the supervisor gives the directory up.
    pub(crate) fn guard(&mut self) -> Result<(), LabError> {
        if self.guard.is_none() {
            self.guard = Some(guard_of(&self.path)?);
        }
        Ok(())
    }

    /// Ends the guard. Call it when a supervisor has taken over.
    pub(crate) fn unguard(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.leave();
        }
    }

    /// Writes a file into the data directory, over the one of that name if there is one.
    pub(crate) fn write(
        &self,
        name: &str,
        content: &[u8],
        account: &Account,
    ) -> Result<(), LabError> {
        let path = self.data().join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(LabError::io("cannot replace", &path, error));
            }
            _ => {}
        }
        write_private(&path, content)?;
        account.own(&path)
    }

    /// Writes a new file beside the data directory.
    pub(crate) fn write_beside(
        &self,
        name: &str,
        content: &[u8],
        account: &Account,
    ) -> Result<(), LabError> {
        let path = self.path.join(name);
        write_private(&path, content)?;
        account.own(&path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// For the server to write to, and to hold the lock with.
    pub(crate) fn log(&self) -> Result<File, LabError> {
        let path = self.path().join("log");
        self.log.try_clone().map_err(|error| LabError::io("cannot open again", &path, error))
    }

    /// The server's log so far.
    pub(crate) fn log_text(&self) -> String {
        let text = fs::read(self.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for WorkDirectory {
    /// The guard removes the directory, or the supervisor has removed it. This is for the case that
    /// they were killed.
    fn drop(&mut self) {
        drop(self.guard.take());
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn guard_of(path: &Path) -> Result<Guard, LabError> {
    Guard::start(Account::own_command("/bin/sh"), path)
        .map_err(|error| LabError::io("cannot start a guard for", path, error))
}

/// Makes a directory for this account alone, because it holds passwords. A directory of that name
/// that belongs to another user, or is open to others, is refused.
pub(crate) fn make_private(path: &Path, account: &Account) -> Result<(), LabError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => account.own(path)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(LabError::io("cannot create", path, error)),
    }
    let found =
        fs::symlink_metadata(path).map_err(|error| LabError::io("cannot open", path, error))?;
    if found.is_dir() && found.uid() == account.uid() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(LabError::new(format!(
        "{} is not a directory that user {} alone may use; remove it, or set TMPDIR to another \
         directory",
        path.display(),
        account.uid()
    )))
}

pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<(), LabError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options.open(path).and_then(|mut file| io::Write::write_all(&mut file, content));
    written.map_err(|error| LabError::io("cannot write", path, error))
}

pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), LabError> {
    fs::rename(from, to).map_err(|error| LabError::io("cannot create", to, error))
}

fn is_in_use(work: &Path) -> bool {
    let Ok(log) = File::open(work.join("log")) else { return false };
    flock(&log, FlockOperation::NonBlockingLockExclusive).is_err()
}

fn is_younger(path: &Path, age: Duration) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| modified.elapsed().unwrap_or_default() < age)
}

/// 128 random bits as hexadecimal digits, which need no escaping in a URL.
pub(crate) fn random_digits() -> Result<String, LabError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| LabError::new(format!("the system gives no random bytes: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
