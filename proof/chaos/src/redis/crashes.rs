//! A cluster of six whose masters are killed in the middle of their writes, and whose replicas take
//! over by themselves.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::Duration;

use onetrip::redis::{Client, Command, Sends};
use onetrip_lab::redis::{Server, Settings};

use super::Stage;
use super::book::Book;
use super::cluster::{KEYS, PATIENCE, Six, master_of, master_port, replica_of};
use super::keys::{Keys, set_text};
use super::single::CONNECTIONS_MAX;
use crate::check::{Kept, Window};
use crate::drive::{FaultWindow, Target, until};
use crate::end::Rest;
use crate::ledger::Ledger;
use crate::plan::{Kind, PlannedFault};

pub(crate) struct Crashing {
    six: Six,
    /// The masters after the last fault, by port, and when that was.
    masters: BTreeSet<u16>,
    since: Duration,
    /// When masters crashed, or were given up by the others.
    crashes: Vec<Window>,
    /// From the moment when a replica took over until the client wrote there: the longest.
    pause_max: Duration,
}

impl Crashing {
    pub(crate) async fn set() -> Crashing {
        let six = Six::set_with(NODE_TIMEOUT, Settings::default()).await;
        let masters = masters(&six);
        let (since, crashes, pause_max) = (Duration::ZERO, Vec::new(), Duration::ZERO);
        Crashing { six, masters, since, crashes, pause_max }
    }

    /// Kills a master, and waits until the client writes to its successor. Returns the window, and
    /// the masters from then on.
    async fn crash(&mut self, ledger: &Ledger, fault: &PlannedFault) -> (Window, BTreeSet<u16>) {
        let six = &mut self.six;
        let master = six.master(fault);
        let replica = replica_of(six.cluster(), master);
        let of_it = |tag: &u64| master_of(six.cluster(), *tag) == master;
        let tags: Vec<u64> = (0..KEYS.tags).filter(of_it).collect();
        let [old, new] = [master, replica].map(|node| six.cluster().nodes()[node].port());
        let from = ledger.now();
        six.kill(master).await;
        let took_over = until(PATIENCE, async || takes_writes(&six.cluster().nodes()[replica]));
        assert!(took_over.await, "no replica takes over");
        let since = ledger.now();
        for tag in tags {
            let writes = until(PATIENCE, async || {
                let write = six.client().timeout(Duration::from_secs(1));
                write.send::<()>(set_text(tag)).await.is_ok()
            });
            assert!(writes.await, "the client does not write keys of tag {tag} any more");
        }
        self.pause_max = self.pause_max.max(ledger.now() - since);
        // The other nodes have to know before it comes back, because it comes back empty.
        six.with(|_| ()).await;
        six.answers().await;
        let window = Window { from, to: ledger.now() };
        six.with(move |cluster| cluster.restart_node(master).unwrap()).await;
        let mut masters = std::mem::take(&mut self.masters);
        masters.remove(&old);
        masters.insert(new);
        (window, masters)
    }
}

/// The ports of the nodes that are masters.
fn masters(six: &Six) -> BTreeSet<u16> {
    let nodes = six.cluster().nodes().iter();
    nodes.filter(|node| master_port(node).is_none()).map(Server::port).collect()
}

/// Whether a node is a master by now and sees a healthy cluster.
fn takes_writes(node: &Server) -> bool {
    let info = node.plain().unwrap().tell(&Command::new("CLUSTER INFO")).unwrap();
    master_port(node).is_none() && info.field("cluster_state") == Some("ok")
}

impl Target for Crashing {
    const KINDS: &'static [Kind] = &Kind::REDIS_CRASHES;

    fn carry_out<'a>(
        &'a mut self,
        ledger: &'a Ledger,
        fault: &'a PlannedFault,
    ) -> Pin<Box<dyn Future<Output = FaultWindow> + 'a>> {
        Box::pin(async {
            let from = ledger.now();
            // The nodes of a busy machine may give up a master that is silent for a while.
            let mut by_itself = masters(&self.six) != self.masters;
            let mut expected = self.masters.clone();
            let mut window = match fault.kind {
                Kind::ReplicaKilled => {
                    self.six.kill_replica(fault).await;
                    None
                }
                Kind::ClientsKilled => {
                    self.six.kill_clients(fault).await;
                    Some(Window { from, to: ledger.now() })
                }
                _ => {
                    let (window, masters) = self.crash(ledger, fault).await;
                    expected = masters;
                    self.crashes.push(window);
                    Some(window)
                }
            };
            self.masters = masters(&self.six);
            by_itself |= self.masters != expected;
            if by_itself {
                self.six.answers().await;
                let whole = Window { from: self.since, to: ledger.now() };
                self.crashes.push(whole);
                window = Some(whole);
            }
            self.since = ledger.now();
            // One node has at most this many connections. Three are masters.
            let nodes = if by_itself { 3 } else { u64::from(window.is_some()) };
            let broken = nodes * (CONNECTIONS_MAX as u64 + 1);
            FaultWindow { kind: fault.kind, window, broken }
        })
    }
}

impl Stage for Crashing {
    fn client(&self) -> &Client {
        self.six.client()
    }

    fn keys(&self) -> Keys {
        KEYS
    }

    fn loses(&self) -> bool {
        true
    }

    async fn rest(self, ledger: &Ledger, book: &Book) -> Rest {
        let Crashing { six, crashes, pause_max, .. } = self;
        let mut rest = six.rest_with(ledger, book, Kept::Copied { crashes }).await;
        if pause_max > PAUSE_MAX {
            let late = format!("the client wrote again {pause_max:?} after a replica took over");
            rest.findings.push(late);
        }
        Rest { pause_max: Some(pause_max), ..rest }
    }
}

/// How long a node may be silent before the others give it up. Longer than a busy machine lets it
/// wait, and short enough for some crashes in ten seconds.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// How soon the client has to write to every hash slot of a replica that took over. It asks for the
/// topology once a second, and what it can't send it tries again within a second.
const PAUSE_MAX: Duration = Duration::from_secs(5);
