//! Commands on their way, and how one is sent, held and ended.

use bytes::Bytes;
use onetrip_engine::{Outcome, Retry, Time, Token};

use super::failed::{Failed, Why};
use super::gather::{Gather, error_text};
use super::lanes::{Held, To};
use super::nodes::NodeId;
use super::slab::Key;
use super::{How, Output, Router};
use crate::command::Command;
use crate::table::Spec;

/// A command that goes to one node, or the part of one that goes there. Never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlightId(pub(super) Key);

/// What a caller submitted.
pub(super) struct Request {
    pub(super) token: Token,
    /// Where the replies of several flights come together.
    pub(super) gather: Option<Box<Gather>>,
}

pub(super) struct Flight {
    pub(super) command: Command,
    pub(super) goal: Goal,
    pub(super) repeatable: bool,
    from_replica: bool,
    /// It has a connection of its own, and no place in any order.
    pub(super) own: bool,
    deadline: Time,
    /// It may have done something before its error: it runs a script, or what nobody here knows.
    pub(super) leaves: bool,
    /// A node refused it, or the way to one failed, so that it goes in front of what is new.
    pub(super) again: bool,
    pub(super) outcome: Outcome,
    pub(super) redirects: u32,
    pub(super) retry: Option<Box<Retry>>,
    pub(super) request: Key,
    pub(super) part: usize,
    /// Its place in the order of what was submitted.
    number: u64,
    pub(super) sent: Option<Sent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// The node that has this slot.
    Slot(u16),
    /// Any master.
    Any,
    /// This one.
    Node(NodeId),
}

#[derive(Clone, Copy)]
pub(super) struct Sent {
    node: NodeId,
    /// How often its slot had changed hands by then, where its order counts.
    turn: Option<u32>,
}

/// Where a flight was that was answered.
#[derive(Clone, Copy)]
pub(super) struct From {
    pub(super) node: NodeId,
    pub(super) goal: Goal,
    /// Its slot has gone to another node since it was sent.
    pub(super) outdated: bool,
}

impl Flight {
    pub(super) fn new(request: Key, part: usize, command: Command, goal: Goal, how: How) -> Flight {
        Flight {
            goal,
            repeatable: how.repeatable,
            from_replica: how.from_replica,
            own: how.own,
            deadline: how.deadline.unwrap_or(Time::NEVER),
            leaves: Spec::of(&command).is_none_or(Spec::may_leave_effects),
            command,
            again: false,
            outcome: Outcome::NotSent,
            redirects: 0,
            retry: None,
            request,
            part,
            number: 0,
            sent: None,
        }
    }

    /// A node refused it, so it had no effect there.
    pub(super) fn refused(&mut self) {
        self.again = true;
        if self.outcome == Outcome::NotSent {
            self.outcome = Outcome::Rejected;
        }
    }
}

impl Flight {
    /// What is known of it in the end: an attempt that was lost may have run, whatever was said of a later one.
    fn with_outcome(&self, result: Result<Bytes, Failed>) -> Result<Bytes, Failed> {
        let outcome = Outcome::Unknown;
        match result {
            result if self.outcome != outcome => result,
            Ok(reply) if error_text(&reply).is_none() => Ok(reply),
            Ok(reply) => Err(Failed { reply: Some(reply), ..Failed::new(outcome, Why::Server) }),
            Err(failed) => Err(Failed { outcome, ..failed }),
        }
    }
}

impl Router {
    /// Sends a new flight, or holds it.
    pub(super) fn launch(&mut self, now: Time, mut flight: Flight) {
        flight.number = self.next;
        self.next += 1;
        let (goal, from_replica, own) = (flight.goal, flight.from_replica, flight.own);
        let id = FlightId(self.flights.insert(flight));
        match goal {
            Goal::Slot(slot) => match self.lanes.route(slot) {
                Some(node) if own => self.send(id, node, false, None),
                Some(master) if from_replica => {
                    let node = self.nodes.next_replica(master);
                    self.send(id, node, false, None);
                }
                Some(node) if self.lanes.is_open(slot) => {
                    let turn = self.lanes.sent(slot);
                    self.send(id, node, false, Some(turn));
                }
                _ => self.hold(now, id, now, To::Route),
            },
            Goal::Any => match self.nodes.next_master() {
                Some(node) => self.send(id, node, false, None),
                None => self.hold(now, id, now, To::Route),
            },
            Goal::Node(node) => self.send(id, node, false, None),
        }
    }

    pub(super) fn send(&mut self, id: FlightId, node: NodeId, asking: bool, turn: Option<u32>) {
        let Some(flight) = self.flights.get_mut(id.0) else { return };
        flight.sent = Some(Sent { node, turn });
        self.nodes.sent(node);
        self.outputs.push_back(Output::Send { flight: id, node, asking });
    }

    /// A flight came back. `None` where it has ended, or was not sent.
    pub(super) fn land(&mut self, id: FlightId) -> Option<From> {
        let flight = self.flights.get_mut(id.0)?;
        let sent = flight.sent.take()?;
        let (goal, number) = (flight.goal, flight.number);
        let mut outdated = false;
        if let (Goal::Slot(slot), Some(turn)) = (goal, sent.turn) {
            outdated = !self.lanes.answered(slot, turn, number);
        }
        Some(From { node: sent.node, goal, outdated })
    }

    /// Whether something that was submitted later was sent for the same slot.
    pub(super) fn is_followed(&self, id: FlightId) -> bool {
        let Some(flight) = self.flights.get(id.0) else { return false };
        let is_behind = |other: &Flight| {
            other.sent.is_some() && other.goal == flight.goal && other.number > flight.number
        };
        self.flights.iter().any(is_behind)
    }

    /// Slots have changed hands: what is unanswered at those that had them is kept in mind.
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
        let slot = if let Goal::Slot(slot) = flight.goal { Some(slot) } else { None };
        let lane = slot.filter(|_| !flight.own);
        let Flight { number, again, deadline, .. } = *flight;
        let held = Held { flight: id, slot, number, again, until, since: now, deadline, to };
        self.lanes.hold(lane, held);
        let expires = now.after(self.limits.held_time_max).min(deadline);
        self.look_at(if until > now { until.min(expires) } else { expires });
        if self.is_unserved(slot) {
            self.refresh.want(now);
        }
    }

    /// Whether nobody is known who has this slot, or, without one, nobody at all.
    pub(super) fn is_unserved(&self, slot: Option<u16>) -> bool {
        slot.map_or(self.nodes.is_empty(), |slot| self.lanes.route(slot).is_none())
    }

    /// Sends what may go of a lane.
    pub(super) fn pump(&mut self, now: Time, slot: u16) {
        while let Some(held) = self.lanes.next(slot, now) {
            match held.to {
                To::Ask(node) if self.nodes.is_part(node) => {
                    self.send(held.flight, node, true, None);
                }
                _ => {
                    let Some(node) = self.lanes.route(slot) else {
                        self.hold(now, held.flight, now, To::Route);
                        continue;
                    };
                    let turn = self.lanes.sent(slot);
                    self.send(held.flight, node, false, Some(turn));
                }
            }
        }
    }

    /// Sends what may go of those outside of the order.
    pub(super) fn pump_loose(&mut self, now: Time) {
        for held in self.lanes.take_loose(now, self.nodes.is_empty()) {
            let goal = self.flights.get(held.flight.0).map(|flight| flight.goal);
            let node = match goal {
                Some(Goal::Node(node)) => Some(node).filter(|node| self.nodes.is_part(*node)),
                Some(Goal::Slot(slot)) => self.lanes.route(slot),
                _ => self.nodes.next_master(),
            };
            match node {
                Some(node) => self.send(held.flight, node, false, None),
                None => self.end_held(held.flight, Why::Unserved),
            }
        }
    }

    /// Ends what has waited too long.
    pub(super) fn expire(&mut self, now: Time) {
        let max = self.limits.held_time_max;
        for held in self.lanes.take_older(now, max) {
            let is_late = held.deadline <= now;
            self.end_held(held.flight, if is_late { Why::Deadline } else { Why::Unserved });
        }
        for early in self.take_early(&|early| early.ends(max) <= now) {
            let is_late = early.deadline() <= now;
            let why = if is_late { Why::Deadline } else { Why::Unserved };
            self.finish(early.token, Err(Failed::new(Outcome::NotSent, why)));
        }
    }

    /// Ends what waits here.
    pub(super) fn end_held(&mut self, id: FlightId, why: Why) {
        let Some(flight) = self.flights.get(id.0) else { return };
        let outcome = flight.outcome;
        self.end(id, Err(Failed::new(outcome, why)));
    }

    /// Ends all that waits here.
    pub(super) fn end_all_held(&mut self, why: Why) {
        for held in self.lanes.take(&|_| true) {
            self.end_held(held.flight, why);
        }
        for early in self.take_early(&|_| true) {
            self.finish(early.token, Err(Failed::new(Outcome::NotSent, why)));
        }
    }

    /// When something that is held has to be looked at.
    pub(super) fn look_again(&mut self, now: Time) {
        let max = self.limits.held_time_max;
        let early = self.lobby.iter().map(|early| early.ends(max)).min().unwrap_or(Time::NEVER);
        let held = self.lanes.next_look(now, max);
        self.look_at(early.min(held));
    }

    /// A flight is over, and perhaps the command with it.
    pub(super) fn end(&mut self, id: FlightId, result: Result<Bytes, Failed>) {
        let Some(flight) = self.flights.remove(id.0) else { return };
        let result = flight.with_outcome(result);
        self.conclude(flight.request, flight.part, result);
    }

    /// It is known what becomes of a part of a command.
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
