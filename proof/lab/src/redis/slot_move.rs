//! Moves a hash slot from one node to another, step by step, as `redis-cli --cluster reshard` does
//! (the specification of Redis Cluster, "Live resharding").

use onetrip_redis::Command;

use super::cluster::{node_id, tell};
use super::plain::Answer;
use super::server::Server;
use crate::private::LabError;

/// How long a step may take between the two nodes, in milliseconds.
const MIGRATE_TIMEOUT_MS: u32 = 20_000;

/// A move that has begun. Dropping it leaves the hash slot half-way; to continue, begin the same
/// move again.
#[derive(Debug)]
pub struct SlotMove<'a> {
    nodes: &'a [Server],
    slot: u16,
    from: usize,
    to: usize,
}

impl<'a> SlotMove<'a> {
    /// Begins the move. The target learns of it before the source: otherwise it would redirect
    /// clients back.
    pub(super) fn begin(
        nodes: &'a [Server],
        slot: u16,
        from: usize,
        to: usize,
    ) -> Result<SlotMove<'a>, LabError> {
        let slot_move = Self { nodes, slot, from, to };
        let (source, target) = (node_id(&nodes[from])?, node_id(&nodes[to])?);
        tell(&nodes[to], &slot_move.set("IMPORTING").arg(source))?;
        tell(&nodes[from], &slot_move.set("MIGRATING").arg(target))?;
        Ok(slot_move)
    }

    /// Moves at most `max` keys. Returns how many it moved: 0 when all have been moved.
    ///
    /// # Errors
    /// When a node can't be asked, or refuses.
    pub fn move_keys(&self, max: usize) -> Result<usize, LabError> {
        let keys = Command::new("CLUSTER GETKEYSINSLOT").arg(self.slot).arg(max);
        let keys = tell(&self.nodes[self.from], &keys)?;
        let keys: Vec<&[u8]> = keys.items().iter().filter_map(bytes_of).collect();
        if !keys.is_empty() {
            tell(&self.nodes[self.from], &self.migrate(&keys))?;
        }
        Ok(keys.len())
    }

    /// Makes the target the owner of the hash slot. Keys that were not moved would be lost, so the
    /// source refuses while it has any.
    ///
    /// # Errors
    /// When a node can't be asked, or refuses.
    pub fn finish(self) -> Result<(), LabError> {
        let target = node_id(&self.nodes[self.to])?;
        tell(&self.nodes[self.to], &self.set("NODE").arg(&target))?;
        tell(&self.nodes[self.from], &self.set("NODE").arg(&target))?;
        Ok(())
    }

    /// Cancels the move: the source owns the hash slot as before. Keys that were already moved
    /// become unreachable.
    ///
    /// # Errors
    /// When a node can't be asked.
    pub fn take_back(self) -> Result<(), LabError> {
        for node in [self.from, self.to] {
            tell(&self.nodes[node], &self.set("STABLE"))?;
        }
        Ok(())
    }

    fn set(&self, word: &str) -> Command {
        Command::new("CLUSTER SETSLOT").arg(self.slot).arg(word)
    }

    fn migrate(&self, keys: &[&[u8]]) -> Command {
        let target = &self.nodes[self.to];
        let command = Command::new("MIGRATE").arg("127.0.0.1").arg(target.port()).arg("");
        let command = command.arg(0).arg(MIGRATE_TIMEOUT_MS);
        let command = match target.password() {
            "" => command,
            password => command.arg("AUTH").arg(password),
        };
        command.arg("KEYS").args(keys)
    }
}

fn bytes_of(answer: &Answer) -> Option<&[u8]> {
    match answer {
        Answer::Text(bytes) => Some(bytes),
        _ => None,
    }
}
