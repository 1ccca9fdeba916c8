//! The nodes of the cluster, and how much is unanswered at each.

use std::collections::HashMap;

use crate::client::topology::Topology;
use crate::redirect::Address;

/// A node, as long as it is part of the cluster at one address. Never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(super) u32);

impl NodeId {
    /// For hosts that know nodes by number.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

#[derive(Default)]
pub(super) struct Nodes {
    known: HashMap<NodeId, Node>,
    by_address: HashMap<Address, NodeId>,
    masters: Vec<NodeId>,
    next: u32,
    /// Turns through masters and replicas.
    turn: usize,
    closed: Vec<NodeId>,
}

struct Node {
    address: Address,
    unanswered: usize,
    /// Not part of the topology any more.
    left: bool,
    /// Of a master: who copies it.
    replicas: Vec<NodeId>,
}

impl Nodes {
    /// Takes a new topology. Returns the nodes that were not there.
    pub(super) fn update(&mut self, topology: &Topology) -> Vec<(NodeId, Address)> {
        let mut new = Vec::new();
        self.masters.clear();
        self.known.values_mut().for_each(|node| node.left = true);
        for shard in topology.shards() {
            let master = self.enter(&shard.master.address, &mut new);
            self.masters.push(master);
            let addresses = shard.replicas.iter().map(|node| &node.address);
            let replicas = addresses.map(|address| self.enter(address, &mut new)).collect();
            if let Some(node) = self.known.get_mut(&master) {
                node.replicas = replicas;
            }
        }
        let idle = self.known.iter().filter(|(_, node)| node.left && node.unanswered == 0);
        let mut idle: Vec<_> = idle.map(|(id, _)| *id).collect();
        idle.sort_unstable();
        idle.into_iter().for_each(|id| self.forget(id));
        new
    }

    fn enter(&mut self, address: &Address, new: &mut Vec<(NodeId, Address)>) -> NodeId {
        let known = self.by_address.get(address).and_then(|id| Some((id, self.known.get_mut(id)?)));
        if let Some((id, node)) = known {
            node.left = false;
            node.replicas.clear();
            return *id;
        }
        let id = NodeId(self.next);
        self.next += 1;
        let node =
            Node { address: address.clone(), unanswered: 0, left: false, replicas: Vec::new() };
        self.known.insert(id, node);
        self.by_address.insert(address.clone(), id);
        new.push((id, address.clone()));
        id
    }

    fn forget(&mut self, id: NodeId) {
        if let Some(node) = self.known.remove(&id) {
            self.by_address.remove(&node.address);
            self.closed.push(id);
        }
    }

    pub(super) fn take_closed(&mut self) -> Option<NodeId> {
        self.closed.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.masters.is_empty()
    }

    pub(super) fn address(&self, id: NodeId) -> Option<&Address> {
        self.known.get(&id).map(|node| &node.address)
    }

    /// A node that is part of the topology.
    pub(super) fn at(&self, address: &Address) -> Option<NodeId> {
        self.by_address.get(address).copied().filter(|id| self.is_part(*id))
    }

    pub(super) fn is_part(&self, id: NodeId) -> bool {
        self.known.get(&id).is_some_and(|node| !node.left)
    }

    /// All masters, or all nodes.
    pub(super) fn all(&self, replicas: bool) -> Vec<NodeId> {
        let mut all = self.masters.clone();
        if replicas {
            let masters = self.masters.iter().filter_map(|id| self.known.get(id));
            all.extend(masters.flat_map(|node| node.replicas.iter().copied()));
        }
        all
    }

    /// The masters in turn.
    pub(super) fn next_master(&mut self) -> Option<NodeId> {
        self.turn = self.turn.wrapping_add(1);
        let at = self.turn.checked_rem(self.masters.len())?;
        self.masters.get(at).copied()
    }

    /// The replicas of a master in turn; the master where it has none.
    pub(super) fn next_replica(&mut self, master: NodeId) -> NodeId {
        self.turn = self.turn.wrapping_add(1);
        let replicas = self.known.get(&master).map(|node| &node.replicas[..]).unwrap_or_default();
        let at = self.turn.checked_rem(replicas.len());
        at.and_then(|at| replicas.get(at)).copied().unwrap_or(master)
    }

    pub(super) fn sent(&mut self, id: NodeId) {
        if let Some(node) = self.known.get_mut(&id) {
            node.unanswered += 1;
        }
    }

    pub(super) fn answered(&mut self, id: NodeId) {
        let Some(node) = self.known.get_mut(&id) else { return };
        node.unanswered -= 1;
        if node.left && node.unanswered == 0 {
            self.forget(id);
        }
    }
}
