//! Blocking commands, each on a connection of its own, which find their node while their hash slot
//! moves.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use onetrip_engine::{Outcome, Retry, Time};
use onetrip_redis::Spec;
use onetrip_redis::client::router::{self, NodeId, Onward, slot_of_keys};

use super::super::call::{Body, Call, Item};
use super::super::frames::Frames;
use super::super::node::Node;
use super::super::pipeline::checked;
use super::super::place;
use super::Cluster;
use super::errors::refusal;
use crate::{Error, Kind};

/// A command on a connection of its own.
pub(crate) struct Roaming {
    cluster: Arc<Cluster>,
    item: Item,
    deadline: Time,
    /// The hash slot of its keys.
    slot: Option<u16>,
    /// The node that it was sent to.
    at: NodeId,
    /// Whether it was sent behind ASKING.
    is_asking: bool,
    redirects: u32,
    retry: Retry,
}

/// What happens to it next.
pub(crate) enum Next {
    /// It waits for a connection.
    Sent(Arc<place::Cell>),
    /// It is sent again after a pause.
    Pause(Duration),
    Failed(Error),
}

impl Cluster {
    /// Sends a command on a connection of its own to the node that has its keys.
    pub(crate) fn send_own(
        self: &Arc<Self>,
        item: Item,
        deadline: Time,
    ) -> Result<(Arc<place::Cell>, Box<Roaming>), Error> {
        let slot = match Spec::of(&item.command) {
            Some(spec) => slot_of_keys(&mut spec.keys(&item.command)).map_err(|it| refusal(&it))?,
            None => None,
        };
        let (at, node) = self.node_at(slot)?;
        // The pauses differ between clients, so that their commands don't all come back together.
        let limits = router::Limits::default().retry;
        let retry = Retry::new(limits, self.seed ^ u64::from(slot.unwrap_or_default()));
        let cluster = self.clone();
        let roaming =
            Roaming { cluster, item, deadline, slot, at, is_asking: false, redirects: 0, retry };
        Ok((roaming.send(&node), Box::new(roaming)))
    }

    /// The node that has this hash slot; any node if there is none.
    pub(super) fn node_at(&self, slot: Option<u16>) -> Result<(NodeId, Arc<Node>), Error> {
        let state = self.lock();
        let id = match slot {
            Some(slot) => state.router.node_of(slot),
            None => state.nodes.keys().next().copied(),
        };
        let node = id.and_then(|id| Some((id, state.nodes.get(&id)?.clone())));
        node.ok_or_else(|| {
            let message = "no node of the cluster has the hash slot of the keys at the moment";
            Error::new(Kind::Transport, Outcome::NotSent, "unserved_slot", message)
        })
    }
}

impl Roaming {
    fn send(&self, node: &Node) -> Arc<place::Cell> {
        // Sent as a list, so that an error is among the replies and its text is kept.
        let body = Body::Many(vec![self.item.clone()]);
        let body = if self.is_asking { Body::Asking(Box::new(body)) } else { body };
        node.send_own(Call::of(body, self.deadline))
    }

    /// Its replies came. `Ok` if it goes on from there; otherwise its result.
    pub(crate) fn next(&mut self, block: Bytes) -> Result<Next, Result<Bytes, Error>> {
        let frame = if self.is_asking { Frames::behind_first(block) } else { block };
        match self.onward(&frame) {
            Some(next) => Ok(next),
            None => Err(checked(frame, self.item.leaves, true)),
        }
    }

    fn onward(&mut self, frame: &[u8]) -> Option<Next> {
        let (slot, at) = (self.slot?, self.at);
        // Most replies are not errors, and need no lock that others wait for.
        if !frame.starts_with(b"-") && !frame.starts_with(b"!") {
            return None;
        }
        let refused =
            self.cluster.with(|state, now| state.router.handle_refused(now, slot, at, frame));
        match refused? {
            Onward::Later => self.retry.failed().map(Next::Pause),
            Onward::To { node, asking } => {
                self.redirects += 1;
                let max = self.cluster.config.limits.redirects_max;
                (self.redirects <= max).then(|| self.go_to(node, asking))
            }
        }
    }

    fn go_to(&mut self, id: NodeId, is_asking: bool) -> Next {
        let node = self.cluster.lock().nodes.get(&id).cloned();
        let Some(node) = node else { return self.resend() };
        (self.at, self.is_asking) = (id, is_asking);
        Next::Sent(self.send(&node))
    }

    /// Sends it again to the node that has its hash slot.
    pub(crate) fn resend(&mut self) -> Next {
        match self.cluster.node_at(self.slot) {
            Ok((at, node)) => {
                (self.at, self.is_asking) = (at, false);
                Next::Sent(self.send(&node))
            }
            Err(error) => match self.retry.failed() {
                Some(pause) => Next::Pause(pause),
                None => Next::Failed(error.with_outcome(Outcome::Rejected)),
            },
        }
    }

    /// This pause, or the time until its deadline if that is shorter.
    pub(crate) fn until_deadline(&self, pause: Duration) -> Duration {
        pause.min(self.deadline.since(self.cluster.now()))
    }
}
