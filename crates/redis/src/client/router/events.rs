//! What the host reports, and what follows from it.

use bytes::Bytes;
use onetrip_engine::{Outcome, Time, Token};

use super::failed::Failed;
use super::flights::{FlightId, From, Goal};
use super::{Output, Router};
use crate::client::topology::Topology;

impl Router {
    /// The whole reply to a flight came, without attributes; that of ASKING is not one. Ignored where
    /// the flight has ended.
    pub fn handle_reply(&mut self, now: Time, flight: FlightId, reply: Bytes) {
        let Some(from) = self.land(flight) else { return };
        self.replied(now, flight, from, reply);
        self.after(now, from);
    }

    /// A flight has no reply: its connection was lost, or never was. Ignored where it has ended.
    pub fn handle_failed(&mut self, now: Time, flight: FlightId, outcome: Outcome) {
        let Some(from) = self.land(flight) else { return };
        self.refresh.want(now);
        self.lost(now, flight, outcome);
        self.after(now, from);
    }

    /// The answer to [`Output::Refresh`].
    pub fn handle_topology(&mut self, now: Time, topology: &Topology) {
        let moved = self.refresh.done(now);
        for (node, address) in self.nodes.update(topology) {
            self.outputs.push_back(Output::Open { node, address });
        }
        let sent = self.sent_by_slot();
        self.lanes.follow(topology, &self.nodes, &moved, sent);
        self.settle_redirects(now);
        self.open_lobby(now);
        self.pump_all(now);
        self.close_nodes();
        // What nobody has may be somebody's soon.
        if self.lanes.busy().into_iter().any(|slot| self.is_unserved(Some(slot))) {
            self.refresh.want(now);
        }
        self.decide(now);
    }

    /// The topology could not be had. It is asked for again after a pause, from another node.
    pub fn handle_no_topology(&mut self, now: Time) {
        self.refresh.failed(now);
        self.decide(now);
    }

    /// It is so late now. Does what was due.
    pub fn handle_time(&mut self, now: Time) {
        if now >= self.next_look {
            self.next_look = Time::NEVER;
            self.expire(now);
            self.pump_all(now);
            self.look_again(now);
        }
        self.decide(now);
    }

    /// The last step of each call: whether it is time to ask for the topology.
    pub(super) fn decide(&mut self, now: Time) {
        if self.refresh.begins(now) {
            let from = self.nodes.next_master();
            self.outputs.push_back(Output::Refresh { from });
        }
    }

    fn after(&mut self, now: Time, from: From) {
        self.nodes.answered(from.node);
        if let Goal::Slot(slot) = from.goal {
            self.pump(now, slot);
        }
        self.close_nodes();
        self.decide(now);
    }

    fn pump_all(&mut self, now: Time) {
        for slot in self.lanes.busy() {
            self.pump(now, slot);
        }
        self.pump_loose(now);
    }

    pub(super) fn finish(&mut self, token: Token, result: Result<Bytes, Failed>) {
        self.outputs.push_back(Output::Finish { token, result });
    }

    fn close_nodes(&mut self) {
        while let Some(node) = self.nodes.take_closed() {
            self.outputs.push_back(Output::Close { node });
        }
    }

    pub(super) fn look_at(&mut self, moment: Time) {
        self.next_look = self.next_look.min(moment);
    }
}
