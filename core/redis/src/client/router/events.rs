//! What the host reports, and what the router does about it.

use bytes::Bytes;
use onetrip_engine::{Outcome, Time, Token, memory};

use super::failed::{Failed, Why};
use super::flight::{Flight, FlightId, From, Goal};
use super::gather::error_text;
use super::list::refusal_of_list;
use super::{Output, Router};
use crate::client::topology::Topology;

impl Router {
    /// The whole reply to a flight has come, without attributes. The reply to ASKING is not
    /// reported. Ignored if the flight has ended.
    pub fn handle_reply(&mut self, now: Time, flight: FlightId, reply: Bytes) {
        let Some(from) = self.land(flight) else { return };
        if let Some(flight) = self.flights.get_mut(flight.0) {
            flight.was_served(now);
        }
        if !self.is_dropped(flight) {
            self.replied(now, flight, from, reply);
        }
        self.after_reply(now, from);
    }

    /// Like [`handle_reply`](Self::handle_reply), for a host that keeps the reply. If the answer is
    /// true, the host answers the command with it, and no [`Output::Finish`] follows.
    pub fn handle_reply_in_place(&mut self, now: Time, flight: FlightId, reply: &[u8]) -> bool {
        if !self.is_whole(flight) || error_text(reply).is_some() {
            let kept = match self.token(flight) {
                Some(_) => memory::copy(reply),
                None => Some(Bytes::new()),
            };
            match kept {
                Some(reply) => self.handle_reply(now, flight, reply),
                None => {
                    let failed = Failed::new(Outcome::Unknown, Why::NoMemory);
                    self.ended_early(now, flight, failed);
                }
            }
            return false;
        }
        let Some(from) = self.land(flight) else { return false };
        if let Some(flight) = self.flights.remove(flight.0) {
            self.requests.remove(flight.request);
        }
        self.after_reply(now, from);
        true
    }

    /// The same for MULTI, a list of commands and EXEC. `replies` are all replies, one after the
    /// other; those that are not errors may be shortened.
    pub fn handle_list_in_place(&mut self, now: Time, flight: FlightId, replies: &[u8]) -> bool {
        self.handle_reply_in_place(now, flight, refusal_of_list(replies).unwrap_or(b"+OK\r\n"))
    }

    /// Whether the flight is a whole command, and a caller waits for it.
    fn is_whole(&self, flight: FlightId) -> bool {
        let is_plain = |flight: &&Flight| flight.sent.is_some() && !flight.subscribes;
        let flight = self.flights.get(flight.0).filter(is_plain);
        let request = flight.and_then(|flight| self.requests.get(flight.request));
        request.is_some_and(|request| request.gather.is_none())
    }

    /// Drops a flight that no caller waits for. Returns whether it was one.
    fn is_dropped(&mut self, flight: FlightId) -> bool {
        let is_dropped = self.token(flight).is_none();
        if is_dropped {
            self.flights.remove(flight.0);
        }
        is_dropped
    }

    /// A flight has no reply, because its connection was lost or could not be opened. Ignored if
    /// the flight has ended.
    pub fn handle_failed(&mut self, now: Time, flight: FlightId, outcome: Outcome) {
        let Some(from) = self.land(flight) else { return };
        self.refresh.want(now);
        match outcome {
            _ if self.is_dropped(flight) => {}
            Outcome::NotSent => self.unsent(now, flight, from),
            _ => {
                if let Some(flight) = self.flights.get_mut(flight.0) {
                    flight.was_served(now);
                }
                self.lost(now, flight, outcome);
            }
        }
        self.after(now, from);
    }

    /// A flight has no reply, because its deadline passed on its connection, or since it waited for
    /// one for as long as the host lets it: then it goes on if its own deadline has not come. Ignored
    /// if the flight has ended.
    pub fn handle_expired(&mut self, now: Time, flight: FlightId, outcome: Outcome) {
        let deadline = self.flights.get(flight.0).map_or(Time::ZERO, |flight| flight.deadline);
        if outcome == Outcome::NotSent && now < deadline {
            return self.handle_failed(now, flight, outcome);
        }
        self.ended_early(now, flight, Failed::new(outcome, Why::Deadline));
    }

    /// A flight was taken back from its connection before it was sent, because its caller gives it
    /// up.
    pub fn handle_taken_back(&mut self, now: Time, flight: FlightId) {
        self.ended_early(now, flight, Failed::new(Outcome::NotSent, Why::GivenUp));
    }

    fn ended_early(&mut self, now: Time, id: FlightId, failed: Failed) {
        let Some(from) = self.land(id) else { return };
        let outcome = self.flights.get_mut(id.0).map_or(failed.outcome, |flight| {
            flight.note(failed.outcome);
            flight.outcome
        });
        self.end(id, Err(Failed { outcome, ..failed }));
        self.after(now, from);
    }

    /// The caller of a command no longer waits for it. The command ends, and a later reply is
    /// dropped. Parts of it that were sent may run.
    pub fn give_up(&mut self, now: Time, token: Token) {
        let requests = &self.requests;
        let is_its = |flight: &Flight| {
            requests.get(flight.request).is_some_and(|request| request.token == token)
        };
        let flights = self.flights.keys(is_its);
        self.lanes.take(&|held| flights.contains(&held.flight.0));
        for key in flights {
            let Some(flight) = self.flights.get(key) else { continue };
            let (request, part) = (flight.request, flight.part);
            if flight.sent.is_none() {
                self.end_held(FlightId(key), Why::GivenUp);
            } else {
                let failed = Failed::new(Outcome::Unknown, Why::GivenUp);
                self.conclude(request, part, Err(failed));
            }
        }
        for early in self.take_early(&|early| early.token == token) {
            self.finish(early.token, Err(Failed::new(Outcome::NotSent, Why::GivenUp)));
        }
        self.pump_all(now);
    }

    /// Nothing is sent any more. Commands that wait here end now; those in flight end when the host
    /// reports it.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.end_all_held(Why::Closed);
    }

    /// The answer to [`Output::Refresh`].
    pub fn handle_topology(&mut self, now: Time, topology: &Topology) {
        self.refresh.done(now);
        for (node, address) in self.nodes.update(topology) {
            self.outputs.push_back(Output::Open { node, address });
        }
        let (has_moved, has_left) = self.lanes.follow(topology, &self.nodes);
        if has_moved {
            self.refresh.want(now);
        }
        if has_left {
            self.note_left_behind();
        }
        self.follow_channels();
        self.settle_redirects(now);
        self.open_lobby(now);
        self.pump_all(now);
        self.close_nodes();
        // A slot that no node has may get one soon, or another one if its node can't be reached.
        let is_stuck = |slot| self.is_unserved(Some(slot)) || self.is_cut_off(slot);
        if self.lanes.busy().into_iter().any(is_stuck) {
            self.refresh.want(now);
        }
        self.decide(now);
    }

    /// The topology could not be had. Other nodes are asked, the first time at once and then after
    /// a pause. If there has never been an answer, the commands that wait for one end.
    pub fn handle_no_topology(&mut self, now: Time) {
        if std::mem::take(&mut self.refresh.asked_one) {
            return self.outputs.push_back(Output::Refresh { from: None });
        }
        self.refresh.failed(now);
        if !self.refresh.was_answered {
            self.end_all_held(Why::Unserved);
        }
        self.decide(now);
    }

    /// The time is now `now`; does what is due.
    pub fn handle_time(&mut self, now: Time) {
        if now >= self.next_look {
            self.next_look = Time::NEVER;
            self.expire(now);
            self.pump_all(now);
            self.look_again(now);
        }
        self.decide(now);
    }

    /// The last step of each call: asks for the topology if it is time.
    pub(super) fn decide(&mut self, now: Time) {
        if !self.is_closed {
            self.subscribe_again(now);
        }
        if !self.is_closed && self.refresh.begins(now) {
            let from = self.nodes.next_master();
            self.lanes.forget_moved();
            self.refresh.asked_one = from.is_some();
            self.outputs.push_back(Output::Refresh { from });
        }
    }

    fn after(&mut self, now: Time, from: From) {
        self.nodes.answered(from.node);
        if let Goal::Slot(slot) = from.goal {
            self.pump(now, slot);
        }
        self.pump_loose(now);
        self.close_nodes();
        self.decide(now);
    }

    /// The same where a node has answered, so that it can be reached.
    fn after_reply(&mut self, now: Time, from: From) {
        if self.nodes.reached(from.node) {
            self.pump_all(now);
        }
        self.after(now, from);
    }

    pub(super) fn pump_all(&mut self, now: Time) {
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
