//! One private PgBouncer: its life, and how to reach it.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use super::super::server::{PrivatePostgres, USER};
use super::config::{self, Options, Place, Upstream};
use super::program::{self, Program};
use crate::private::{
    Account, Base, LabError, PORT_ATTEMPTS, READY_POLL_MS, START_TIMEOUT, Supervisor,
    WorkDirectory, essence, free_port,
};

const CONFIGURATION: &str = "pgbouncer.ini";
const USERS: &str = "users.txt";

/// A PgBouncer that belongs to this process, in front of a server of this process. Like
/// [`PrivatePostgres`] it stops with its owner and leaves nothing behind; connections through it
/// are cut then. It does not keep the server alive: if the server ends first, the pooler answers
/// with errors.
pub struct PrivatePgBouncer {
    // Fields drop in this order: the pooler before its directory.
    supervisor: Option<Supervisor>,
    work: WorkDirectory,
    program: Program,
    port: u16,
    password: String,
}

impl PrivatePgBouncer {
    /// Starts a pooler and returns when it accepts connections. It connects to the server when the
    /// first client needs it.
    ///
    /// # Errors
    /// One line that says what failed, where, and what to do: no program, a missing permission, or
    /// what the pooler itself said.
    pub fn start(server: &PrivatePostgres, options: &Options) -> Result<Self, LabError> {
        Self::start_before(&server.into(), options)
    }

    /// The same in front of a server of the lab that is reached by a port of 127.0.0.1, such as a
    /// [`Node`](crate::postgres::patroni::Node) of a cluster, whose superuser has this password.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_at(port: u16, password: &str, options: &Options) -> Result<Self, LabError> {
        Self::start_before(&Upstream::local(port, password), options)
    }

    fn start_before(server: &Upstream, options: &Options) -> Result<Self, LabError> {
        let program = match &options.program {
            Some(program) => program.clone(),
            None => program::find()?,
        };
        let account = Account::current()?;
        for _ in 0..PORT_ATTEMPTS {
            let mut pooler = Self::prepare(server, options, program.clone(), &account)?;
            if pooler.launch(&account)? {
                return Ok(pooler);
            }
        }
        Err(LabError::new("other processes took every port of 127.0.0.1 that was tried"))
    }

    /// A directory with all that the pooler reads, and a port.
    fn prepare(
        server: &Upstream,
        options: &Options,
        program: Program,
        account: &Account,
    ) -> Result<Self, LabError> {
        let base = Base::open(account)?;
        let lock = base.lock()?;
        base.sweep(&lock);
        let path = base.reachable_program(program.path(), program.version(), &lock)?;
        let program = program.moved_to(path);
        let work = base.work_directory(&lock)?;
        work.make_data(account)?;
        let port = free_port()?;
        let users = work.data().join(USERS);
        let place = Place { socket_dir: work.path(), port, users: &users };
        let ini = config::ini(server, options, &program, &place);
        work.write(CONFIGURATION, ini.as_bytes(), account)?;
        work.write(USERS, config::users(server, options).as_bytes(), account)?;
        let password = server.password.clone();
        Ok(Self { supervisor: None, work, program, port, password })
    }

    /// Starts the pooler. Returns false if another process has the port.
    fn launch(&mut self, account: &Account) -> Result<bool, LabError> {
        let mut shell = account.command("/bin/sh");
        shell.stderr(self.work.log()?);
        let arguments = [self.work.data().join(CONFIGURATION).display().to_string()];
        let (path, signals) = (self.program.path(), self.program.signals());
        let supervisor = Supervisor::start(shell, self.work.path(), path, &arguments, &signals)
            .map_err(|error| LabError::io("cannot start", path, error))?;
        self.work.unguard();
        let supervisor = self.supervisor.insert(supervisor);
        let deadline = Instant::now() + START_TIMEOUT;
        let mut why = format!("was not ready after {} s", START_TIMEOUT.as_secs());
        while Instant::now() < deadline {
            if supervisor.has_ended_within(READY_POLL_MS) {
                why = "did not start".into();
                break;
            }
            if let Some(has_port) = has_port(&self.work.log_text(), self.port) {
                return Ok(has_port);
            }
        }
        let said = essence(&self.work.log_text());
        Err(LabError::new(format!("{} {why}: {said}", self.program.path().display())))
    }

    /// Stops the pooler, which cuts the connections through it, and removes its directory. Returns
    /// when both are done.
    ///
    /// # Errors
    /// When the pooler does not end, or its directory could not be removed.
    pub fn stop(mut self) -> Result<(), LabError> {
        let Some(supervisor) = self.supervisor.take() else { return Ok(()) };
        let status =
            supervisor.stop().map_err(|error| LabError::new(format!("cannot stop: {error}")))?;
        match status.success() && !self.work.path().exists() {
            true => Ok(()),
            false => Err(LabError::new(format!(
                "the pooler in {} did not end as it should ({status})",
                self.work.path().display()
            ))),
        }
    }

    /// `postgres://user:password@127.0.0.1:port/postgres`, for the server's superuser.
    #[must_use]
    pub fn url(&self) -> String {
        self.database_url("postgres")
    }

    /// The URL of one database. The database `pgbouncer` is the pooler's own console.
    #[must_use]
    pub fn database_url(&self, database: &str) -> String {
        format!("postgres://{USER}:{}@127.0.0.1:{}/{database}", self.password, self.port)
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of the Unix socket, as libpq's `host` wants it.
    #[must_use]
    pub fn socket_dir(&self) -> &Path {
        self.work.path()
    }

    /// Like `1.18.0`.
    #[must_use]
    pub fn version(&self) -> &str {
        self.program.version()
    }

    /// Whether this version tracks prepared statements in transaction mode.
    #[must_use]
    pub fn knows_prepared_statements(&self) -> bool {
        self.program.knows_prepared_statements()
    }

    /// Everything that the pooler wrote to its log.
    #[must_use]
    pub fn log(&self) -> String {
        self.work.log_text()
    }
}

impl fmt::Debug for PrivatePgBouncer {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivatePgBouncer")
            .field("version", &self.version())
            .field("port", &self.port)
            .field("directory", &self.work.path())
            .finish_non_exhaustive()
    }
}

/// Whether the pooler listens on this port; `None` until its log says that it is up. If it can't
/// bind the port, it goes on with the Unix socket alone.
fn has_port(log: &str, port: u16) -> Option<bool> {
    let listens = format!("listening on 127.0.0.1:{port}");
    let is_up = log.contains("process up: ");
    is_up.then(|| log.lines().any(|line| line.trim_end().ends_with(&listens)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pooler_that_is_up_without_its_port_is_noticed() {
        let log = "LOG listening on 127.0.0.1:6432\nLOG listening on unix:/x/.s.PGSQL.6432\n";
        assert_eq!(has_port(log, 6432), None);
        let log = format!("{log}LOG process up: PgBouncer 1.18.0\n");
        assert_eq!(has_port(&log, 6432), Some(true));
        assert_eq!(has_port(&log, 432), Some(false));
    }
}
