//! A command in flight, and what it belongs to, as plain data.

use std::time::Duration;

use bytes::Bytes;
use onetrip_engine::{Outcome, Retry, Time, Token};

use super::How;
use super::failed::{Failed, Why};
use super::gather::{Gather, error_text};
use super::nodes::NodeId;
use super::slab::Key;
use crate::command::Command;
use crate::table::Spec;

/// Names a command, or a part of one, that goes to one node. No id is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlightId(pub(super) Key);

/// What a caller submitted.
pub(super) struct Request {
    pub(super) token: Token,
    /// Combines the replies if there are several flights.
    pub(super) gather: Option<Box<Gather>>,
}

pub(super) struct Flight {
    pub(super) command: Command,
    pub(super) goal: Goal,
    pub(super) repeatable: bool,
    pub(super) from_replica: bool,
    /// It uses a connection of its own, outside of any order.
    pub(super) own: bool,
    pub(super) deadline: Time,
    /// It may have effects despite an error: it runs a script, or is not in the table.
    pub(super) leaves: bool,
    /// A node refused it, or could not be reached, so it goes in front of new commands.
    pub(super) again: bool,
    pub(super) outcome: Outcome,
    /// Why a node did not take it for now, the last time.
    pub(super) refusal: Option<Bytes>,
    /// Since when it has waited: from the beginning, without the time at nodes that answered.
    pub(super) since: Time,
    pub(super) redirects: u32,
    pub(super) retry: Option<Box<Retry>>,
    pub(super) request: Key,
    pub(super) part: usize,
    /// Its place in the order of submission.
    pub(super) number: u64,
    pub(super) sent: Option<Sent>,
    /// Where it was answered the last time.
    pub(super) last: Option<Sent>,
    /// It subscribes to a sharded channel.
    pub(super) subscribes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// The node that has this slot.
    Slot(u16),
    /// Any master.
    Any,
    /// This node.
    Node(NodeId),
}

#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) node: NodeId,
    /// How often its slot had moved by then; `None` if its order does not matter.
    pub(super) turn: Option<u32>,
    /// How many connections its node had had by then.
    pub(super) connection: u32,
    /// When that was.
    pub(super) at: Time,
    /// Whether it tries a node that can't be reached.
    pub(super) is_try: bool,
}

/// Where an answered flight had been sent.
#[derive(Clone, Copy)]
pub(super) struct From {
    pub(super) node: NodeId,
    pub(super) goal: Goal,
    /// Its slot has moved since it was sent.
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
            subscribes: command.name().eq_ignore_ascii_case(b"SSUBSCRIBE"),
            command,
            again: false,
            outcome: Outcome::NotSent,
            refusal: None,
            since: Time::ZERO,
            redirects: 0,
            retry: None,
            request,
            part,
            number: 0,
            sent: None,
            last: None,
        }
    }

    /// Its last attempt did not end for want of a connection: that time was no waiting.
    pub(super) fn was_served(&mut self, now: Time) {
        let time = self.last.map_or(Duration::ZERO, |sent| now.since(sent.at));
        self.since = self.since.after(time);
    }

    /// A node refused it, so it had no effect there.
    pub(super) fn refused(&mut self) {
        self.again = true;
        self.note(Outcome::Rejected);
    }

    /// An attempt ended with this outcome. It does not lessen what is known from earlier attempts.
    pub(super) fn note(&mut self, outcome: Outcome) {
        self.outcome = match (self.outcome, outcome) {
            (Outcome::Unknown, _) => Outcome::Unknown,
            (earlier, Outcome::NotSent) => earlier,
            (_, outcome) => outcome,
        };
    }
}

impl Flight {
    /// Applies the flight's outcome to its result: an attempt that was lost may have run, whatever
    /// came of a later one.
    pub(super) fn with_outcome(&self, result: Result<Bytes, Failed>) -> Result<Bytes, Failed> {
        let outcome = Outcome::Unknown;
        match result {
            result if self.outcome != outcome => result,
            Ok(reply) if error_text(&reply).is_none() => Ok(reply),
            Ok(reply) => Err(Failed { reply: Some(reply), ..Failed::new(outcome, Why::Server) }),
            Err(failed) => Err(Failed { outcome, ..failed }),
        }
    }
}

/// A command for all nodes that was submitted before any node was known.
pub(super) struct Early {
    pub(super) token: Token,
    pub(super) command: Command,
    pub(super) how: How,
    pub(super) since: Time,
}

impl Early {
    pub(super) fn deadline(&self) -> Time {
        self.how.deadline.unwrap_or(Time::NEVER)
    }

    /// When it ends, if it may wait for at most `max`.
    pub(super) fn ends(&self, max: Duration) -> Time {
        self.since.after(max).min(self.deadline())
    }
}
