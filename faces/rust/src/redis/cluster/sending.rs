//! The calls on a cluster.

use std::sync::Arc;

use onetrip_engine::{Time, Token};
use onetrip_redis::Command;
use onetrip_redis::client::router::{How, Refused, Router};
use onetrip_redis::slots::slot_of;

use super::super::call::{Body, Item};
use super::super::node::{Node, Sent};
use super::Cluster;
use super::errors::refusal;
use super::keys::keys_slot;
use super::state::Caller;
use crate::Error;

impl Cluster {
    /// Sends a command to the node of its keys.
    pub(crate) fn send(&self, item: Item, deadline: Time, repeatable: bool) -> Sent {
        let Item { command, script, leaves } = item;
        if script.is_some() {
            let slot =
                keys_slot(&[Item { command: command.clone(), script: script.clone(), leaves }]);
            let slot = match slot {
                Ok(slot) => slot,
                Err(error) => return Sent::Refused(error),
            };
            let how = How { slot: Some(slot), repeatable, ..How::default() };
            let body = Body::One(Item { command, script, leaves });
            return self.submit(Command::new("EVAL"), how, deadline, Some(body));
        }
        let from_replica = self.config.replica_reads;
        self.submit(command, How { repeatable, from_replica, ..How::default() }, deadline, None)
    }

    /// Sends a list that runs as a whole to the node of all its keys.
    pub(crate) fn send_atomic(&self, items: Vec<Item>, deadline: Time) -> Sent {
        match keys_slot(&items) {
            Ok(slot) => {
                let how = How { slot: Some(slot), ..How::default() };
                self.submit(Command::new("MULTI"), how, deadline, Some(Body::Atomic(items)))
            }
            Err(error) => Sent::Refused(error),
        }
    }

    /// Subscribes to a sharded channel at the node that has its hash slot.
    pub(super) fn subscribe(&self, name: &[u8]) -> Sent {
        self.call(Time::NEVER, None, |router, now, token| router.subscribe(now, token, name, None))
    }

    fn submit(&self, command: Command, how: How, deadline: Time, body: Option<Body>) -> Sent {
        self.call(deadline, body, |router, now, token| {
            router.submit(now, token, command, How { deadline: Some(deadline), ..how })
        })
    }

    fn call(
        &self,
        deadline: Time,
        body: Option<Body>,
        submit: impl FnOnce(&mut Router, Time, Token) -> Result<(), Refused>,
    ) -> Sent {
        self.with(|state, now| {
            if state.closed {
                let because = state.closed_because.clone();
                return Sent::Refused(because.unwrap_or_else(super::super::link::closed));
            }
            let token = state.next_caller;
            state.next_caller += 1;
            let caller = Caller::new(deadline, body);
            let cell = caller.cell.clone();
            state.callers.insert(token, caller);
            match submit(&mut state.router, now, Token(token)) {
                Ok(()) => Sent::Cluster(cell),
                Err(refused) => {
                    state.callers.remove(&token);
                    Sent::Refused(refusal(&refused))
                }
            }
        })
    }

    /// The node that has a key.
    pub(crate) fn node_of_key(&self, key: &[u8]) -> Result<Arc<Node>, Error> {
        Ok(self.node_at(Some(slot_of(key)))?.1)
    }
}
