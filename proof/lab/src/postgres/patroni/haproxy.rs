//! An HAProxy in front of a cluster: it asks the nodes' Patronis who is the primary.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use crate::private::{
    Account, Base, LabError, START_TIMEOUT, Signals, Supervisor, WorkDirectory, essence, free_port,
};

const CONFIGURATION: &str = "haproxy.cfg";
const SIGNALS: Signals = Signals { orderly: "TERM", immediate: "KILL" };

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// A HAProxy that belongs to this process and ends with it.
#[derive(Debug)]
pub struct HaProxy {
    // The program before its directory.
    supervisor: Supervisor,
    work: WorkDirectory,
    /// The ports of the configuration, and those of 127.0.0.1 that stand for them.
    ports: Vec<(u16, u16)>,
}

impl HaProxy {
    /// Starts it with a configuration that was written for nodes with the names `db1` to `db3`, and
    /// returns when it listens. Of the text, `*:PORT` becomes a free port of 127.0.0.1,
    /// `dbN:5432` the way to PostgreSQL of node `N - 1`, and `check port 8008` in a line of `dbN`
    /// the way to its Patroni.
    ///
    /// # Errors
    /// One line that says what failed, where, and what to do.
    pub fn start(cluster: &Cluster, text: &str) -> Result<Self, LabError> {
        let account = Account::current()?;
        let base = Base::open(&account)?;
        let lock = base.lock()?;
        let mut work = base.work_directory(&lock)?;
        drop(lock);
        work.make_data(&account)?;
        let (text, ports) = of_cluster(cluster, text)?;
        work.write(CONFIGURATION, text.as_bytes(), &account)?;
        let mut shell = account.command("/bin/sh");
        shell.stderr(work.log()?);
        let program = cluster.programs().join("haproxy");
        let path = work.data().join(CONFIGURATION).display().to_string();
        let arguments = ["-db".into(), "-f".into(), path];
        let supervisor = Supervisor::start(shell, work.path(), &program, &arguments, &SIGNALS)
            .map_err(|error| LabError::io("cannot start", &program, error))?;
        work.unguard();
        let haproxy = Self { supervisor, work, ports };
        haproxy.wait_until_it_listens()?;
        Ok(haproxy)
    }

    fn wait_until_it_listens(&self) -> Result<(), LabError> {
        let deadline = Instant::now() + START_TIMEOUT;
        let listens = |port: u16| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            TcpStream::connect_timeout(&address, START_TIMEOUT).is_ok()
        };
        while !self.ports.iter().all(|(_, port)| listens(*port)) {
            if self.supervisor.has_ended_within(0) || Instant::now() > deadline {
                let said = essence(&self.work.log_text());
                return Err(LabError::new(format!("HAProxy does not start: {said}")));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The port of 127.0.0.1 that stands for a port of the configuration.
    ///
    /// # Panics
    /// If the configuration has no such port.
    #[must_use]
    pub fn port(&self, of_text: u16) -> u16 {
        let found = self.ports.iter().find(|(port, _)| *port == of_text);
        found.unwrap_or_else(|| panic!("the configuration has no port {of_text}")).1
    }
}

/// The text for this cluster, and the ports in it.
fn of_cluster(cluster: &Cluster, text: &str) -> Result<(String, Vec<(u16, u16)>), LabError> {
    let mut ports = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        if let Some(port) = line.split_once("bind *:").and_then(|(_, port)| port.parse().ok()) {
            let free = free_port()?;
            ports.push((port, free));
            line = line.replace(&format!("*:{port}"), &format!("127.0.0.1:{free}"));
        }
        for (at, node) in cluster.nodes().iter().enumerate() {
            let name = format!("db{}", at + 1);
            if line.trim_start().starts_with(&format!("server {name} ")) {
                let check = format!("check port {}", node.rest_proxy().addr().port());
                line = line
                    .replace(&format!(" {name}:5432"), &format!(" {}", node.proxy().addr()))
                    .replace("check port 8008", &check);
            }
        }
        lines.push(line + "\n");
    }
    Ok((lines.concat(), ports))
}
