//! What callers want of a cluster.

use std::sync::Arc;

use onetrip_engine::{Outcome, Time, Token};
use onetrip_redis::router::How;
use onetrip_redis::{Command, Spec};

use super::super::call::{Body, Item};
use super::super::node::{Node, Sent};
use super::Cluster;
use super::errors::refusal;
use super::keys::{keys_slot, slot_of_keys};
use super::state::Caller;
use crate::{Error, Kind};

impl Cluster {
    /// Sends a command to where its keys are.
    pub(crate) fn send(&self, item: Item, deadline: Time, repeatable: bool) -> Sent {
        let Item { command, script, leaves } = item;
        if script.is_some() {
            let slot =
                keys_slot(&[Item { command: command.clone(), script: script.clone(), leaves }]);
            let slot = match slot {
                Ok(slot) => slot,
                Err(error) => return Sent::Refused(error),
            };
            let how = How { slot: Some(slot), repeatable, from_replica: false };
            let body = Body::One(Item { command, script, leaves });
            return self.submit(Command::new("EVAL"), how, deadline, Some(body));
        }
        let from_replica = self.config.replica_reads;
        self.submit(command, How { repeatable, from_replica, slot: None }, deadline, None)
    }

    /// Sends a list that runs as a whole to where all its keys are.
    pub(crate) fn send_atomic(&self, items: Vec<Item>, deadline: Time) -> Sent {
        match keys_slot(&items) {
            Ok(slot) => {
                let how = How { slot: Some(slot), ..How::default() };
                self.submit(Command::new("MULTI"), how, deadline, Some(Body::Atomic(items)))
            }
            Err(error) => Sent::Refused(error),
        }
    }

    fn submit(&self, command: Command, how: How, deadline: Time, body: Option<Body>) -> Sent {
        self.with(|state, now| {
            if state.closed {
                let because = state.closed_because.clone();
                return Sent::Refused(because.unwrap_or_else(super::super::link::closed));
            }
            let token = state.next_caller;
            state.next_caller += 1;
            let caller = Caller::new(deadline, body);
            let cell = caller.cell.clone();
            state.earliest = state.earliest.min(deadline);
            state.callers.insert(token, caller);
            match state.router.submit(now, Token(token), command, how) {
                Ok(()) => Sent::Cluster(cell),
                Err(refused) => {
                    state.callers.remove(&token);
                    Sent::Refused(refusal(&refused))
                }
            }
        })
    }

    /// The node that has a command's keys, for what needs a connection of its own.
    pub(crate) fn node_of(&self, command: &Command) -> Result<Arc<Node>, Error> {
        let slot = match Spec::of(command) {
            Some(spec) => slot_of_keys(spec.keys(command))?,
            None => None,
        };
        let state = self.lock();
        let node = match slot {
            Some(slot) => state.router.node_of(slot),
            None => state.nodes.keys().next().copied(),
        };
        let node = node.and_then(|node| state.nodes.get(&node));
        node.cloned().ok_or_else(|| {
            let message = "no node of the cluster has the hash slot of the keys at the moment";
            Error::new(Kind::Transport, Outcome::NotSent, "unserved_slot", message)
        })
    }

    /// The node that has a key.
    pub(crate) fn node_of_key(&self, key: &[u8]) -> Result<Arc<Node>, Error> {
        self.node_of(&Command::new("GET").arg(key))
    }
}
