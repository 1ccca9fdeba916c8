//! The nodes of the cluster, how much is unanswered at each, and which can't be reached.

use onetrip_engine::{Retry, Time};

use crate::client::topology::Topology;
use crate::redirect::Address;

/// Names a node, as long as it is part of the cluster at one address. No id is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(super) u32);

impl NodeId {
    /// The number of the id, for hosts that use numbers.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

#[derive(Default)]
pub(super) struct Nodes {
    /// In the order of their ids.
    known: Vec<(NodeId, Node)>,
    /// The nodes by address, in order.
    by_address: Vec<(Address, NodeId)>,
    masters: Vec<NodeId>,
    next: u32,
    /// Counts up, to take masters and replicas in turn.
    turn: usize,
    closed: Vec<NodeId>,
}

struct Node {
    address: Address,
    unanswered: usize,
    /// How many connections it has had.
    connections: u32,
    is_connected: bool,
    /// It has no connection any more, or none could be opened.
    away: Option<Box<Away>>,
    /// Whether it is no longer part of the topology.
    left: bool,
    /// The replicas of a master.
    replicas: Vec<NodeId>,
}

/// A node that can't be reached for now. One flight at a time tries it; the others are held.
struct Away {
    is_tried: bool,
    /// It is not tried before this moment.
    until: Time,
    /// The pauses between two tries.
    pauses: Option<Retry>,
}

const AWAY: Away = Away { is_tried: false, until: Time::ZERO, pauses: None };

impl Nodes {
    /// Takes a new topology. Returns the nodes that are new.
    pub(super) fn update(&mut self, topology: &Topology) -> Vec<(NodeId, Address)> {
        let mut new = Vec::new();
        self.masters.clear();
        self.known.iter_mut().for_each(|(_, node)| node.left = true);
        for shard in topology.shards() {
            let master = self.enter(&shard.master.address, &mut new);
            self.masters.push(master);
            let addresses = shard.replicas.iter().map(|node| &node.address);
            let replicas = addresses.map(|address| self.enter(address, &mut new)).collect();
            if let Some(node) = self.get_mut(master) {
                node.replicas = replicas;
            }
        }
        let idle = self.known.iter().filter(|(_, node)| node.left && node.unanswered == 0);
        let idle: Vec<_> = idle.map(|(id, _)| *id).collect();
        idle.into_iter().for_each(|id| self.forget(id));
        new
    }

    fn enter(&mut self, address: &Address, new: &mut Vec<(NodeId, Address)>) -> NodeId {
        if let Some(id) = self.named(address)
            && let Some(node) = self.get_mut(id)
        {
            node.left = false;
            node.replicas.clear();
            return id;
        }
        let id = NodeId(self.next);
        self.next += 1;
        let node = Node {
            address: address.clone(),
            unanswered: 0,
            connections: 0,
            is_connected: false,
            away: None,
            left: false,
            replicas: Vec::new(),
        };
        self.known.push((id, node));
        if let Err(at) = self.place_of(address) {
            self.by_address.insert(at, (address.clone(), id));
        }
        new.push((id, address.clone()));
        id
    }

    fn place(&self, id: NodeId) -> Option<usize> {
        self.known.binary_search_by_key(&id, |(id, _)| *id).ok()
    }

    fn get(&self, id: NodeId) -> Option<&Node> {
        self.place(id).map(|at| &self.known[at].1)
    }

    fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.place(id).map(|at| &mut self.known[at].1)
    }

    fn place_of(&self, address: &Address) -> Result<usize, usize> {
        self.by_address.binary_search_by(|(other, _)| other.cmp(address))
    }

    fn named(&self, address: &Address) -> Option<NodeId> {
        self.place_of(address).ok().map(|at| self.by_address[at].1)
    }

    fn forget(&mut self, id: NodeId) {
        if let Some(at) = self.place(id) {
            let (_, node) = self.known.remove(at);
            if let Ok(at) = self.place_of(&node.address) {
                self.by_address.remove(at);
            }
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
        self.get(id).map(|node| &node.address)
    }

    /// The node at this address, if it is part of the topology.
    pub(super) fn at(&self, address: &Address) -> Option<NodeId> {
        self.named(address).filter(|id| self.is_part(*id))
    }

    pub(super) fn is_part(&self, id: NodeId) -> bool {
        self.get(id).is_some_and(|node| !node.left)
    }

    /// All masters, or all nodes.
    pub(super) fn all(&self, replicas: bool) -> Vec<NodeId> {
        let mut all = self.masters.clone();
        for master in self.masters.iter().filter(|_| replicas) {
            if let Some(node) = self.get(*master) {
                all.extend_from_slice(&node.replicas);
            }
        }
        all
    }

    /// The next master that can be reached, in turn.
    pub(super) fn next_master(&mut self) -> Option<NodeId> {
        self.turn = self.turn.wrapping_add(1);
        self.in_turn(&self.masters, &|id| !self.is_away(id))
    }

    /// The next master that [takes](Self::takes) something, in turn.
    pub(super) fn next_taker(&mut self, now: Time) -> Option<NodeId> {
        self.turn = self.turn.wrapping_add(1);
        self.in_turn(&self.masters, &|id| self.takes(id, now))
    }

    /// The next replica of a master that [takes](Self::takes) something, in turn; the master itself
    /// if there is none.
    pub(super) fn next_replica(&mut self, master: NodeId, now: Time) -> NodeId {
        self.turn = self.turn.wrapping_add(1);
        let replicas = self.get(master).map(|node| &node.replicas[..]).unwrap_or_default();
        self.in_turn(replicas, &|id| self.takes(id, now)).unwrap_or(master)
    }

    fn in_turn(&self, of: &[NodeId], fits: &dyn Fn(NodeId) -> bool) -> Option<NodeId> {
        let at = self.turn.checked_rem(of.len())?;
        let (first, others) = (&of[at..], &of[..at]);
        first.iter().chain(others).copied().find(|id| fits(*id))
    }

    /// Whether a flight may be sent to it now.
    pub(super) fn takes(&self, id: NodeId, now: Time) -> bool {
        let away = self.get(id).and_then(|node| node.away.as_ref());
        away.is_none_or(|away| !away.is_tried && away.until <= now)
    }

    pub(super) fn is_away(&self, id: NodeId) -> bool {
        self.get(id).is_some_and(|node| node.away.is_some())
    }

    /// A flight goes there now. Returns whether it tries a node that can't be reached.
    pub(super) fn tries(&mut self, id: NodeId) -> bool {
        let away = self.get_mut(id).and_then(|node| node.away.as_mut());
        away.is_some_and(|away| !std::mem::replace(&mut away.is_tried, true))
    }

    /// The flight that tried it has ended.
    pub(super) fn tried(&mut self, id: NodeId) {
        if let Some(away) = self.get_mut(id).and_then(|node| node.away.as_mut()) {
            away.is_tried = false;
        }
    }

    /// A flight was not sent, since there was no connection. `pauses` makes those between two
    /// tries. Returns when it is tried next; `None` if it has a connection by now.
    pub(super) fn unreached(
        &mut self,
        id: NodeId,
        now: Time,
        pauses: impl FnOnce() -> Retry,
    ) -> Option<Time> {
        let node = self.get_mut(id).filter(|node| !node.is_connected)?;
        let away = node.away.get_or_insert_with(|| Box::new(AWAY));
        if away.until <= now {
            let pause = away.pauses.get_or_insert_with(pauses).failed();
            away.until = now.after(pause.unwrap_or_default());
        }
        Some(away.until)
    }

    /// It was reached. Returns whether it had been away.
    pub(super) fn reached(&mut self, id: NodeId) -> bool {
        self.get_mut(id).is_some_and(|node| node.away.take().is_some())
    }

    /// When one that is away is tried again.
    pub(super) fn next_try(&self, now: Time) -> Time {
        let away = self.known.iter().filter_map(|(_, node)| node.away.as_ref());
        away.map(|away| away.until).filter(|until| *until > now).min().unwrap_or(Time::NEVER)
    }

    /// It has a new connection. Returns how many it has had.
    pub(super) fn connected(&mut self, id: NodeId) -> u32 {
        self.get_mut(id).map_or(0, |node| {
            node.connections += 1;
            node.is_connected = true;
            node.away = None;
            node.connections
        })
    }

    pub(super) fn disconnected(&mut self, id: NodeId) {
        if let Some(node) = self.get_mut(id) {
            node.is_connected = false;
            node.away.get_or_insert_with(|| Box::new(AWAY));
        }
    }

    /// The number of its last connection; 0 before the first.
    pub(super) fn connection(&self, id: NodeId) -> u32 {
        self.get(id).map_or(0, |node| node.connections)
    }

    /// The number of the connection on which a command goes that is sent now. Without one it waits
    /// for the next.
    pub(super) fn next_connection(&self, id: NodeId) -> u32 {
        self.get(id).map_or(0, |node| node.connections + u32::from(!node.is_connected))
    }

    pub(super) fn sent(&mut self, id: NodeId) {
        if let Some(node) = self.get_mut(id) {
            node.unanswered += 1;
        }
    }

    pub(super) fn answered(&mut self, id: NodeId) {
        let Some(node) = self.get_mut(id) else { return };
        node.unanswered -= 1;
        if node.left && node.unanswered == 0 {
            self.forget(id);
        }
    }
}
