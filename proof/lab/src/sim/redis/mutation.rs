//! Broken promises that only RESP knows. Most falsify what the protocol makes of the bytes.

use bytes::BytesMut;
use onetrip_engine::{Outcome, Protocol, Step, Violation};
use onetrip_redis::{Event, Expect, Redis};

use crate::sim::mutation::OwnMutation;

/// A mutation of Redis' protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// A push is lost.
    DropPush,
    /// A push is taken for a reply.
    PushIsReply,
    /// A reply is taken for a push.
    ReplyIsPush,
    /// The first of several replies is taken for the last.
    MiscountReplies,
    /// What heals a request is taken for its reply.
    HealingIsReply,
    /// An error is taken for the reply.
    ErrorIsReply,
    /// What failed is taken for what never started, and sent again.
    FailedNeverStarted,
    /// An error behind which something was left is taken for a refusal.
    LeavesNothing,
}

impl OwnMutation for Own {
    const ALL: &'static [Own] = &[
        Own::DropPush,
        Own::PushIsReply,
        Own::ReplyIsPush,
        Own::MiscountReplies,
        Own::HealingIsReply,
        Own::ErrorIsReply,
        Own::FailedNeverStarted,
        Own::LeavesNothing,
    ];

    fn is_ambient(self) -> bool {
        matches!(self, Own::FailedNeverStarted | Own::LeavesNothing)
    }
}

/// The protocol as it is, or with one mistake.
pub struct Mistaken {
    redis: Redis,
    mutation: Option<Own>,
    pub(super) struck: bool,
}

impl Mistaken {
    pub(super) fn new(redis: Redis, mutation: Option<Own>) -> Mistaken {
        Mistaken { redis, mutation, struck: false }
    }

    /// Makes another step of one: once, unless it can show in few requests.
    fn falsify(&self, step: Step<Event>, has_head: bool) -> (Step<Event>, bool) {
        if self.struck && !self.mutation.is_some_and(OwnMutation::is_ambient) {
            return (step, false);
        }
        let falsified = match (self.mutation, step) {
            (Some(Own::PushIsReply), Step::Event(len, Event::Push)) if has_head => {
                Step::Settled(len)
            }
            (Some(Own::ReplyIsPush), Step::Settled(len)) if len > 0 => {
                Step::Event(len, Event::Push)
            }
            (Some(Own::MiscountReplies), Step::Part(len)) => Step::Settled(len),
            (Some(Own::HealingIsReply), Step::Event(len, Event::ScriptLoaded)) => {
                Step::Settled(len)
            }
            (Some(Own::ErrorIsReply), Step::Failed { len, .. }) => Step::Settled(len),
            (
                Some(Own::FailedNeverStarted),
                Step::Failed { len, outcome: Outcome::Unknown, cancelled, .. },
            ) => Step::Failed { len, outcome: Outcome::Unknown, cancelled, never_started: true },
            (
                Some(Own::LeavesNothing),
                Step::Failed { len, outcome: Outcome::Unknown, cancelled, never_started },
            ) => Step::Failed { len, outcome: Outcome::Rejected, cancelled, never_started },
            (_, step) => return (step, false),
        };
        (falsified, true)
    }
}

impl Protocol for Mistaken {
    type Expect = Expect;
    type Event = Event;

    const SYNC: &'static [u8] = Redis::SYNC;
    const FLUSH: &'static [u8] = Redis::FLUSH;
    const TERMINATE: &'static [u8] = Redis::TERMINATE;

    fn step(
        &mut self,
        input: &[u8],
        mut head: Option<&mut Expect>,
    ) -> Result<Step<Event>, Violation> {
        let step = self.redis.step(input, head.as_deref_mut())?;
        let (step, struck) = self.falsify(step, head.is_some());
        if let (true, Step::Event(..), Some(head)) = (struck, &step, head) {
            // It goes on waiting.
            *head = Expect::reply();
        }
        self.struck |= struck;
        Ok(step)
    }

    fn skip(&mut self, expect: &mut Expect) {
        self.redis.skip(expect);
    }

    fn heal(&mut self, expect: &mut Expect, out: &mut BytesMut) {
        self.redis.heal(expect, out);
    }

    fn restart(&mut self, expect: &mut Expect) {
        self.redis.restart(expect);
    }
}
