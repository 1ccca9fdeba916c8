//! Commands on connections of their own, outside of the order: those that block. A host may also
//! send such commands without the router.

use bytes::Bytes;
use onetrip_engine::Time;

use super::Router;
use super::flight::{FlightId, From, Goal};
use super::gather::error_text;
use super::nodes::NodeId;
use crate::redirect::{Address, Redirect, RedirectKind};

/// Where to send a command that a node refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// To this node, with ASKING in front if `asking` says so.
    To {
        /// The node.
        node: NodeId,
        /// Whether to send ASKING directly in front of it.
        asking: bool,
    },
    /// After a pause, to the node that [has the slot](Router::node_of) by then. The topology is
    /// asked for meanwhile.
    Later,
}

impl Router {
    /// A node gave this reply to a command with keys of this hash slot, which the host sent there
    /// itself. The router learns what the reply says about the cluster, and applies it to commands
    /// held for the slot.
    ///
    /// `None` if the reply is no refusal, so that it is the command's reply. The host must limit
    /// how often it sends a command on.
    pub fn handle_refused(
        &mut self,
        now: Time,
        slot: u16,
        from: NodeId,
        reply: &[u8],
    ) -> Option<Onward> {
        let error = error_text(reply)?;
        // A node that has left since may mean itself by a redirect without a host. No host has this
        // name, so the topology is asked for then.
        let address = self.nodes.address(from).cloned().or_else(|| Address::new("-", 1));
        let redirect = address.and_then(|address| Redirect::parse(error, &address));
        let onward = match redirect.filter(|redirect| redirect.slot == slot) {
            Some(redirect) => self.onward(now, from, &redirect),
            None => match error.split(|&byte| byte == b' ').next() {
                Some(b"CLUSTERDOWN" | b"MASTERDOWN") => {
                    self.refresh.want(now);
                    Onward::Later
                }
                Some(b"TRYAGAIN" | b"LOADING") => Onward::Later,
                // A node that becomes a replica sends this to the clients that it blocks; a user's
                // CLIENT UNBLOCK gives another text.
                Some(b"UNBLOCKED") if error.starts_with(b"UNBLOCKED force") => {
                    self.refresh.want(now);
                    Onward::Later
                }
                _ => return None,
            },
        };
        self.pump(now, slot);
        self.decide(now);
        Some(onward)
    }

    /// A node gave this reply to a command on a connection of its own.
    pub(super) fn replied_alone(&mut self, now: Time, id: FlightId, from: From, reply: Bytes) {
        let onward = match from.goal {
            Goal::Slot(slot) => self.handle_refused(now, slot, from.node, &reply),
            Goal::Any | Goal::Node(_) => None,
        };
        match onward {
            Some(Onward::To { node, asking }) if self.refused(id) <= self.limits.redirects_max => {
                return self.send(now, id, node, asking, None);
            }
            Some(Onward::Later) => {
                if let Some(flight) = self.flights.get_mut(id.0) {
                    flight.refused();
                }
                if let Some(pause) = self.pause(id) {
                    return self.hold_refused(now, id, now.after(pause), reply);
                }
            }
            Some(Onward::To { .. }) | None => {}
        }
        self.end(id, Ok(reply));
    }

    fn onward(&mut self, now: Time, from: NodeId, redirect: &Redirect) -> Onward {
        let known = self.nodes.at(&redirect.address);
        if redirect.kind == RedirectKind::Moved || known.is_none() {
            self.refresh.want(now);
        }
        match (known, redirect.kind) {
            (Some(node), RedirectKind::Ask) => Onward::To { node, asking: true },
            (Some(node), RedirectKind::Moved) => {
                // A node that got the command before the slot moved may know less than we do.
                if self.lanes.route(redirect.slot) == Some(from) {
                    self.moved(redirect.slot, node);
                }
                let node = self.lanes.route(redirect.slot).unwrap_or(node);
                Onward::To { node, asking: false }
            }
            (None, _) => Onward::Later,
        }
    }
}
