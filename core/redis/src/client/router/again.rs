//! What happens to a flight that a node refused, or whose connection was lost.

use std::time::Duration;

use bytes::Bytes;
use onetrip_engine::{Outcome, Retry, RetryLimits, Time};

use super::Router;
use super::failed::{Failed, Why};
use super::flight::{Flight, FlightId, From, Goal};
use super::gather::error_text;
use super::lanes::To;
use super::nodes::NodeId;
use crate::redirect::{Redirect, RedirectKind};
use crate::refusal;

impl Router {
    pub(super) fn replied(&mut self, now: Time, id: FlightId, from: From, reply: Bytes) {
        let Some(error) = error_text(&reply) else { return self.end(id, Ok(reply)) };
        if self.is_its_own(id, error) {
            return self.end(id, Ok(reply));
        }
        if self.flights.get(id.0).is_some_and(|flight| flight.own) {
            return self.replied_alone(now, id, from, reply);
        }
        if let Some(redirect) = self.redirect(from, error) {
            return self.redirected(now, id, from, redirect, reply);
        }
        match error.split(|&byte| byte == b' ').next() {
            Some(b"CLUSTERDOWN" | b"MASTERDOWN") => self.refresh.want(now),
            Some(b"TRYAGAIN" | b"LOADING") => {}
            Some(b"NOSCRIPT") if self.may_send_text(id, error) => {
                return self.hold(now, id, now, To::Route);
            }
            _ => return self.end(id, Ok(reply)),
        }
        if let Some(flight) = self.flights.get_mut(id.0) {
            flight.refused();
        }
        match self.pause(id) {
            Some(pause) => self.hold_refused(now, id, now.after(pause), reply),
            None => self.end(id, Ok(reply)),
        }
    }

    /// Whether this may be the error of a script that has already written something.
    fn is_its_own(&self, id: FlightId, error: &[u8]) -> bool {
        let leaves = self.flights.get(id.0).is_some_and(|flight| flight.leaves);
        leaves && !refusal::came_before(error)
    }

    /// Whether a script that was called by its hash, and that its node does not know, may be sent
    /// again. The host calls a script by its hash after it has sent its text; it learns only later
    /// if that was redirected. Later commands of the slot must not have been sent.
    fn may_send_text(&mut self, id: FlightId, error: &[u8]) -> bool {
        let by_host = |flight: &Flight| {
            let is_eval = flight.command.name().eq_ignore_ascii_case(b"EVAL");
            is_eval && matches!(flight.goal, Goal::Slot(_))
        };
        self.flights.get(id.0).is_some_and(by_host)
            && refusal::is_no_script(error)
            && !self.is_followed(id)
            && self.refused(id) <= self.limits.redirects_max
    }

    /// Only a redirect of the slot that the command was sent for, to another node, counts: a script
    /// can answer with any error.
    fn redirect(&self, from: From, error: &[u8]) -> Option<Redirect> {
        let Goal::Slot(slot) = from.goal else { return None };
        let redirect = Redirect::parse(error, self.nodes.address(from.node)?)?;
        let leads_away = self.nodes.at(&redirect.address) != Some(from.node);
        (redirect.slot == slot && leads_away).then_some(redirect)
    }

    fn redirected(&mut self, now: Time, id: FlightId, from: From, to: Redirect, reply: Bytes) {
        if self.refused(id) > self.limits.redirects_max {
            let failed = Failed::new(Outcome::Rejected, Why::Redirects);
            return self.end(id, Err(Failed { reply: Some(reply), ..failed }));
        }
        if to.kind == RedirectKind::Moved {
            self.refresh.want(now);
        }
        let to = self.follow(now, from, to);
        self.hold(now, id, now, to);
    }

    /// Where a redirect leads.
    fn follow(&mut self, now: Time, from: From, redirect: Redirect) -> To {
        let Some(node) = self.nodes.at(&redirect.address) else {
            self.refresh.want(now);
            return To::Stranger(Box::new(redirect), self.refresh.next());
        };
        match redirect.kind {
            RedirectKind::Ask => To::Ask(node),
            // A node that got the command before the slot moved may know less than we do.
            RedirectKind::Moved if from.outdated => To::Route,
            RedirectKind::Moved => {
                self.moved(redirect.slot, node);
                To::Route
            }
        }
    }

    pub(super) fn moved(&mut self, slot: u16, node: NodeId) {
        if self.lanes.route(slot) == Some(node) {
            return;
        }
        if self.lanes.give(slot, node) {
            self.note_left_behind();
        }
        if self.refresh.is_running() {
            self.lanes.note_moved(slot);
        }
    }

    /// A topology came that was asked for after the redirects. Redirects to its nodes are followed,
    /// others fail.
    pub(super) fn settle_redirects(&mut self, now: Time) {
        for held in self.lanes.take_strangers(self.refresh.begun()) {
            let To::Stranger(redirect, _) = held.to else { continue };
            match self.nodes.at(&redirect.address) {
                None => {
                    let failed = Failed::new(Outcome::Rejected, Why::Outside);
                    self.end(held.flight, Err(failed));
                }
                Some(node) if redirect.kind == RedirectKind::Ask => {
                    self.hold(now, held.flight, now, To::Ask(node));
                }
                // The topology says which node has the slot by now.
                Some(_) => self.hold(now, held.flight, now, To::Route),
            }
        }
    }

    /// A node does not take it for now, and this was its reply.
    pub(super) fn hold_refused(&mut self, now: Time, id: FlightId, until: Time, reply: Bytes) {
        if let Some(flight) = self.flights.get_mut(id.0) {
            flight.refusal = Some(reply);
        }
        self.hold(now, id, until, To::Route);
    }

    /// A flight was not sent. It goes on for as long as it may wait: at once if another node has its
    /// slot by now, when its node can be reached, or else after a pause.
    pub(super) fn unsent(&mut self, now: Time, id: FlightId, from: From) {
        let (limits, seed) = (&self.limits.retry, self.seed);
        let limits = RetryLimits { attempts_max: u32::MAX, ..limits.clone() };
        let tried = self.nodes.unreached(from.node, now, || Retry::new(limits, seed));
        let Some(flight) = self.flights.get_mut(id.0) else { return };
        flight.again = true;
        let is_gated = tried.is_some() && !flight.own;
        let has_moved = match from.goal {
            Goal::Slot(slot) => self.lanes.route(slot) != Some(from.node),
            Goal::Any | Goal::Node(_) => false,
        };
        tried.into_iter().for_each(|at| self.look_at(at));
        if is_gated || has_moved {
            return self.hold(now, id, now, To::Route);
        }
        let pause = self.pause(id).unwrap_or(self.limits.retry.pause_max);
        self.hold(now, id, now.after(pause), To::Route);
    }

    pub(super) fn lost(&mut self, now: Time, id: FlightId, outcome: Outcome) {
        let Some(flight) = self.flights.get_mut(id.0) else { return };
        let repeats =
            (outcome == Outcome::Unknown && flight.repeatable) || outcome == Outcome::Rejected;
        flight.note(outcome);
        flight.again = true;
        let outcome = flight.outcome;
        match repeats.then(|| self.pause(id)).flatten() {
            Some(pause) => self.hold(now, id, now.after(pause), To::Route),
            None => self.end(id, Err(Failed::new(outcome, Why::Lost))),
        }
    }

    /// Counts a redirect, and returns their number.
    pub(super) fn refused(&mut self, id: FlightId) -> u32 {
        let Some(flight) = self.flights.get_mut(id.0) else { return 0 };
        flight.refused();
        flight.redirects += 1;
        flight.redirects
    }

    /// How long to wait before it is sent again; `None` if it was tried often enough.
    pub(super) fn pause(&mut self, id: FlightId) -> Option<Duration> {
        self.seed = self.seed.wrapping_add(1);
        let (limits, seed) = (&self.limits.retry, self.seed);
        let flight = self.flights.get_mut(id.0)?;
        // The count starts again, since a moving slot redirects each attempt.
        flight.redirects = 0;
        let new = || Box::new(Retry::new(limits.clone(), seed));
        flight.retry.get_or_insert_with(new).failed()
    }
}
