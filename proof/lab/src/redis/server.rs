//! One private server: its life, and how to reach it.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Instant;

use onetrip_redis::Command;

use super::installation::Installation;
use super::plain::Plain;
use super::settings::{AUTHORITY, CERTIFICATE, KEY, Place, Settings, configuration};
use crate::private::{
    Account, Base, LabError, PORT_ATTEMPTS, READY_POLL_MS, START_TIMEOUT, Signals, Supervisor,
    WorkDirectory, essence, free_port, random_digits,
};

const CONFIGURATION: &str = "redis.conf";
const SOCKET: &str = "redis.sock";

/// SIGTERM ends it in an orderly way. SIGKILL is safe, because by default there is no data to keep.
const SIGNALS_OF_REDIS: Signals = Signals { orderly: "TERM", immediate: "KILL" };

/// The distance of the cluster bus' port from that of the clients (`CLUSTER_PORT_INCR` in
/// cluster.h).
const BUS_PORT_OFFSET: u16 = 10_000;

/// A server that belongs to this process. It stops with its owner: on [`stop`](Self::stop), on
/// drop, and when the process dies. Its directory goes with it.
pub struct Server {
    // Fields drop in this order: the server before its directory.
    supervisor: Option<Supervisor>,
    work: WorkDirectory,
    installation: Installation,
    account: Account,
    settings: Settings,
    password: String,
    port: u16,
    pid: u32,
}

impl Server {
    /// Starts a server and returns when it answers: after 0.1 s on an idle machine.
    ///
    /// # Errors
    /// One line that says what failed, where, and what to do: no program, a missing permission, or
    /// what the server itself said. A start is given up after 60 s.
    pub fn start(settings: Settings) -> Result<Self, LabError> {
        let password = if settings.password { random_digits()? } else { String::new() };
        Self::start_with(settings, password)
    }

    /// The same, with a given password, which several servers may share; empty for none.
    pub(super) fn start_with(settings: Settings, password: String) -> Result<Self, LabError> {
        let installation = match &settings.installation {
            Some(installation) => installation.clone(),
            None => Installation::find()?,
        };
        let account = Account::current()?;
        let (installation, work) = prepare(installation, &account)?;
        let (port, pid) = (0, 0);
        let mut server =
            Self { supervisor: None, work, installation, account, settings, password, port, pid };
        server.write_certificates()?;
        let mut attempts_left = PORT_ATTEMPTS;
        loop {
            server.port = server.choose_port()?;
            attempts_left -= 1;
            match server.launch()? {
                true => return Ok(server),
                false if attempts_left > 0 => {}
                false => return Err(server.port_taken()),
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

    /// Kills the server (SIGKILL) and returns when it is gone. It can be started again with
    /// [`restart`](Self::restart).
    ///
    /// # Errors
    /// When it is not running.
    pub fn kill(&mut self) -> Result<(), LabError> {
        self.end(SIGNALS_OF_REDIS.immediate)
    }

    /// Starts the server again, after stopping it in an orderly way if it is running: same port,
    /// same password, and no data.
    ///
    /// # Errors
    /// As [`start`](Self::start); also when another process took its port.
    pub fn restart(&mut self) -> Result<(), LabError> {
        if self.supervisor.is_some() {
            self.end(SIGNALS_OF_REDIS.orderly)?;
        }
        // An outgoing connection of another process may have the port for a moment.
        for _ in 0..PORT_ATTEMPTS {
            if self.launch()? {
                return Ok(());
            }
        }
        Err(self.port_taken())
    }

    /// `redis://:password@127.0.0.1:port/0`; `rediss:` with TLS, and `unix::password@/path` without
    /// a port.
    #[must_use]
    pub fn url(&self) -> String {
        let login = if self.password.is_empty() { "" } else { &format!(":{}@", self.password) };
        match (self.settings.unix_only, &self.settings.tls) {
            (true, _) => format!("unix:{login}{}", self.socket().display()),
            (false, None) => format!("redis://{login}127.0.0.1:{}/0", self.port),
            (false, Some(_)) => format!("rediss://{login}127.0.0.1:{}/0", self.port),
        }
    }

    /// The port on 127.0.0.1; 0 if it listens only on its Unix socket.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The Unix socket, which every server has.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.work.path().join(SOCKET)
    }

    /// The password of the user `default`; empty if it has none.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Like `7.0.15`.
    #[must_use]
    pub fn version(&self) -> &str {
        self.installation.version()
    }

    /// The program that runs.
    #[must_use]
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The process id of the server.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it was started and neither stopped nor killed since.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.supervisor.is_some()
    }

    /// Everything that the server wrote to its log.
    #[must_use]
    pub fn log(&self) -> String {
        self.work.log_text()
    }

    /// A plain connection over the Unix socket that has logged in.
    ///
    /// # Errors
    /// When it can't be reached, and when it refuses the login.
    pub fn plain(&self) -> Result<Plain, LabError> {
        self.log_in().map_err(|error| LabError::io("cannot ask", &self.socket(), error))
    }

    fn log_in(&self) -> io::Result<Plain> {
        let mut plain = Plain::unix(&self.socket())?;
        if !self.password.is_empty() {
            plain.tell(&Command::new("AUTH").arg(&self.password))?;
        }
        Ok(plain)
    }

    fn end(&mut self, signal: &str) -> Result<(), LabError> {
        let Some(supervisor) = self.supervisor.take() else {
            return Err(LabError::new("the server is not running; restart it"));
        };
        if let Err(error) = self.work.guard() {
            self.supervisor = Some(supervisor);
            return Err(error);
        }
        supervisor
            .stop_by(signal, START_TIMEOUT.as_millis() as u32)
            .map_err(|error| LabError::new(format!("cannot stop the server: {error}")))
    }

    fn write_certificates(&self) -> Result<(), LabError> {
        let Some(tls) = &self.settings.tls else { return Ok(()) };
        let files = [(CERTIFICATE, &tls.certificate), (KEY, &tls.key), (AUTHORITY, &tls.authority)];
        files.into_iter().try_for_each(|(name, pem)| self.work.write(name, pem, &self.account))
    }

    /// A free port; for a cluster node, the port of its bus is free too. Either may be taken again
    /// before the server binds it.
    fn choose_port(&self) -> Result<u16, LabError> {
        if self.settings.unix_only {
            return Ok(0);
        }
        for _ in 0..PORTS_LOOKED_AT {
            let port = free_port()?;
            if self.settings.cluster_node_timeout.is_none() || has_bus(port) {
                return Ok(port);
            }
        }
        Err(LabError::new("127.0.0.1 has no free port with a free one 10,000 above it"))
    }

    /// Starts the server. Returns false if another process has the port.
    fn launch(&mut self) -> Result<bool, LabError> {
        self.write_configuration()?;
        let said_before = self.work.log_text().len();
        let mut shell = self.account.command("/bin/sh");
        shell.stderr(self.work.log()?);
        let mut arguments = vec![self.work.data().join(CONFIGURATION).display().to_string()];
        if self.settings.sentinel {
            arguments.push("--sentinel".to_owned());
        }
        let path = self.installation.path();
        let directory = self.work.path();
        let supervisor = Supervisor::start(shell, directory, path, &arguments, &SIGNALS_OF_REDIS)
            .map_err(|error| LabError::io("cannot start", path, error))?;
        self.work.unguard();
        let why = match self.wait_until_ready(&supervisor) {
            Ok(pid) => {
                self.pid = pid;
                self.supervisor = Some(supervisor);
                return Ok(true);
            }
            Err(why) => why,
        };
        // Keeps the directory: the next attempt needs it.
        self.work.guard()?;
        let _ = supervisor.stop_by(SIGNALS_OF_REDIS.immediate, 0);
        let log = self.work.log_text();
        let said = log.get(said_before..).unwrap_or_default();
        if said.contains("Address already in use") {
            return Ok(false);
        }
        let path = self.installation.path().display();
        Err(LabError::new(format!("{path} {why}: {}", essence(said))))
    }

    fn write_configuration(&self) -> Result<(), LabError> {
        let (data, log) = (self.work.data(), self.work.path().join("log"));
        let place = Place {
            port: self.port,
            socket: &self.socket(),
            data: &data,
            log: &log,
            password: &self.password,
        };
        let text = configuration(&self.settings, self.installation.major(), &place);
        self.work.write(CONFIGURATION, text.as_bytes(), &self.account)
    }

    /// The process id of the server, once it answers.
    fn wait_until_ready(&self, supervisor: &Supervisor) -> Result<u32, String> {
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            if supervisor.has_ended_within(READY_POLL_MS) {
                return Err("did not start".into());
            }
            if let Ok(pid) = self.answering_pid() {
                return Ok(pid);
            }
        }
        Err(format!("was not ready after {} s", START_TIMEOUT.as_secs()))
    }

    /// Its process id, if it answers PING: that is an error while it loads data or waits for its
    /// master.
    fn answering_pid(&self) -> io::Result<u32> {
        let mut plain = self.log_in()?;
        plain.tell(&Command::new("PING"))?;
        let info = plain.tell(&Command::new("INFO").arg("server"))?;
        let pid = info.field("process_id").and_then(|pid| pid.parse().ok());
        pid.ok_or_else(|| io::Error::other("INFO does not name the process"))
    }

    fn port_taken(&self) -> LabError {
        LabError::new(format!(
            "another process took port {} of 127.0.0.1, or that of its cluster bus; start a new \
             server instead",
            self.port
        ))
    }
}

impl fmt::Debug for Server {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("version", &self.version())
            .field("port", &self.port)
            .field("directory", &self.work.path())
            .field("running", &self.is_running())
            .finish_non_exhaustive()
    }
}

/// How often a pair of free ports is searched; most attempts find one.
const PORTS_LOOKED_AT: u32 = 100;

fn has_bus(port: u16) -> bool {
    let bus = port.checked_add(BUS_PORT_OFFSET);
    bus.is_some_and(|bus| TcpListener::bind(("127.0.0.1", bus)).is_ok())
}

/// Makes the server's directory, and a program that the account can execute.
fn prepare(
    installation: Installation,
    account: &Account,
) -> Result<(Installation, WorkDirectory), LabError> {
    let base = Base::open(account)?;
    let lock = base.lock()?;
    base.sweep(&lock);
    let path = base.reachable_program(installation.path(), installation.version(), &lock)?;
    let work = base.work_directory(&lock)?;
    work.make_data(account)?;
    Ok((installation.moved_to(path), work))
}
