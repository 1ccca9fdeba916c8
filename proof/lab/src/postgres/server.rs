//! One private server: its options, its life, and how to reach it.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::installation::{self, Installation};
use super::template::Template;
use crate::private::{
    Account, Base, LabError, PORT_ATTEMPTS, READY_POLL_MS, START_TIMEOUT, Signals, Supervisor,
    WorkDirectory, essence, free_port,
};

/// The superuser of every private server.
pub const USER: &str = "postgres";

/// Default of [`Options::connections_max`]: room for a test binary whose tests run in parallel.
pub const CONNECTIONS_MAX_DEFAULT: u16 = 200;

/// The signals of a fast and of an immediate shutdown. SIGKILL is sent only when asked for, because
/// it leaves the server's child processes behind for a while.
const SIGNALS_OF_POSTGRES: Signals = Signals { orderly: "INT", immediate: "QUIT" };

/// What a commit guarantees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing is flushed to disk. Survives everything but a crash of the machine: for tests.
    #[default]
    Fast,
    /// PostgreSQL's own defaults: for benchmarks, which have to include the real cost of a commit.
    Full,
}

/// How to stop a server while keeping its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Accepts no new sessions, and waits for the existing ones to end (SIGTERM).
    Smart,
    /// Ends all sessions, and rolls back their open transactions (SIGINT).
    Fast,
    /// Cuts all sessions and writes nothing: the next start recovers (SIGQUIT).
    Immediate,
    /// Kills the postmaster (SIGKILL). Its sessions end when they notice.
    Killed,
}

impl Shutdown {
    fn signal(self) -> &'static str {
        match self {
            Self::Smart => "TERM",
            Self::Fast => "INT",
            Self::Immediate => "QUIT",
            Self::Killed => "KILL",
        }
    }
}

/// How to start a server; `Options::default()` is right for tests.
#[derive(Clone, Debug)]
pub struct Options {
    /// The binaries to run. Default: the result of [`find`](super::find).
    pub installation: Option<Installation>,
    /// Default: [`Durability::Fast`].
    pub durability: Durability,
    /// PostgreSQL's `max_connections`. Default: [`CONNECTIONS_MAX_DEFAULT`].
    pub connections_max: u16,
    /// Further settings by name, as in `postgresql.conf`. They override all of the above.
    pub settings: Vec<(String, String)>,
    /// Further files by name, written to the data directory and readable by the server only:
    /// certificates and keys, or a `pg_hba.conf` that replaces the default one.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            installation: None,
            durability: Durability::default(),
            connections_max: CONNECTIONS_MAX_DEFAULT,
            settings: Vec::new(),
            files: Vec::new(),
        }
    }
}

impl Options {
    /// Adds one setting.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Adds one file.
    #[must_use]
    pub fn file(mut self, name: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.into(), content.into()));
        self
    }
}

/// A server that belongs to this process. It listens on 127.0.0.1 and on a Unix socket, asks for a
/// password (SCRAM) on both, and stops with its owner: on [`stop`](Self::stop), on drop, and when
/// this process ends in any way, even while the server is being started. Its directory is removed
/// too: at once by `stop` and drop. If this process ends without them, shells that watch it do so
/// within about a second. Only SIGKILL can stop those shells; the next start of any private server
/// removes what they leave.
pub struct PrivatePostgres {
    // Fields drop in this order: the server before its directory.
    supervisor: Option<Supervisor>,
    work: WorkDirectory,
    installation: Installation,
    account: Account,
    arguments: Vec<String>,
    port: u16,
    postmaster_pid: u32,
    password: String,
    names: AtomicU32,
}

impl PrivatePostgres {
    /// Starts a server and returns when it accepts connections: after 0.2 s on an idle machine,
    /// plus one or two seconds for the first of a version.
    ///
    /// # Errors
    /// One line that says what failed, where, and what to do: no binaries, a full disk, a missing
    /// permission, or what the server itself said.
    pub fn start(mut options: Options) -> Result<Self, LabError> {
        let installation = match options.installation.take() {
            Some(installation) => installation,
            None => installation::find()?,
        };
        Self::start_of(installation, options)
    }

    /// [`start`](Self::start), once the binaries are known.
    pub(super) fn start_of(installation: Installation, options: Options) -> Result<Self, LabError> {
        let arguments = arguments_of(&options, installation.major());
        let account = Account::current()?;
        let (installation, work, template) = prepare(installation, &account)?;
        for (name, content) in &options.files {
            work.write(name, content, &account)?;
        }
        let mut server = Self {
            supervisor: None,
            work,
            installation,
            account,
            arguments,
            port: 0,
            postmaster_pid: 0,
            password: template.password,
            names: AtomicU32::new(0),
        };
        let mut attempts_left = PORT_ATTEMPTS;
        loop {
            server.port = free_port()?;
            attempts_left -= 1;
            match server.launch() {
                Ok(()) => return Ok(server),
                Err(LaunchError::PortTaken) if attempts_left > 0 => {}
                Err(error) => return Err(error.explained(server.port)),
            }
        }
    }

    /// Stops the server in an orderly way and removes its directory. Returns when both are done.
    /// Open connections are closed by the server.
    ///
    /// # Errors
    /// When the server does not end, or its directory could not be removed.
    pub fn stop(mut self) -> Result<(), LabError> {
        let Some(supervisor) = self.supervisor.take() else { return Ok(()) };
        // A paused server would not look at the order.
        let _ = self.resume();
        let status =
            supervisor.stop().map_err(|error| LabError::new(format!("cannot stop: {error}")))?;
        match status.success() && !self.work.path().exists() {
            true => Ok(()),
            false => Err(LabError::new(format!(
                "the server in {} did not end as it should ({status})",
                self.work.path().display()
            ))),
        }
    }

    /// Ends the server as a crash would ([`Shutdown::Immediate`]) and returns when it is gone. Its
    /// data stays for [`start_again`](Self::start_again).
    ///
    /// # Errors
    /// When it is not running.
    pub fn stop_immediate(&mut self) -> Result<(), LabError> {
        self.shut_down(Shutdown::Immediate)
    }

    /// Shuts the server down in this mode, and returns when the last of its processes is gone. Its
    /// data stays for [`start_again`](Self::start_again). A shutdown that takes more than 20 s
    /// becomes an immediate one.
    ///
    /// # Errors
    /// When it is not running, or its processes do not end.
    pub fn shut_down(&mut self, how: Shutdown) -> Result<(), LabError> {
        let Some(supervisor) = self.supervisor.take() else {
            return Err(LabError::new("the server is not running; start it again"));
        };
        if let Err(error) = self.work.guard() {
            self.supervisor = Some(supervisor);
            return Err(error);
        }
        if how != Shutdown::Killed {
            // A paused server would not look at the order.
            let _ = self.resume();
        }
        supervisor
            .stop_by(how.signal(), START_TIMEOUT.as_millis() as u32)
            .map_err(|error| LabError::new(format!("cannot stop the server: {error}")))
    }

    /// Kills (SIGKILL) the process of one session, given the number from `pg_backend_pid()`. The
    /// server then ends all other sessions and recovers by itself.
    ///
    /// # Errors
    /// When there is no such process of this server.
    pub fn kill_backend(&self, pid: u32) -> Result<(), LabError> {
        match parent_of(pid) == Some(self.postmaster_pid) && signal(pid, Signal::KILL) {
            true => Ok(()),
            false => Err(LabError::new(format!("the server has no process {pid}"))),
        }
    }

    /// Starts the server again after [`shut_down`](Self::shut_down): same port, same password, same
    /// data after recovery.
    ///
    /// # Errors
    /// As [`start`](Self::start); also when it is running, and when another process took its port.
    pub fn start_again(&mut self) -> Result<(), LabError> {
        if self.supervisor.is_some() {
            return Err(LabError::new("the server is running; stop it first"));
        }
        self.launch().map_err(|error| error.explained(self.port))
    }

    /// `postgres://user:password@127.0.0.1:port/postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        self.database_url("postgres")
    }

    /// The URL of one database. This does not create the database.
    #[must_use]
    pub fn database_url(&self, database: &str) -> String {
        format!("postgres://{USER}:{}@127.0.0.1:{}/{database}", self.password, self.port)
    }

    /// A name for a database, role or table that this server has not handed out before: tests that
    /// share a server call it to stay out of one another's way.
    #[must_use]
    pub fn new_name(&self) -> String {
        format!("test_{}", self.names.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The directory of the Unix socket, as libpq's `host` wants it. Under 100 bytes with the
    /// socket's own name.
    #[must_use]
    pub fn socket_dir(&self) -> &Path {
        self.work.path()
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The superuser's name.
    #[must_use]
    pub fn user(&self) -> &str {
        USER
    }

    /// The superuser's password: random, and the same for servers of one template.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }

    /// The server's version, like `17.4`.
    #[must_use]
    pub fn version(&self) -> &str {
        self.installation.version()
    }

    /// The major version, like 17.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.installation.major()
    }

    /// The binaries that it runs.
    pub(super) fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The process id of the postmaster.
    #[must_use]
    pub fn postmaster_pid(&self) -> u32 {
        self.postmaster_pid
    }

    /// Everything that the server wrote to its log.
    #[must_use]
    pub fn log(&self) -> String {
        self.work.log_text()
    }

    fn launch(&mut self) -> Result<(), LaunchError> {
        let said_before = self.work.log_text().len();
        let mut shell = self.account.command("/bin/sh");
        shell.stderr(self.work.log()?);
        let server = self.installation.bin().join("postgres");
        let mut arguments = self.arguments.clone();
        arguments.extend(["-D".into(), self.work.data().display().to_string()]);
        arguments.extend(["-p".into(), self.port.to_string()]);
        arguments.extend(["-k".into(), self.work.path().display().to_string()]);
        let directory = self.work.path();
        let supervisor =
            Supervisor::start(shell, directory, &server, &arguments, &SIGNALS_OF_POSTGRES)
                .map_err(|error| LabError::io("cannot start", &server, error))?;
        self.work.unguard();
        match self.wait_until_ready(&supervisor) {
            Ok(pid) => {
                self.postmaster_pid = pid;
                self.supervisor = Some(supervisor);
                Ok(())
            }
            Err(why) => {
                let log = self.work.log_text();
                let said = log.get(said_before..).unwrap_or_default();
                self.work.guard()?;
                // Keeps the directory: the next attempt needs it.
                let _ = supervisor.stop_by(Shutdown::Immediate.signal(), 0);
                if said.contains("Address already in use") {
                    return Err(LaunchError::PortTaken);
                }
                let message = format!("{} {why}: {}", server.display(), essence(said));
                Err(LaunchError::Other(LabError::new(message)))
            }
        }
    }

    /// The process id of the postmaster, once it accepts connections.
    fn wait_until_ready(&self, supervisor: &Supervisor) -> Result<u32, String> {
        let path = self.work.data().join("postmaster.pid");
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            if supervisor.has_ended_within(READY_POLL_MS) {
                return Err("did not start".into());
            }
            let found = fs::read_to_string(&path).ok().and_then(|text| ready_pid(&text));
            // A killed postmaster leaves its file, so the previous process id does not count.
            if let Some(pid) = found.filter(|&pid| pid != self.postmaster_pid) {
                return Ok(pid);
            }
        }
        Err(format!("was not ready after {} s", START_TIMEOUT.as_secs()))
    }
}

impl Drop for PrivatePostgres {
    /// The supervisor, which drops next, gives the order to end.
    fn drop(&mut self) {
        if self.supervisor.is_some() {
            let _ = self.resume();
        }
    }
}

impl fmt::Debug for PrivatePostgres {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivatePostgres")
            .field("version", &self.version())
            .field("port", &self.port)
            .field("directory", &self.work.path())
            .field("running", &self.supervisor.is_some())
            .finish_non_exhaustive()
    }
}

/// One server for the whole process, started with the default options by the first call. It stops
/// when the process ends.
///
/// # Panics
/// When it can't be started.
pub fn shared() -> &'static PrivatePostgres {
    static SHARED: OnceLock<PrivatePostgres> = OnceLock::new();
    SHARED.get_or_init(|| match PrivatePostgres::start(Options::default()) {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    })
}

enum LaunchError {
    PortTaken,
    Other(LabError),
}

impl LaunchError {
    fn explained(self, port: u16) -> LabError {
        match self {
            Self::Other(error) => error,
            Self::PortTaken => LabError::new(format!(
                "another process took port {port} of 127.0.0.1; start a new server instead"
            )),
        }
    }
}

impl From<LabError> for LaunchError {
    fn from(error: LabError) -> Self {
        Self::Other(error)
    }
}

/// Does everything that comes before the start, up to a complete data directory.
fn prepare(
    installation: Installation,
    account: &Account,
) -> Result<(Installation, WorkDirectory, Template), LabError> {
    let base = Base::open(account)?;
    let lock = base.lock()?;
    base.sweep(&lock);
    let installation = base.reachable(installation, &lock)?;
    let template = base.template(&installation, &lock)?;
    let work = base.work_directory(&lock)?;
    lock.share()?;
    work.copy(&template, account)?;
    Ok((installation, work, template))
}

fn arguments_of(options: &Options, major: u32) -> Vec<String> {
    let mut settings = vec![
        ("listen_addresses", "127.0.0.1".to_owned()),
        ("max_connections", options.connections_max.to_string()),
        ("unix_socket_permissions", "0700".into()),
        ("logging_collector", "off".into()),
        ("log_destination", "stderr".into()),
        ("timezone", "UTC".into()),
        ("log_timezone", "UTC".into()),
    ];
    if options.durability == Durability::Fast {
        settings.extend(["fsync", "full_page_writes"].map(|name| (name, "off".to_owned())));
        settings.push(super::standby::kept_wal(major));
    }
    let given = options.settings.iter().map(|(name, value)| (name.as_str(), value.clone()));
    let arguments = settings.into_iter().chain(given);
    arguments.flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")]).collect()
}

/// `postmaster.pid`: the process id is line 1, and line 8 says `ready` as soon as connections are
/// accepted (PostgreSQL's `miscadmin.h`, `LOCK_FILE_LINE_*`).
fn ready_pid(text: &str) -> Option<u32> {
    let mut lines = text.lines();
    let pid = lines.next()?.trim().parse().ok()?;
    (lines.nth(6)?.trim() == "ready").then_some(pid)
}

/// The parent of a process on Linux: the second word after the name, which ends with the last
/// parenthesis (proc(5)).
pub(super) fn parent_of(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Sends a signal; false if there is no such process.
pub(super) fn signal(pid: u32, signal: Signal) -> bool {
    let target = pid.try_into().ok().and_then(Pid::from_raw);
    target.is_some_and(|target| kill_process(target, signal).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_of_this_process_is_known() {
        assert_eq!(parent_of(std::process::id()), Some(std::os::unix::process::parent_id()));
    }

    #[test]
    fn readiness_is_the_eighth_line() {
        let starting = "42\n/data\n1700000000\n5432\n/tmp\n127.0.0.1\n 1 2\nstarting\n";
        assert_eq!(ready_pid(starting), None);
        assert_eq!(ready_pid(&starting.replace("starting", "ready   ")), Some(42));
        assert_eq!(ready_pid("42\n/data\n"), None);
    }

    #[test]
    fn a_setting_of_the_caller_comes_last_and_wins() {
        let options = Options::default().setting("fsync", "on");
        assert_eq!(arguments_of(&options, 15).last().map(String::as_str), Some("fsync=on"));
    }
}
