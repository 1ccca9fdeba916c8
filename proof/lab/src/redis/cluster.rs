//! A cluster of private servers: masters that share the hash slots, and replicas of them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use onetrip_redis::Command;

use super::plain::{Answer, Plain};
use super::server::Server;
use super::settings::Settings;
use super::slot_move::SlotMove;
use crate::private::{LabError, START_TIMEOUT, random_digits};

/// How many hash slots there are (`CLUSTER_SLOTS` in cluster.h).
pub const HASH_SLOTS: u16 = 16_384;

/// The pause between two checks of a cluster that is not ready yet.
const LOOK: Duration = Duration::from_millis(20);

/// How to start a cluster; `ClusterSettings::default()` is right for most tests.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Nodes that have hash slots. Default: 3.
    pub masters: usize,
    /// Replicas; they are assigned to the masters in turn. Default: 3.
    pub replicas: usize,
    /// After this time without an answer, a node counts as dead. Default: 1 s.
    pub node_timeout: Duration,
    /// The settings of all nodes.
    pub node: Settings,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            masters: 3,
            replicas: 3,
            node_timeout: Duration::from_secs(1),
            node: Settings::default(),
        }
    }
}

/// Six nodes, or as many as were asked for, that belong to this process and end with it. First come
/// the masters, with equal parts of the hash slots in order, then the replicas.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    /// Starts the nodes, joins them to a cluster by their own commands, and returns when all agree
    /// on it: after some two seconds.
    ///
    /// # Errors
    /// As those of a [`Server`], and when they do not agree within 60 s.
    ///
    /// # Panics
    /// If `masters` is 0.
    pub fn start(settings: &ClusterSettings) -> Result<Self, LabError> {
        assert!(settings.masters > 0, "a cluster has a master");
        let timeout = Some(settings.node_timeout);
        let node = Settings { cluster_node_timeout: timeout, ..settings.node.clone() };
        let password = if node.password { random_digits()? } else { String::new() };
        let count = settings.masters + settings.replicas;
        let nodes = (0..count).map(|_| Server::start_with(node.clone(), password.clone()));
        let cluster = Self { nodes: nodes.collect::<Result<_, _>>()? };
        cluster.share_out(settings.masters)?;
        cluster.introduce()?;
        cluster.subordinate(settings.masters)?;
        cluster.wait_ok()?;
        Ok(cluster)
    }

    /// The nodes, by number: those that were masters first.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The URL of each node.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }

    /// Kills a node (SIGKILL) and returns when it is gone. Its replica takes over its hash slots
    /// after the node timeout and a little more; [`wait_ok`](Self::wait_ok) waits for that.
    ///
    /// # Errors
    /// When it is not running.
    pub fn kill_node(&mut self, node: usize) -> Result<(), LabError> {
        self.nodes[node].kill()
    }

    /// Starts a node again: same port, same name, and what it has to copy of its master.
    ///
    /// # Errors
    /// As [`Server::restart`].
    pub fn restart_node(&mut self, node: usize) -> Result<(), LabError> {
        self.nodes[node].restart()
    }

    /// Waits until all running nodes report the cluster as healthy and agree on one topology, which
    /// has exactly the running nodes and up-to-date replicas.
    ///
    /// # Errors
    /// After 60 s, with what is still wrong.
    pub fn wait_ok(&self) -> Result<(), LabError> {
        self.wait_for("the cluster is not well", || self.amiss())
    }

    /// The number of the node that owns this hash slot, as the first running node sees it.
    ///
    /// # Errors
    /// When no node does, or none can be asked.
    pub fn master_of(&self, slot: u16) -> Result<usize, LabError> {
        let node = self.running().next().ok_or_else(|| LabError::new("no node is running"))?;
        let ranges = ranges(&ask(node, &Command::new("CLUSTER SLOTS"))?);
        let range = ranges.iter().find(|range| range.first <= slot && slot <= range.last);
        let port = range.and_then(|range| range.ports.first());
        let found = self.nodes.iter().position(|node| Some(&node.port()) == port);
        found.ok_or_else(|| LabError::new(format!("no node answers for hash slot {slot}")))
    }

    /// Moves a hash slot with all its keys, while clients may use it.
    ///
    /// # Errors
    /// As [`begin_move`](Self::begin_move).
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) -> Result<(), LabError> {
        let slot_move = self.begin_move(slot, from, to)?;
        while slot_move.move_keys(KEYS_AT_ONCE)? > 0 {}
        slot_move.finish()
    }

    /// Begins to move a hash slot: from now on `from` redirects clients to `to` with ASK for keys
    /// that it does not have, until the move is finished or taken back.
    ///
    /// # Errors
    /// When `from` does not have it, or either can't be asked.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) -> Result<SlotMove<'_>, LabError> {
        // A node that does not know the last epoch takes the slot with an older epoch than the
        // source has. Then the source's earlier claim wins, and no node owns the slot
        // (`clusterBumpConfigEpochWithoutConsensus` in Redis' cluster.c).
        self.wait_for("the nodes of a move know different epochs", || {
            let epoch = |node: usize| ask(&self.nodes[node], &Command::new("CLUSTER INFO"));
            let (one, other) = (epoch(from).ok()?, epoch(to).ok()?);
            let (one, other) = (one.field(EPOCH)?, other.field(EPOCH)?);
            (one != other).then(|| format!("{one} and {other}"))
        })?;
        SlotMove::begin(&self.nodes, slot, from, to)
    }

    fn running(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    /// Shares the slots out. Every master gets a configuration epoch of its own from the beginning,
    /// because the cluster takes a while to resolve equal ones.
    fn share_out(&self, masters: usize) -> Result<(), LabError> {
        for (at, node) in self.nodes[..masters].iter().enumerate() {
            let border = |at: usize| (at * usize::from(HASH_SLOTS) + masters / 2) / masters;
            let slots = border(at)..border(at + 1);
            tell(node, &Command::new("CLUSTER ADDSLOTS").args(slots))?;
            tell(node, &Command::new("CLUSTER SET-CONFIG-EPOCH").arg(at + 1))?;
        }
        Ok(())
    }

    /// Introduces the nodes to each other, and waits until gossip has spread that.
    fn introduce(&self) -> Result<(), LabError> {
        for node in &self.nodes[1..] {
            let meet = Command::new("CLUSTER MEET").arg("127.0.0.1").arg(node.port());
            tell(&self.nodes[0], &meet)?;
        }
        let count = self.nodes.len().to_string();
        self.wait_for("the nodes have not met", || {
            let info = Command::new("CLUSTER INFO");
            let strangers = self.nodes.iter().find(|node| {
                let info = ask(node, &info);
                info.is_err() || info.is_ok_and(|info| info.field(KNOWN) != Some(&count))
            });
            strangers.map(|node| format!("{} does not know all", node.port()))
        })
    }

    /// Makes replicas. A node that knows its master only by gossip refuses for a moment, so this
    /// retries.
    fn subordinate(&self, masters: usize) -> Result<(), LabError> {
        for (at, node) in self.nodes[masters..].iter().enumerate() {
            let master = node_id(&self.nodes[at % masters])?;
            let replicate = Command::new("CLUSTER REPLICATE").arg(&master);
            self.wait_for("a replica has no master", || match ask(node, &replicate) {
                Ok(Answer::Text(_)) => None,
                other => Some(format!("{other:?}")),
            })?;
        }
        Ok(())
    }

    /// What is wrong with the cluster, if anything.
    fn amiss(&self) -> Option<String> {
        let mut first: Option<BTreeSet<Range>> = None;
        for node in self.running() {
            let port = node.port();
            let seen = match look(node) {
                Ok(seen) => seen,
                Err(why) => return Some(format!("{port}: {why}")),
            };
            match &first {
                Some(first) if *first != seen => return Some(format!("{port} sees another one")),
                Some(_) => {}
                None => first = Some(seen),
            }
        }
        let seen: BTreeSet<u16> = first?.into_iter().flat_map(|range| range.ports).collect();
        let running: BTreeSet<u16> = self.running().map(Server::port).collect();
        (seen != running).then(|| format!("{seen:?} are in it, and {running:?} run"))
    }

    fn wait_for(&self, what: &str, amiss: impl Fn() -> Option<String>) -> Result<(), LabError> {
        let deadline = Instant::now() + START_TIMEOUT;
        while let Some(why) = amiss() {
            if Instant::now() > deadline {
                let seconds = START_TIMEOUT.as_secs();
                return Err(LabError::new(format!("{what} after {seconds} s: {why}")));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// Keys that are moved in one step.
const KEYS_AT_ONCE: usize = 100;

const KNOWN: &str = "cluster_known_nodes";

/// The highest configuration epoch that a node knows.
const EPOCH: &str = "cluster_current_epoch";

/// A range of hash slots with its owner: the port of the master, then those of its replicas.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    first: u16,
    last: u16,
    ports: Vec<u16>,
}

/// The topology as a node sees it, if the node reports a healthy cluster.
fn look(node: &Server) -> Result<BTreeSet<Range>, String> {
    let mut plain = node.plain().map_err(|error| error.to_string())?;
    let mut ask = |name| plain.tell(&Command::new(name)).map_err(|error| error.to_string());
    let info = ask("CLUSTER INFO")?;
    if info.field("cluster_state") != Some("ok") {
        return Err("it says that the cluster is not ok".into());
    }
    let replication = ask("INFO replication")?;
    if replication.field("master_link_status").is_some_and(|status| status != "up") {
        return Err("it has not copied its master yet".into());
    }
    Ok(ranges(&ask("CLUSTER SLOTS")?))
}

/// CLUSTER SLOTS: arrays of the first and the last hash slot, and of nodes with address, port and
/// more.
fn ranges(slots: &Answer) -> BTreeSet<Range> {
    let number = |answer: &Answer| match answer {
        Answer::Number(number) => u16::try_from(*number).unwrap_or_default(),
        _ => 0,
    };
    let range = |items: &[Answer]| {
        let [first, last, nodes @ ..] = items else { return None };
        let mut ports: Vec<u16> =
            nodes.iter().filter_map(|node| node.items().get(1)).map(number).collect();
        ports.get_mut(1..).unwrap_or_default().sort_unstable();
        Some(Range { first: number(first), last: number(last), ports })
    };
    slots.items().iter().filter_map(|items| range(items.items())).collect()
}

/// The name that a node has in the cluster.
pub(super) fn node_id(node: &Server) -> Result<String, LabError> {
    let answer = tell(node, &Command::new("CLUSTER MYID"))?;
    let id = answer.text().map(str::to_owned);
    id.ok_or_else(|| LabError::new(format!("the node at {} has no name", node.port())))
}

pub(super) fn ask(node: &Server, command: &Command) -> Result<Answer, LabError> {
    with(node, |plain| plain.ask(command))
}

pub(super) fn tell(node: &Server, command: &Command) -> Result<Answer, LabError> {
    with(node, |plain| plain.tell(command))
}

fn with(
    node: &Server,
    act: impl FnOnce(&mut Plain) -> std::io::Result<Answer>,
) -> Result<Answer, LabError> {
    let answer = act(&mut node.plain()?);
    answer.map_err(|error| LabError::new(format!("the node at {}: {error}", node.port())))
}
