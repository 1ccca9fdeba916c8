//! Asks nodes for the topology.

use onetrip_engine::Outcome;
use onetrip_redis::Command;
use onetrip_redis::client::router::{NodeId, TOPOLOGY_TIMEOUT};
use onetrip_redis::client::topology::Topology;

use super::super::call::{Call, Item};
use super::super::node::Node;
use super::super::sent::Pending;
use super::Cluster;
use crate::{Error, Kind};

impl Cluster {
    pub(super) fn ask_for_topology(&self, from: Option<NodeId>) {
        let Some(this) = self.this.get().cloned() else { return };
        let node = from.and_then(|node| self.lock().nodes.get(&node).cloned());
        let node = node.unwrap_or_else(|| self.home.clone());
        self.runtime.spawn(async move {
            let answer = ask(&node).await;
            let Some(cluster) = this.upgrade() else { return };
            cluster.with(|state, now| match answer {
                Ok(topology) => {
                    state.no_topology = None;
                    state.router.handle_topology(now, &topology);
                }
                Err(error) => {
                    state.no_topology = Some(error);
                    state.router.handle_no_topology(now);
                }
            });
        });
    }
}

/// Asks a node for the topology.
pub(super) async fn ask(node: &Node) -> Result<Topology, Error> {
    let item = Item::new(Command::new("CLUSTER SLOTS"), None);
    let deadline = node.context.deadline(Some(TOPOLOGY_TIMEOUT));
    let mut pending = Pending::of(node.send(Call::one(item, deadline)));
    let (block, result) = std::future::poll_fn(|cx| pending.poll(cx)).await;
    result.map_err(|error| error.about("asking for the topology of the cluster"))?;
    let from = node.server_address()?;
    let reply = onetrip_redis::Reply::read(&block).ok().map(|(reply, _)| reply);
    let topology = reply.and_then(|reply| Topology::from_slots(&reply, &from).ok());
    topology.ok_or_else(|| {
        let message = "a node's answer to CLUSTER SLOTS can't be understood";
        Error::new(Kind::Protocol, Outcome::NotSent, "malformed_topology", message)
    })
}
