//! Which node has which hash slot: the shards of a cluster, each a master and its replicas.
//!
//! User names, passwords, and the names that certificates must have come from the client's
//! settings, never from here.

mod read;

use std::ops::RangeInclusive;

use onetrip_engine::Violation;

use crate::redirect::Address;
use crate::slots::SLOTS;

/// The shards of a cluster, and the shard of each hash slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    shards: Vec<Shard>,
    /// For each slot the number of its shard, or [`NOBODY`].
    owners: Box<[u16]>,
}

/// A master and its replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The node that takes writes.
    pub master: Node,
    /// Nodes that may be read from, except those known to be down.
    pub replicas: Vec<Node>,
}

/// One server of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id in the cluster, which stays the same when its address changes.
    pub id: Box<str>,
    /// Where it listens.
    pub address: Address,
}

const NOBODY: u16 = u16::MAX;

/// The most shards of a cluster, since each has at least one slot.
const SHARDS_MAX: usize = SLOTS as usize;

/// The most nodes of a cluster: the most shards, each with one replica. Redis advises against more
/// than 1,000 nodes.
pub const NODES_MAX: usize = 2 * SHARDS_MAX;

impl Topology {
    /// A cluster of these shards, each with its hash slots. An error if a slot belongs to two
    /// shards, or does not exist.
    pub fn new(
        shards: impl IntoIterator<Item = (Shard, Vec<RangeInclusive<u16>>)>,
    ) -> Result<Topology, Violation> {
        let mut topology =
            Topology { shards: Vec::new(), owners: vec![NOBODY; usize::from(SLOTS)].into() };
        let mut nodes = 0;
        for (shard, ranges) in shards {
            if topology.shards.len() == SHARDS_MAX {
                return Err(Violation("a cluster has more shards than slots"));
            }
            nodes += 1 + shard.replicas.len();
            if nodes > NODES_MAX {
                return Err(Violation("a cluster has more nodes than it can"));
            }
            let number = topology.shards.len() as u16;
            topology.shards.push(shard);
            for range in ranges {
                topology.give(number, range)?;
            }
        }
        Ok(topology)
    }

    fn give(&mut self, shard: u16, range: RangeInclusive<u16>) -> Result<(), Violation> {
        let (start, end) = (usize::from(*range.start()), usize::from(*range.end()));
        let slots = self.owners.get_mut(start..=end).filter(|slots| !slots.is_empty());
        for owner in slots.ok_or(Violation("a cluster has a slot that there is not"))? {
            if *owner != NOBODY {
                return Err(Violation("a slot of a cluster belongs to two shards"));
            }
            *owner = shard;
        }
        Ok(())
    }

    /// All shards, including those without a slot.
    #[must_use]
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The shard that has this hash slot, if one has.
    #[must_use]
    pub fn shard_of(&self, slot: u16) -> Option<&Shard> {
        self.shards.get(self.shard_number(slot)?)
    }

    /// The index of that shard among [all](Self::shards).
    pub(crate) fn shard_number(&self, slot: u16) -> Option<usize> {
        let owner = self.owners.get(usize::from(slot)).copied();
        owner.filter(|owner| *owner != NOBODY).map(usize::from)
    }

    /// How many hash slots no shard has.
    #[must_use]
    pub fn unserved(&self) -> usize {
        self.owners.iter().filter(|owner| **owner == NOBODY).count()
    }
}
