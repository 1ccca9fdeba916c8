//! One node: a Patroni with its PostgreSQL, and the proxies that are its network.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use super::super::server::USER;
use super::super::template::Template;
use super::config::{self, Place};
use super::programs::Programs;
use super::rest;
use crate::private::{
    Account, Base, BaseLock, LabError, START_TIMEOUT, Signals, Supervisor, WorkDirectory, free_port,
};
use crate::proxy::{Direction, Fault, Proxy, ProxyConfig, Scope};

const SCRIPT: &str = include_str!("node.sh");
const CONFIGURATION: &str = "patroni.yml";

/// What ends a node at once. Its data is thrown away afterwards, so an orderly end would be lost
/// time.
const POWER_LOSS: &str = "USR1";
const SIGNALS: Signals = Signals { orderly: POWER_LOSS, immediate: POWER_LOSS };

/// The order to end Patroni, which ends its PostgreSQL by a fast shutdown.
const ORDERLY: &str = "TERM";

/// How many lines of its log an error shows.
const LOG_LINES: usize = 30;

/// One node of a cluster.
pub struct Node {
    // Fields drop in this order: the programs before their directory.
    supervisor: Option<Supervisor>,
    work: WorkDirectory,
    programs: Programs,
    account: Account,
    port: u16,
    rest: u16,
    password: String,
    proxy: Proxy,
    rest_proxy: Proxy,
    etcd_proxy: Proxy,
}

impl Node {
    /// A node with a copy of the template as its data, which does not run yet.
    pub(super) fn prepare(
        index: usize,
        programs: &Programs,
        etcd: u16,
        (base, lock): (&Base, &BaseLock),
        template: &Template,
    ) -> Result<Self, LabError> {
        let account = base.account.clone();
        let work = base.work_directory(lock)?;
        work.copy(template, &account)?;
        let (port, rest) = (free_port()?, free_port()?);
        let node = Self {
            supervisor: None,
            work,
            programs: programs.clone(),
            account,
            port,
            rest,
            password: template.password.clone(),
            proxy: proxy(port)?,
            rest_proxy: proxy(rest)?,
            etcd_proxy: proxy(etcd)?,
        };
        let place = Place {
            name: format!("n{index}"),
            directory: node.work.path(),
            data: &node.work.data(),
            bin: programs.postgres.bin(),
            port,
            rest,
            port_seen: node.proxy.addr(),
            rest_seen: node.rest_proxy.addr(),
            etcd_seen: node.etcd_proxy.addr(),
            password: &node.password,
        };
        node.work.write_beside(CONFIGURATION, config::patroni(&place).as_bytes(), &node.account)?;
        Ok(node)
    }

    /// Starts Patroni, which starts PostgreSQL as what the cluster wants it to be.
    pub(super) fn launch(&mut self) -> Result<(), LabError> {
        if self.supervisor.is_some() {
            return Err(LabError::new("the node is running; stop it first"));
        }
        let mut shell = self.account.command("/bin/sh");
        shell.stderr(self.work.log()?).env("HOME", self.work.path());
        let program = self.programs.bin.join("patroni").display().to_string();
        let data = self.work.data().display().to_string();
        let configuration = self.work.path().join(CONFIGURATION).display().to_string();
        let arguments =
            ["-c".into(), SCRIPT.into(), "onetrip-node".into(), data, program, configuration];
        let sh = Path::new("/bin/sh");
        let supervisor = Supervisor::start(shell, self.work.path(), sh, &arguments, &SIGNALS)
            .map_err(|error| LabError::io("cannot start", sh, error))?;
        self.work.unguard();
        self.supervisor = Some(supervisor);
        Ok(())
    }

    /// Whether its Patroni runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.supervisor.as_ref().is_some_and(|supervisor| !supervisor.has_ended_within(0))
    }

    /// Whether it was started, and ended without an order.
    pub(super) fn has_ended(&self) -> bool {
        self.supervisor.as_ref().is_some_and(|supervisor| supervisor.has_ended_within(0))
    }

    /// The port of PostgreSQL, past the proxy.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of Patroni's REST API, past the proxy.
    #[must_use]
    pub fn rest_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.rest)
    }

    /// The way that clients and replicas take to PostgreSQL.
    #[must_use]
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// The way that others take to Patroni's REST API.
    #[must_use]
    pub fn rest_proxy(&self) -> &Proxy {
        &self.rest_proxy
    }

    /// The URL of its PostgreSQL, past the proxy.
    #[must_use]
    pub fn direct_url(&self) -> String {
        format!("postgres://{USER}:{}@127.0.0.1:{}/postgres", self.password, self.port)
    }

    /// Whether it is the primary, by its own account.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.says("/primary")
    }

    /// Whether it is a replica that runs, by its own account.
    #[must_use]
    pub fn is_replica(&self) -> bool {
        self.says("/replica")
    }

    /// Whether it is the synchronous standby, by the cluster's agreement.
    #[must_use]
    pub fn is_synchronous(&self) -> bool {
        self.says("/sync")
    }

    /// What Patroni says of the node, in JSON; empty if it does not answer.
    #[must_use]
    pub fn status(&self) -> String {
        rest::get(self.rest, "/patroni").map_or(String::new(), |answer| answer.body)
    }

    /// The last lines of its log, without those that come with every round of Patroni, and with
    /// every statement that fails.
    pub(super) fn end_of_log(&self) -> String {
        const OFTEN: [&str; 4] = ["INFO: no action.", " ERROR: ", " DETAIL: ", " STATEMENT: "];
        let log = self.log();
        let is_telling = |line: &&str| !OFTEN.iter().any(|often| line.contains(often));
        let lines: Vec<_> = log.lines().filter(is_telling).collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// Everything that Patroni and PostgreSQL wrote to their log.
    #[must_use]
    pub fn log(&self) -> String {
        self.work.log_text()
    }

    fn says(&self, path: &str) -> bool {
        rest::get(self.rest, path).is_ok_and(|answer| answer.status == 200)
    }

    pub(super) fn rest(&self) -> u16 {
        self.rest
    }

    /// Where Patroni is, and etcd and HAProxy beside it.
    pub(super) fn programs(&self) -> &Path {
        &self.programs.bin
    }

    pub(super) fn password(&self) -> &str {
        &self.password
    }

    /// Kills PostgreSQL's first process (SIGKILL); Patroni goes on.
    pub(super) fn kill_postgres(&self) -> Result<(), LabError> {
        let path = self.work.data().join("postmaster.pid");
        let text = std::fs::read_to_string(&path)
            .map_err(|error| LabError::io("PostgreSQL does not run, cannot read", &path, error))?;
        let pid = text.lines().next().and_then(|line| line.parse().ok()).and_then(Pid::from_raw);
        let killed = pid.map(|pid| kill_process(pid, Signal::KILL));
        match killed {
            Some(Ok(())) => Ok(()),
            _ => Err(LabError::new("PostgreSQL could not be killed")),
        }
    }

    /// Kills Patroni and all processes of PostgreSQL (SIGKILL). Returns when they are gone.
    pub(super) fn kill(&mut self) -> Result<(), LabError> {
        self.end(POWER_LOSS)
    }

    /// Ends Patroni and its PostgreSQL in an orderly way. Returns when they are gone.
    pub(super) fn shut_down(&mut self) -> Result<(), LabError> {
        self.end(ORDERLY)
    }

    fn end(&mut self, signal: &str) -> Result<(), LabError> {
        let Some(supervisor) = self.supervisor.take() else {
            return Err(LabError::new("the node is not running"));
        };
        if let Err(error) = self.work.guard() {
            self.supervisor = Some(supervisor);
            return Err(error);
        }
        supervisor
            .stop_by(signal, START_TIMEOUT.as_millis() as u32)
            .map_err(|error| LabError::new(format!("cannot stop the node: {error}")))
    }

    /// From now on nothing passes to or from it. Connections stay open at both ends.
    pub(super) fn cut(&self) {
        for (proxy, direction) in self.lines() {
            proxy.fault(Fault::Stall { direction }, Scope::All);
        }
    }

    /// Resets the connections that are cut, at both ends.
    pub(super) fn reset_cut(&self) {
        let direction = Direction::Up;
        for proxy in self.proxies() {
            proxy.fault(Fault::ResetAfter { direction, bytes: 0 }, Scope::Present);
            proxy.fault(Fault::Resume { direction }, Scope::Present);
        }
    }

    /// Lets everything pass again. Connections that were cut are reset: what they had sent is lost.
    pub(super) fn heal(&self) {
        self.reset_cut();
        for (proxy, direction) in self.lines() {
            proxy.fault(Fault::Resume { direction }, Scope::All);
        }
    }

    fn proxies(&self) -> [&Proxy; 3] {
        [&self.proxy, &self.rest_proxy, &self.etcd_proxy]
    }

    fn lines(&self) -> impl Iterator<Item = (&Proxy, Direction)> {
        let both = |proxy| [(proxy, Direction::Up), (proxy, Direction::Down)];
        self.proxies().into_iter().flat_map(both)
    }
}

impl fmt::Debug for Node {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("port", &self.port)
            .field("proxy", &self.proxy.addr())
            .field("directory", &self.work.path())
            .field("running", &self.is_running())
            .finish_non_exhaustive()
    }
}

fn proxy(port: u16) -> Result<Proxy, LabError> {
    Proxy::start(ProxyConfig::new(SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
        .map_err(|error| LabError::new(format!("cannot start a proxy: {error}")))
}
