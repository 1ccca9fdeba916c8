//! Flights: how one is sent, held and ended.

use bytes::Bytes;
use onetrip_engine::{Outcome, Time};

use super::failed::{Failed, Why};
use super::flight::{Flight, FlightId, From, Goal, Sent};
use super::gather::error_text;
use super::lanes::{Held, To};
use super::nodes::NodeId;
use super::slab::Key;
use super::{Output, Router};

impl Router {
    /// Sends a new flight, or holds it.
    pub(super) fn launch(&mut self, now: Time, mut flight: Flight) {
        flight.number = self.next;
        flight.since = now;
        self.next += 1;
        let (goal, from_replica, own) = (flight.goal, flight.from_replica, flight.own);
        let id = FlightId(self.flights.insert(flight));
        match goal {
            Goal::Slot(slot) => match self.lanes.route(slot) {
                Some(node) if own => self.send(now, id, node, false, None),
                Some(master) if from_replica => {
                    let node = self.nodes.next_replica(master, now);
                    self.send_or_hold(now, id, Some(node));
                }
                Some(node) if self.is_open(slot, now) => {
                    let turn = self.lanes.sent(slot);
                    self.send(now, id, node, false, Some(turn));
                }
                _ => self.hold(now, id, now, To::Route),
            },
            Goal::Any => {
                let node = self.nodes.next_taker(now);
                self.send_or_hold(now, id, node);
            }
            Goal::Node(node) => self.send_or_hold(now, id, Some(node)),
        }
    }

    /// Whether a new command of this slot may be sent at once.
    pub(super) fn is_open(&self, slot: u16, now: Time) -> bool {
        let takes = |node| self.nodes.takes(node, now);
        self.lanes.is_open(slot) && self.lanes.route(slot).is_some_and(takes)
    }

    /// Sends a flight outside of the order, or holds it while the node can't be reached.
    fn send_or_hold(&mut self, now: Time, id: FlightId, node: Option<NodeId>) {
        match node.filter(|node| self.nodes.takes(*node, now)) {
            Some(node) => self.send(now, id, node, false, None),
            None => self.hold(now, id, now, To::Route),
        }
    }

    pub(super) fn send(
        &mut self,
        now: Time,
        id: FlightId,
        node: NodeId,
        asking: bool,
        turn: Option<u32>,
    ) {
        let Some(flight) = self.flights.get_mut(id.0) else { return };
        let connection = self.nodes.next_connection(node);
        // One of its own may stay blocked for ever, which tells nothing.
        let is_try = !flight.own && self.nodes.tries(node);
        flight.sent = Some(Sent { node, turn, connection, at: now, is_try });
        self.nodes.sent(node);
        self.outputs.push_back(Output::Send { flight: id, node, asking });
    }

    /// A flight was answered or failed. `None` if it has ended, or was not in flight.
    pub(super) fn land(&mut self, id: FlightId) -> Option<From> {
        let flight = self.flights.get_mut(id.0)?;
        let sent = flight.sent.take()?;
        flight.last = Some(sent);
        if sent.is_try {
            self.nodes.tried(sent.node);
        }
        let (goal, number) = (flight.goal, flight.number);
        let mut outdated = false;
        if let (Goal::Slot(slot), Some(turn)) = (goal, sent.turn) {
            outdated = !self.lanes.answered(slot, turn, number);
        }
        Some(From { node: sent.node, goal, outdated })
    }

    /// Whether a later command was sent for the same slot.
    pub(super) fn is_followed(&self, id: FlightId) -> bool {
        let Some(flight) = self.flights.get(id.0) else { return false };
        let is_behind = |other: &Flight| {
            other.sent.is_some() && other.goal == flight.goal && other.number > flight.number
        };
        self.flights.iter().any(is_behind)
    }

    /// Slots have moved. Notes which flights are unanswered at the nodes that had them before.
    pub(super) fn note_left_behind(&mut self) {
        for flight in self.flights.iter() {
            if let (Goal::Slot(slot), Some(Sent { turn: Some(turn), .. })) =
                (flight.goal, flight.sent)
                && !self.lanes.is_turn(slot, turn)
            {
                self.lanes.left_behind(slot, flight.number);
            }
        }
    }

    /// Puts a flight into its place among those that wait.
    pub(super) fn hold(&mut self, now: Time, id: FlightId, until: Time, to: To) {
        let Some(flight) = self.flights.get(id.0) else { return };
        if self.is_closed {
            return self.end_held(id, Why::Closed);
        }
        let (slot, node) = match flight.goal {
            Goal::Slot(slot) => (Some(slot), self.lanes.route(slot)),
            Goal::Node(node) => (None, Some(node)),
            Goal::Any => (None, None),
        };
        let lane = slot.filter(|_| !flight.own);
        let Flight { number, again, deadline, since, .. } = *flight;
        let held = Held { flight: id, slot, number, again, until, since, deadline, to };
        self.lanes.hold(lane, held);
        let expires = since.after(self.limits.held_time_max).min(deadline);
        self.look_at(if until > now { until.min(expires) } else { expires });
        if self.is_unserved(slot) || node.is_some_and(|node| self.nodes.is_away(node)) {
            self.refresh.want(now);
        }
    }

    /// Whether no node is known that has this slot; without a slot, whether no node is known at
    /// all.
    pub(super) fn is_unserved(&self, slot: Option<u16>) -> bool {
        slot.map_or(self.nodes.is_empty(), |slot| self.lanes.route(slot).is_none())
    }

    /// Whether the node that has this slot can't be reached.
    pub(super) fn is_cut_off(&self, slot: u16) -> bool {
        self.lanes.route(slot).is_some_and(|node| self.nodes.is_away(node))
    }

    /// Sends the commands of a slot queue that may be sent.
    pub(super) fn pump(&mut self, now: Time, slot: u16) {
        loop {
            let Router { lanes, nodes, .. } = self;
            let next = lanes.next(slot, now, &|node| nodes.takes(node, now));
            let Some(held) = next else { return };
            match held.to {
                // Its caller no longer waits for it.
                _ if held.deadline <= now => self.end_held(held.flight, Why::Deadline),
                To::Ask(node) if self.nodes.is_part(node) => {
                    self.send(now, held.flight, node, true, None);
                }
                _ => {
                    let Some(node) = self.lanes.route(slot) else {
                        self.hold(now, held.flight, now, To::Route);
                        continue;
                    };
                    let turn = self.lanes.sent(slot);
                    self.send(now, held.flight, node, false, Some(turn));
                }
            }
        }
    }

    /// Sends the commands outside of the order that may be sent.
    pub(super) fn pump_loose(&mut self, now: Time) {
        for held in self.lanes.take_loose(now, self.nodes.is_empty()) {
            let Some(flight) = self.flights.get(held.flight.0) else { continue };
            let (goal, own) = (flight.goal, flight.own);
            if held.deadline <= now {
                self.end_held(held.flight, Why::Deadline);
                continue;
            }
            let node = match goal {
                Goal::Node(node) if !self.nodes.is_part(node) => {
                    self.end_held(held.flight, Why::Unserved);
                    continue;
                }
                Goal::Node(node) => Some(node),
                Goal::Slot(slot) => self.lanes.route(slot),
                Goal::Any => self.nodes.next_taker(now),
            };
            match node {
                Some(node) if own => self.send(now, held.flight, node, false, None),
                node => self.send_or_hold(now, held.flight, node),
            }
        }
    }

    /// Ends commands that have waited too long.
    pub(super) fn expire(&mut self, now: Time) {
        let max = self.limits.held_time_max;
        for held in self.lanes.take_older(now, max) {
            self.end_held(
                held.flight,
                match held.slot {
                    _ if held.deadline <= now => Why::Deadline,
                    Some(slot) if self.is_cut_off(slot) => Why::Lost,
                    _ => Why::Unserved,
                },
            );
        }
        for early in self.take_early(&|early| early.ends(max) <= now) {
            let is_late = early.deadline() <= now;
            let why = if is_late { Why::Deadline } else { Why::Unserved };
            self.finish(early.token, Err(Failed::new(Outcome::NotSent, why)));
        }
    }

    /// Ends a flight that waits here.
    pub(super) fn end_held(&mut self, id: FlightId, why: Why) {
        let Some(flight) = self.flights.get_mut(id.0) else { return };
        let failed = Failed::new(flight.outcome, why);
        let reply = flight.refusal.take().filter(|_| why == Why::Unserved);
        self.end(id, reply.ok_or(failed));
    }

    /// Ends everything that waits here.
    pub(super) fn end_all_held(&mut self, why: Why) {
        for held in self.lanes.take(&|_| true) {
            self.end_held(held.flight, why);
        }
        for early in self.take_early(&|_| true) {
            self.finish(early.token, Err(Failed::new(Outcome::NotSent, why)));
        }
    }

    /// Sets when a held flight needs attention next.
    pub(super) fn look_again(&mut self, now: Time) {
        let max = self.limits.held_time_max;
        let early = self.lobby.iter().map(|early| early.ends(max)).min().unwrap_or(Time::NEVER);
        let held = self.lanes.next_look(now, max);
        self.look_at(early.min(held).min(self.nodes.next_try(now)));
    }

    /// A flight has ended, and perhaps its command.
    pub(super) fn end(&mut self, id: FlightId, result: Result<Bytes, Failed>) {
        let Some(flight) = self.flights.remove(id.0) else { return };
        let result = flight.with_outcome(result);
        if flight.subscribes {
            let is_confirmed = result.as_ref().is_ok_and(|reply| error_text(reply).is_none());
            self.subscribed(&flight, is_confirmed);
        }
        self.conclude(flight.request, flight.part, result);
    }

    /// A part of a command has ended.
    pub(super) fn conclude(&mut self, id: Key, part: usize, result: Result<Bytes, Failed>) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let whole = match &mut request.gather {
            None => Some(result),
            Some(gather) => gather.put(part, result),
        };
        if let Some(result) = whole {
            let token = request.token;
            self.requests.remove(id);
            self.finish(token, result);
        }
    }
}
