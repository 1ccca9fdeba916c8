//! Broken promises on demand: what the checks have to notice. Some falsify what the engine says, some
//! what the protocol makes of the bytes, some what the host or the server does.

use bytes::{Bytes, BytesMut};
use onetrip_engine::{Cause, End, Failure, Outcome, Output, Protocol, Step, Token, Violation};
use onetrip_redis::{Event, Expect, Redis};

use super::super::model::{Effect, Log};
use super::book::failed;
use crate::seeded::{Rng, drop_first, duplicate_end, replace_end, swap_replies};

/// A way in which a run is falsified, once or throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Two requests get one another's reply.
    SwapReplies,
    /// A request never ends.
    DropEnd,
    /// A request ends twice.
    DuplicateEnd,
    /// Someone hears of a request that nobody waits for.
    EndDiscarded,
    /// A reply lacks its first byte.
    TruncateReply,
    /// What ran is reported as not sent.
    FalseNotSent,
    /// What stands is reported as rejected.
    FalseRejected,
    /// What failed is reported as complete.
    FalseComplete,
    /// A push is lost.
    DropPush,
    /// Drained never comes.
    DropDrained,
    /// Full comes twice.
    DoubleFull,
    /// A caller that waits never gets its turn.
    DropRoom,
    /// Two commands ran in the other order.
    SwapOrder,
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
    /// The engine has a larger window than it was given.
    LooseLimits,
    /// Nobody looks at the clock.
    LateDeadlines,
    /// The host reads only when it has nothing to write.
    WriteBeforeRead,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 23] = [
        Mutation::SwapReplies,
        Mutation::DropEnd,
        Mutation::DuplicateEnd,
        Mutation::EndDiscarded,
        Mutation::TruncateReply,
        Mutation::FalseNotSent,
        Mutation::FalseRejected,
        Mutation::FalseComplete,
        Mutation::DropPush,
        Mutation::DropDrained,
        Mutation::DoubleFull,
        Mutation::DropRoom,
        Mutation::SwapOrder,
        Mutation::PushIsReply,
        Mutation::ReplyIsPush,
        Mutation::MiscountReplies,
        Mutation::HealingIsReply,
        Mutation::ErrorIsReply,
        Mutation::FailedNeverStarted,
        Mutation::LeavesNothing,
        Mutation::LooseLimits,
        Mutation::LateDeadlines,
        Mutation::WriteBeforeRead,
    ];

    /// Whether it strikes in every run rather than where it finds an occasion, so that not every run can
    /// show it.
    #[must_use]
    pub fn is_ambient(self) -> bool {
        matches!(
            self,
            Mutation::FailedNeverStarted
                | Mutation::LeavesNothing
                | Mutation::LooseLimits
                | Mutation::LateDeadlines
                | Mutation::WriteBeforeRead
        )
    }
}

/// Applies a mutation where it first can be.
pub(super) struct Mutator {
    mutation: Option<Mutation>,
    rng: Rng,
    struck: bool,
}

impl Mutator {
    pub(super) fn new(mutation: Option<Mutation>, rng: Rng) -> Mutator {
        let struck = mutation.is_some_and(Mutation::is_ambient);
        Mutator { mutation, rng, struck }
    }

    pub(super) fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    pub(super) fn has_struck(&self) -> bool {
        self.struck
    }

    /// Falsifies what the engine said.
    pub(super) fn strike(&mut self, outputs: &mut Vec<Output<Event>>, log: &Log) {
        let Some(mutation) = self.mutation else { return };
        if self.struck || outputs.is_empty() || self.rng.one_in(3) {
            return;
        }
        let stands = |token: Token| log.entry(token.0).effect == Effect::Committed;
        self.struck = match mutation {
            Mutation::SwapReplies => swap_replies(outputs),
            Mutation::DropEnd => {
                drop_first(outputs, |output| matches!(output, Output::Ended { .. }))
            }
            Mutation::DuplicateEnd => duplicate_end(outputs),
            Mutation::EndDiscarded => {
                let end = failed(Outcome::NotSent, Cause::Cancelled);
                outputs.push(Output::Ended { token: Token::DISCARD, block: Bytes::new(), end });
                true
            }
            Mutation::TruncateReply => truncate_reply(outputs),
            Mutation::FalseNotSent => replace_end(outputs, |token, end| {
                let lie = failed(Outcome::NotSent, Cause::Closed);
                let true_end =
                    matches!(end, End::Failed(Failure { outcome: Outcome::NotSent, .. }));
                (log.entry(token.0).executed > 0 && !true_end).then_some(lie)
            }),
            Mutation::FalseRejected => replace_end(outputs, |token, end| {
                let lie = failed(Outcome::Rejected, Cause::Closed);
                (stands(token) && end == End::Complete).then_some(lie)
            }),
            Mutation::FalseComplete => replace_end(outputs, |_, end| {
                (end == failed(Outcome::Rejected, Cause::Server)).then_some(End::Complete)
            }),
            Mutation::DropPush => drop_first(outputs, |output| {
                matches!(output, Output::Event { event: Event::Push, .. })
            }),
            Mutation::DropDrained => {
                drop_first(outputs, |output| matches!(output, Output::Drained))
            }
            Mutation::DoubleFull => {
                let full = outputs.iter().position(|output| matches!(output, Output::Full));
                full.map(|at| outputs.insert(at, Output::Full)).is_some()
            }
            Mutation::DropRoom => {
                drop_first(outputs, |output| matches!(output, Output::Room { .. }))
            }
            _ => false,
        };
    }

    /// Falsifies what the server says it did.
    pub(super) fn strike_order(&mut self, order: &mut [u64]) {
        if self.is(Mutation::SwapOrder) && order.len() > 1 {
            let at = self.rng.index(order.len() - 1);
            order.swap(at, at + 1);
            self.struck = true;
        }
    }

    /// Takes note of what the protocol was made to do.
    pub(super) fn also_struck(&mut self, struck: bool) {
        self.struck |= struck;
    }
}

fn truncate_reply(outputs: &mut [Output<Event>]) -> bool {
    outputs.iter_mut().any(|output| match output {
        Output::Ended { block, end: End::Complete, .. } if block.len() > 6 => {
            *block = block.slice(1..);
            true
        }
        _ => false,
    })
}

/// The protocol as it is, or with one mistake.
pub(super) struct Mistaken {
    redis: Redis,
    mutation: Option<Mutation>,
    pub(super) struck: bool,
}

impl Mistaken {
    pub(super) fn new(redis: Redis, mutation: Option<Mutation>) -> Mistaken {
        Mistaken { redis, mutation, struck: false }
    }

    /// Makes another step of one: once, unless it can show in few requests.
    fn falsify(&self, step: Step<Event>, has_head: bool) -> (Step<Event>, bool) {
        if self.struck && !self.mutation.is_some_and(Mutation::is_ambient) {
            return (step, false);
        }
        let falsified = match (self.mutation, step) {
            (Some(Mutation::PushIsReply), Step::Event(len, Event::Push)) if has_head => {
                Step::Settled(len)
            }
            (Some(Mutation::ReplyIsPush), Step::Settled(len)) if len > 0 => {
                Step::Event(len, Event::Push)
            }
            (Some(Mutation::MiscountReplies), Step::Part(len)) => Step::Settled(len),
            (Some(Mutation::HealingIsReply), Step::Event(len, Event::ScriptLoaded)) => {
                Step::Settled(len)
            }
            (Some(Mutation::ErrorIsReply), Step::Failed { len, .. }) => Step::Settled(len),
            (
                Some(Mutation::FailedNeverStarted),
                Step::Failed { len, outcome: Outcome::Unknown, cancelled, .. },
            ) => Step::Failed { len, outcome: Outcome::Unknown, cancelled, never_started: true },
            (
                Some(Mutation::LeavesNothing),
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
