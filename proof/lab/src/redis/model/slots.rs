//! The owners of a cluster's hash slots, key by key, while slots move.

use bytes::Bytes;
use onetrip_redis::client::topology::{Node, Shard, Topology};
use onetrip_redis::redirect::Address;
use onetrip_redis::slots::slot_of;

use super::reply::{aggregate, bulk, integer};

/// How many hash slots have keys, and how many keys there are.
pub const TAGS: usize = 6;
/// See [`TAGS`].
pub const KEYS: usize = 18;

/// A cluster as its nodes see it: all know the same at once.
#[derive(Clone, Debug)]
pub struct Slots {
    nodes: usize,
    /// By tag: the owner of its slot, and the node that it is moving to.
    owner: Vec<usize>,
    moving: Vec<Option<usize>>,
    /// By key: the node that has it.
    place: Vec<usize>,
}

/// The name of a key of the model: its tag in braces, and its number.
#[must_use]
pub fn key(number: usize) -> String {
    format!("{{{}}}{number}", number % TAGS)
}

/// The number of a key of the model.
#[must_use]
pub fn key_number(name: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(name).ok().filter(|text| text.starts_with('{'))?;
    text.split('}').next_back()?.parse().ok()
}

/// The hash slot of a tag.
#[must_use]
pub fn slot(tag: usize) -> u16 {
    slot_of(tag.to_string().as_bytes())
}

const PORT: u16 = 7000;

fn port(node: usize) -> u16 {
    PORT + node as u16
}

/// The number of the node that listens at this port.
#[must_use]
pub fn node_at(port: u16) -> usize {
    usize::from(port - PORT)
}

impl Slots {
    /// A cluster of so many nodes, in which each tag's slot has this owner.
    #[must_use]
    pub fn new(nodes: usize, owner: Vec<usize>) -> Slots {
        let place = (0..KEYS).map(|key| owner[key % TAGS]).collect();
        Slots { nodes, moving: vec![None; TAGS], place, owner }
    }

    /// The redirect with which a node answers a command with this key, if it can't run it.
    #[must_use]
    pub fn redirect(&self, node: usize, key: usize, asking: bool) -> Option<String> {
        let tag = key % TAGS;
        let to = |word: &str, to: usize| Some(format!("{word} {} node:{}", slot(tag), port(to)));
        let imports = asking && self.moving[tag] == Some(node);
        if self.owner[tag] != node && !imports {
            return to("MOVED", self.owner[tag]);
        }
        match self.moving[tag] {
            Some(other) if !imports && self.place[key] != node => to("ASK", other),
            _ => None,
        }
    }

    /// The slot makes one step of its move to this node: it begins to move if it `may`, one of its
    /// keys moves, or the move ends. Returns true when it has ended.
    ///
    /// The move ends only if no command for the slot without ASKING waits at its new node
    /// (`is_misrouted`). If it ended between two such commands, the first would be refused and the
    /// second would run.
    pub fn step(
        &mut self,
        tag: usize,
        to: usize,
        may: bool,
        is_misrouted: impl Fn(usize) -> bool,
    ) -> bool {
        let Some(to) = self.moving[tag] else {
            if may && to != self.owner[tag] && !is_misrouted(to) {
                self.moving[tag] = Some(to);
            }
            return false;
        };
        match (0..KEYS).find(|key| key % TAGS == tag && self.place[*key] != to) {
            Some(key) => self.place[key] = to,
            None if is_misrouted(to) => {}
            None => {
                self.owner[tag] = to;
                self.moving[tag] = None;
                return true;
            }
        }
        false
    }

    /// All nodes with their slots.
    ///
    /// # Panics
    /// Never: each slot has one owner.
    #[must_use]
    pub fn topology(&self) -> Topology {
        let shards = (0..self.nodes).map(|node| {
            let address = Address { host: "node".into(), port: port(node) };
            let master = Node { id: node.to_string().into(), address };
            let shard = Shard { master, replicas: Vec::new() };
            (shard, self.tags_of(node).map(|tag| slot(tag)..=slot(tag)).collect())
        });
        Topology::new(shards).expect("each slot has one owner")
    }

    /// The reply to CLUSTER SLOTS. It names only nodes that own slots.
    pub(super) fn reply(&self) -> Bytes {
        let of_node = |node| self.tags_of(node).map(move |tag| (tag, node));
        let ranges: Vec<Bytes> = (0..self.nodes)
            .flat_map(of_node)
            .map(|(tag, node)| {
                let id = bulk(node.to_string().as_bytes());
                let address = [bulk(b"node"), integer(port(node).into()), id];
                let slot = integer(slot(tag).into());
                aggregate('*', 3, &[slot.clone(), slot, aggregate('*', 3, &address)])
            })
            .collect();
        aggregate('*', ranges.len(), &ranges)
    }

    fn tags_of(&self, node: usize) -> impl Iterator<Item = usize> {
        (0..TAGS).filter(move |tag| self.owner[*tag] == node)
    }
}
