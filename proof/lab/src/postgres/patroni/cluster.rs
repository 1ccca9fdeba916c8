//! Three nodes and an etcd: their start, what befalls them, and when they are well.

use std::time::{Duration, Instant};

use super::super::server::USER;
use super::config;
use super::node::Node;
use super::programs::Programs;
use super::rest;
use crate::private::{
    Account, Base, LabError, START_TIMEOUT, Signals, Supervisor, WorkDirectory, essence, free_port,
};

/// The nodes of a cluster.
pub const NODES: usize = 3;

/// How long a cluster may take to recover: the lease, a rewind and a restart on a busy machine.
const RECOVERY: Duration = Duration::from_secs(180);

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

const ETCD_SIGNALS: Signals = Signals { orderly: "TERM", immediate: "KILL" };

/// A primary, a synchronous standby and another standby that belong to this process and end with
/// it. Commits wait for a standby, always (`synchronous_mode_strict`): what was acknowledged is on
/// two nodes, and only a node that has it takes over.
///
/// ```no_run
/// use onetrip_lab::postgres::patroni::Cluster;
///
/// let mut cluster = Cluster::start()?;
/// let primary = cluster.primary()?;
/// cluster.kill_node(primary)?;
/// assert_ne!(cluster.wait_for_another(primary)?, primary);
/// cluster.restart_node(primary)?;
/// cluster.wait_ok()?;
/// # Ok::<(), onetrip_lab::postgres::LabError>(())
/// ```
#[derive(Debug)]
pub struct Cluster {
    // Fields drop in this order: the nodes before what they agree in.
    nodes: Vec<Node>,
    _etcd: Etcd,
}

#[derive(Debug)]
struct Etcd {
    // The program before its directory.
    supervisor: Supervisor,
    work: WorkDirectory,
    port: u16,
}

impl Cluster {
    /// Starts it with the programs that are found, and returns when it is well.
    ///
    /// # Errors
    /// One line that says what failed, where, and what to do.
    pub fn start() -> Result<Self, LabError> {
        let (account, mut programs) = (Account::current()?, Programs::find()?);
        let base = Base::open(&account)?;
        let lock = base.lock()?;
        base.sweep(&lock);
        programs.postgres = base.reachable(programs.postgres, &lock)?;
        let patroni = programs.bin.join("patroni");
        let patroni = base.reachable_program(&patroni, "cluster", &lock)?;
        programs.bin = patroni.parent().unwrap_or(&programs.bin).to_path_buf();
        let template = base.template(&programs.postgres, &lock)?;
        let etcd = Etcd::start(&programs, &account, base.work_directory(&lock)?)?;
        let place = (&base, &lock);
        let node = |index| Node::prepare(index, &programs, etcd.port, place, &template);
        let nodes = (0..NODES).map(node).collect::<Result<_, _>>()?;
        drop(lock);
        let mut cluster = Self { nodes, _etcd: etcd };
        // The first one becomes the primary. The others have a copy of the same data, and follow.
        cluster.nodes[0].launch()?;
        cluster.wait_for("no node becomes the primary", |cluster| {
            (!cluster.nodes[0].is_primary()).then(String::new)
        })?;
        for node in &mut cluster.nodes[1..] {
            node.launch()?;
        }
        cluster.wait_ok()?;
        Ok(cluster)
    }

    /// The nodes, by number.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A URL with all nodes as hosts, which asks for the primary:
    /// `postgres://user:password@host:port,host:port,host:port/postgres?target_session_attrs=…`.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| node.proxy().addr().to_string()).collect();
        format!(
            "postgres://{USER}:{}@{}/postgres?target_session_attrs=read-write",
            self.password(),
            hosts.join(",")
        )
    }

    /// The superuser's password.
    #[must_use]
    pub fn password(&self) -> &str {
        self.nodes[0].password()
    }

    pub(super) fn programs(&self) -> &std::path::Path {
        self.nodes[0].programs()
    }

    /// The number of the node that is the primary by its own account.
    ///
    /// # Errors
    /// When none is.
    pub fn primary(&self) -> Result<usize, LabError> {
        let primary = self.nodes.iter().position(Node::is_primary);
        primary.ok_or_else(|| LabError::new("no node is the primary"))
    }

    /// Kills PostgreSQL's first process on a node (SIGKILL). Its Patroni notices, gives its lease
    /// up, and starts PostgreSQL again as a standby of the node that takes over.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill_postgres(&self, node: usize) -> Result<(), LabError> {
        self.nodes[node].kill_postgres()
    }

    /// Kills Patroni and all of PostgreSQL on a node (SIGKILL), as a loss of power would. Its lease
    /// ends by itself, after [`TTL`](super::TTL) at most.
    ///
    /// # Errors
    /// When it is not running.
    pub fn kill_node(&mut self, node: usize) -> Result<(), LabError> {
        self.nodes[node].kill()
    }

    /// Ends Patroni and PostgreSQL on a node in an orderly way.
    ///
    /// # Errors
    /// When it is not running.
    pub fn shut_down_node(&mut self, node: usize) -> Result<(), LabError> {
        self.nodes[node].shut_down()
    }

    /// Starts a node again, with the data that it had.
    ///
    /// # Errors
    /// When it is running.
    pub fn restart_node(&mut self, node: usize) -> Result<(), LabError> {
        self.nodes[node].launch()
    }

    /// A planned switchover: Patroni shuts the primary down, and the synchronous standby takes
    /// over. Returns when Patroni says that it has.
    ///
    /// # Errors
    /// What Patroni said.
    pub fn switch_over(&self) -> Result<(), LabError> {
        let primary = self.primary()?;
        let json = format!("{{\"leader\": \"n{primary}\"}}");
        let answer = rest::post(self.nodes[primary].rest(), "/switchover", &json, RECOVERY);
        match answer {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => Err(LabError::new(format!("no switchover: {}", answer.body))),
            Err(error) => Err(LabError::new(format!("no switchover: {error}"))),
        }
    }

    /// Cuts a node off: from now on nothing passes between it and clients, the other nodes and
    /// etcd. Connections stay open, and new ones are accepted, but nothing arrives.
    pub fn cut(&self, node: usize) {
        self.nodes[node].cut();
    }

    /// Resets the connections that [`cut`](Self::cut) has stalled, while the cut goes on for new
    /// ones. The proxy acknowledges what a network would have lost, so this stands in for the
    /// `TCP_USER_TIMEOUT` of both ends.
    pub fn reset_cut(&self, node: usize) {
        self.nodes[node].reset_cut();
    }

    /// Ends a cut. Connections that it has stalled are reset.
    pub fn heal(&self, node: usize) {
        self.nodes[node].heal();
    }

    /// Waits until a node other than this one is the primary, and returns its number.
    ///
    /// # Errors
    /// After three minutes.
    pub fn wait_for_another(&self, former: usize) -> Result<usize, LabError> {
        let mut found = None;
        self.wait_for("no other node takes over", |cluster| {
            let is_other = |index: &usize| *index != former && cluster.nodes[*index].is_primary();
            found = (0..NODES).find(is_other);
            found.is_none().then(String::new)
        })?;
        found.ok_or_else(|| LabError::new("no other node takes over"))
    }

    /// Waits until one node is the primary, the others follow it, and one of them is its
    /// synchronous standby.
    ///
    /// # Errors
    /// After three minutes, with what is still wrong.
    pub fn wait_ok(&self) -> Result<(), LabError> {
        self.wait_for("the cluster is not well", Self::amiss)
    }

    /// What is wrong with the cluster, if anything.
    fn amiss(&self) -> Option<String> {
        let primaries: Vec<_> = self.nodes.iter().filter(|node| node.is_primary()).collect();
        let [primary] = primaries[..] else {
            return Some(format!("{} nodes are primaries", primaries.len()));
        };
        let count = |is: fn(&Node) -> bool| self.nodes.iter().filter(|node| is(node)).count();
        let (replicas, standbys) = (count(Node::is_replica), count(Node::is_synchronous));
        let status = primary.status();
        let streaming = status.matches("\"state\": \"streaming\"").count();
        let is_well = (replicas, streaming, standbys) == (NODES - 1, NODES - 1, 1);
        (!is_well).then(|| {
            format!(
                "{replicas} replicas run, {standbys} are synchronous; the primary says {status}"
            )
        })
    }

    fn wait_for(
        &self,
        what: &str,
        mut amiss: impl FnMut(&Self) -> Option<String>,
    ) -> Result<(), LabError> {
        let deadline = Instant::now() + RECOVERY;
        while let Some(why) = amiss(self) {
            let ended = self.nodes.iter().find(|node| node.has_ended());
            if let Some(node) = ended {
                return Err(LabError::new(format!("a node ended: {}", essence(&node.log()))));
            }
            if Instant::now() > deadline {
                let seconds = RECOVERY.as_secs();
                let logs: Vec<_> = self.nodes.iter().map(Node::end_of_log).collect();
                let logs = logs.join("\n--\n");
                return Err(LabError::new(format!("{what} after {seconds} s: {why}\n{logs}")));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Etcd {
    fn start(
        programs: &Programs,
        account: &Account,
        mut work: WorkDirectory,
    ) -> Result<Self, LabError> {
        work.make_data(account)?;
        let (port, peer) = (free_port()?, free_port()?);
        let mut shell = account.command("/bin/sh");
        shell.stderr(work.log()?);
        let (program, arguments) =
            (programs.bin.join("etcd"), config::etcd(&work.data(), port, peer));
        let supervisor = Supervisor::start(shell, work.path(), &program, &arguments, &ETCD_SIGNALS)
            .map_err(|error| LabError::io("cannot start", &program, error))?;
        work.unguard();
        let etcd = Self { supervisor, work, port };
        let deadline = Instant::now() + START_TIMEOUT;
        while !rest::get(port, "/health").is_ok_and(|answer| answer.status == 200) {
            if etcd.supervisor.has_ended_within(0) || Instant::now() > deadline {
                let said = essence(&etcd.work.log_text());
                return Err(LabError::new(format!("etcd does not start: {said}")));
            }
            std::thread::sleep(LOOK);
        }
        Ok(etcd)
    }
}
