//! Takes commands: as one flight, or as one for each node or slot.

use onetrip_engine::{Outcome, Time, Token};

use super::failed::{Failed, Refused, Why};
use super::flight::{Early, Flight, Goal, Request};
use super::gather::Gather;
use super::lanes::take_of;
use super::plan::{self, Plan};
use super::{How, Router};
use crate::command::Command;
use crate::table::{Described, Spec};

impl Router {
    /// Makes known commands of modules and of later versions, with their keys.
    pub fn learn(&mut self, described: Described) {
        self.described = described;
    }

    /// Takes a command, which [`Output::Finish`](super::Output::Finish) ends. An error, with
    /// nothing sent, if it can't be routed, or if it would have to wait and [too
    /// many](super::Limits::held_max) do.
    pub fn submit(
        &mut self,
        now: Time,
        token: Token,
        command: Command,
        how: How,
    ) -> Result<(), Refused> {
        let spec = self.described.of(&command);
        let from_replica = how.from_replica && spec.is_some_and(Spec::is_readonly);
        let how = How { from_replica, ..how };
        let plan = plan::plan(&command, spec, how)?;
        if self.held() >= self.limits.held_max && self.waits(now, &plan) {
            return Err(Refused::Full);
        }
        self.carry_out(now, token, command, plan, how);
        self.decide(now);
        Ok(())
    }

    /// Whether any part of it would wait here.
    fn waits(&self, now: Time, plan: &Plan) -> bool {
        match plan {
            Plan::One(Goal::Slot(slot)) => !self.is_open(*slot, now),
            Plan::Split { parts, .. } => parts
                .iter()
                .any(|(goal, _)| matches!(goal, Goal::Slot(slot) if !self.is_open(*slot, now))),
            Plan::One(_) | Plan::Nodes { .. } => self.nodes.is_empty(),
        }
    }

    fn carry_out(&mut self, now: Time, token: Token, command: Command, plan: Plan, how: How) {
        match plan {
            Plan::One(goal) => self.one(now, token, command, goal, how),
            Plan::Split { parts, gather } => {
                self.several(now, token, parts, gather, how);
            }
            Plan::Nodes { .. } if self.nodes.is_empty() => {
                let early = Early { token, command, how, since: now };
                self.look_at(early.ends(self.limits.held_time_max));
                self.lobby.push(early);
                self.refresh.want(now);
            }
            Plan::Nodes { replicas, kind } => {
                let (mut goals, mut names) = (Vec::new(), Vec::new());
                for node in self.nodes.all(replicas) {
                    goals.push((Goal::Node(node), command.clone()));
                    names.extend(self.nodes.address(node).cloned());
                }
                self.several(now, token, goals, Gather::of_nodes(kind, names), how);
            }
        }
    }

    fn one(&mut self, now: Time, token: Token, command: Command, goal: Goal, how: How) {
        let request = self.requests.insert(Request { token, gather: None });
        self.launch(now, Flight::new(request, 0, command, goal, how));
    }

    fn several(
        &mut self,
        now: Time,
        token: Token,
        parts: Vec<(Goal, Command)>,
        gather: Gather,
        how: How,
    ) {
        let request = self.requests.insert(Request { token, gather: Some(Box::new(gather)) });
        for (part, (goal, command)) in parts.into_iter().enumerate() {
            self.launch(now, Flight::new(request, part, command, goal, how));
        }
    }

    /// Submits the commands that came before any node was known, if there are nodes now.
    pub(super) fn open_lobby(&mut self, now: Time) {
        let is_known = !self.nodes.is_empty();
        for Early { token, command, how, .. } in self.take_early(&|_| is_known) {
            if self.submit(now, token, command, how).is_err() {
                self.finish(token, Err(Failed::new(Outcome::NotSent, Why::Unserved)));
            }
        }
    }

    pub(super) fn take_early(&mut self, which: &dyn Fn(&Early) -> bool) -> Vec<Early> {
        take_of(&mut self.lobby, which)
    }
}
