//! A cluster of six servers: some of them die, and some hash slots move.

use std::pin::Pin;
use std::time::{Duration, Instant};

use onetrip::redis::{Client, Command, Config};
use onetrip_lab::redis::{Answer, Cluster, ClusterSettings, Server, Settings};

use super::Stage;
use super::book::Book;
use super::end::rest;
use super::keys::{Keys, text, written};
use super::single::{CONNECTIONS_MAX, blocking, limited};
use crate::check::{Kept, Window};
use crate::drive::{FaultWindow, Target, until};
use crate::end::Rest;
use crate::ledger::Ledger;
use crate::plan::{Kind, PlannedFault};

pub(crate) struct Six {
    /// `None` while a fault is being carried out on it.
    cluster: Option<Cluster>,
    client: Client,
}

/// These tags have hash slots all over the cluster.
pub(super) const KEYS: Keys = Keys { tags: 16, in_cluster: true };

impl Six {
    /// Starts the cluster. A replica takes over only when told to: otherwise a master that is
    /// silent for a while, because the machine is busy, would lose the writes it acknowledges
    /// meanwhile.
    pub(crate) async fn set() -> Six {
        let node = Settings::default().setting(NO_FAILOVER, "yes");
        Six::set_with(Duration::from_millis(1_500), node).await
    }

    pub(super) async fn set_with(node_timeout: Duration, node: Settings) -> Six {
        let settings = ClusterSettings { node_timeout, node, ..ClusterSettings::default() };
        let cluster = Cluster::start(&settings).unwrap();
        let config: Config = cluster.urls()[0].parse().unwrap();
        let nodes = cluster.nodes()[1..].iter();
        let config = nodes.fold(config, |config, node| config.server("127.0.0.1", node.port()));
        let client = Client::connect_with(&limited(config.cluster(true))).await.unwrap();
        Six { cluster: Some(cluster), client }
    }

    pub(super) fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().expect("it is there between two faults")
    }

    /// Runs work on the cluster, then waits until the cluster is healthy again.
    pub(super) async fn with(&mut self, work: impl FnOnce(&mut Cluster) + Send + 'static) {
        let cluster = self.cluster.take().expect("it is there between two faults");
        let work = |cluster: &mut Cluster| {
            work(cluster);
            cluster.wait_ok()
        };
        self.cluster = Some(blocking(cluster, work).await);
    }

    /// Kills a node, and does not wait for the others to see that.
    pub(super) async fn kill(&mut self, node: usize) {
        let cluster = self.cluster.take().expect("it is there between two faults");
        let kill = move |cluster: &mut Cluster| cluster.kill_node(node);
        self.cluster = Some(blocking(cluster, kill).await);
    }

    /// Waits until the client reads keys of all tags.
    pub(super) async fn answers(&self) {
        for tag in 0..KEYS.tags {
            let answers = until(PATIENCE, async || {
                let read = self.client.timeout(Duration::from_secs(1));
                read.cmd("GET").arg(text(tag)).send::<String>().await.is_ok()
            });
            assert!(answers.await, "the client does not reach the keys of tag {tag} any more");
        }
    }

    /// Some hash slots go to the next master, or back to where they were.
    async fn move_slots(&mut self, fault: &PlannedFault) {
        let PlannedFault { bytes, hold, .. } = *fault;
        let moves = 1 + bytes % 4;
        self.with(move |cluster| {
            (0..moves).for_each(|at| move_slot(cluster, (bytes + at) % KEYS.tags, hold / 4));
        })
        .await;
    }

    pub(super) async fn kill_clients(&self, fault: &PlannedFault) {
        let master = self.master(fault);
        let kill = Command::new("CLIENT KILL TYPE normal SKIPME yes");
        self.cluster().nodes()[master].plain().unwrap().tell(&kill).unwrap();
        self.answers().await;
    }

    pub(super) async fn kill_replica(&mut self, fault: &PlannedFault) {
        let replicas = replicas(self.cluster());
        let replica = replicas[(fault.bytes % replicas.len() as u64) as usize].0;
        let hold = fault.hold;
        self.with(move |cluster| {
            cluster.kill_node(replica).unwrap();
            std::thread::sleep(hold);
            cluster.restart_node(replica).unwrap();
        })
        .await;
    }

    /// Kills a master that has stopped answering writes and whose replica has every write it
    /// answered.
    async fn kill_master(&mut self, ledger: &Ledger, fault: &PlannedFault) -> Window {
        let master = self.master(fault);
        let replica = replica_of(self.cluster(), master);
        self.with(move |cluster| let_catch_up(cluster, master, replica)).await;
        let from = ledger.now();
        // Its replica has to take over before it comes back, because it comes back empty.
        self.with(move |cluster| {
            may_take_over(cluster, replica, true);
            cluster.kill_node(master).unwrap();
        })
        .await;
        self.answers().await;
        let window = Window { from, to: ledger.now() };
        self.with(move |cluster| {
            may_take_over(cluster, replica, false);
            cluster.restart_node(master).unwrap();
        })
        .await;
        window
    }

    /// The master of some tag.
    pub(super) fn master(&self, fault: &PlannedFault) -> usize {
        master_of(self.cluster(), fault.bytes % KEYS.tags)
    }
}

/// The hash slot of a tag's keys.
fn slot(cluster: &Cluster, tag: u64) -> u16 {
    let asked = cluster.nodes().iter().find(|node| node.is_running()).expect("some node runs");
    let command = Command::new("CLUSTER KEYSLOT").arg(written(tag));
    match asked.plain().unwrap().tell(&command).unwrap() {
        Answer::Number(slot) => u16::try_from(slot).unwrap(),
        other => panic!("a hash slot is a number, not {other:?}"),
    }
}

/// The node that has a tag's keys.
pub(super) fn master_of(cluster: &Cluster, tag: u64) -> usize {
    cluster.master_of(slot(cluster, tag)).unwrap()
}

/// Moves the slot slowly: for a while it has some keys on each of the two nodes.
fn move_slot(cluster: &Cluster, tag: u64, hold: Duration) {
    let (slot, from) = (slot(cluster, tag), master_of(cluster, tag));
    let masters: Vec<_> =
        (0..6).filter(|node| master_port(&cluster.nodes()[*node]).is_none()).collect();
    let at = masters.iter().position(|master| *master == from).unwrap_or(0);
    let to = masters[(at + 1) % masters.len()];
    let moving = cluster.begin_move(slot, from, to).unwrap();
    while moving.move_keys(1).unwrap() > 0 {
        std::thread::sleep(hold / 8);
    }
    moving.finish().unwrap();
    cluster.wait_ok().unwrap();
}

/// Nodes that are replicas, each with the port of its master.
pub(super) fn replicas(cluster: &Cluster) -> Vec<(usize, u16)> {
    let nodes = cluster.nodes().iter().enumerate();
    nodes.filter_map(|(at, node)| Some((at, master_port(node)?))).collect()
}

/// The port of the node's master, if the node is a replica.
pub(super) fn master_port(node: &Server) -> Option<u16> {
    let role = node.plain().unwrap().tell(&Command::new("ROLE")).unwrap();
    match role.items() {
        [word, _, Answer::Number(port), ..] if word.text() == Some("slave") => {
            u16::try_from(*port).ok()
        }
        _ => None,
    }
}

pub(super) fn replica_of(cluster: &Cluster, master: usize) -> usize {
    let port = cluster.nodes()[master].port();
    let replica = replicas(cluster).into_iter().find(|(_, of)| *of == port);
    replica.expect("each master has a replica").0
}

fn may_take_over(cluster: &Cluster, replica: usize, may: bool) {
    let not = if may { "no" } else { "yes" };
    let set = Command::new("CONFIG SET").arg(NO_FAILOVER).arg(not);
    cluster.nodes()[replica].plain().unwrap().tell(&set).unwrap();
}

/// Makes the master hold writes back, and waits until its replica has every write it answered.
fn let_catch_up(cluster: &Cluster, master: usize, replica: usize) {
    let [master, replica] = [master, replica].map(|node| &cluster.nodes()[node]);
    let pause = Command::new("CLIENT PAUSE").arg(PAUSE_MS).arg("WRITE");
    master.plain().unwrap().tell(&pause).unwrap();
    let written = offset(master, "master_repl_offset");
    let start = Instant::now();
    while offset(replica, "slave_repl_offset") < written {
        assert!(start.elapsed() < PATIENCE, "the replica does not catch up");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn offset(node: &Server, name: &str) -> u64 {
    let info = node.plain().unwrap().tell(&Command::new("INFO replication")).unwrap();
    info.field(name).and_then(|offset| offset.parse().ok()).expect("a node knows its offset")
}

impl Target for Six {
    const KINDS: &'static [Kind] = &Kind::REDIS_CLUSTER;

    fn carry_out<'a>(
        &'a mut self,
        ledger: &'a Ledger,
        fault: &'a PlannedFault,
    ) -> Pin<Box<dyn Future<Output = FaultWindow> + 'a>> {
        Box::pin(async {
            let from = ledger.now();
            let window = match fault.kind {
                Kind::SlotsMoved => {
                    self.move_slots(fault).await;
                    None
                }
                Kind::ReplicaKilled => {
                    self.kill_replica(fault).await;
                    None
                }
                Kind::ClientsKilled => {
                    self.kill_clients(fault).await;
                    Some(Window { from, to: ledger.now() })
                }
                _ => Some(self.kill_master(ledger, fault).await),
            };
            // One node has at most this many connections.
            let broken = if window.is_some() { CONNECTIONS_MAX as u64 + 1 } else { 0 };
            FaultWindow { kind: fault.kind, window, broken }
        })
    }
}

impl Stage for Six {
    fn client(&self) -> &Client {
        &self.client
    }

    fn keys(&self) -> Keys {
        KEYS
    }

    async fn rest(self, ledger: &Ledger, book: &Book) -> Rest {
        self.rest_with(ledger, book, Kept::All).await
    }
}

impl Six {
    pub(super) async fn rest_with(self, ledger: &Ledger, book: &Book, kept: Kept) -> Rest {
        let cluster = self.cluster();
        let servers: Vec<_> = cluster.nodes().iter().collect();
        let server = |tag| servers[master_of(cluster, tag)];
        let at_rest = rest(&self.client, KEYS, &servers, server, (ledger, book), kept).await;
        drop(self.client);
        at_rest
    }
}

/// The setting that keeps a replica from taking over a dead master by itself.
const NO_FAILOVER: &str = "cluster-replica-no-failover";

/// How long a master that is about to be killed holds writes back: longer than killing it takes.
const PAUSE_MS: u32 = 60_000;

/// How long a replica may take to catch up, and the client to find its way.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
