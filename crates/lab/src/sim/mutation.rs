//! Broken promises on demand: what the checks have to notice.

use bytes::Bytes;
use onetrip_engine::{Cause, End, Failure, Outcome, Output, Token};
use onetrip_postgres::Event;

use super::book::failed;
use crate::model::{Effect, Log};
use crate::seeded::{Rng, drop_first, duplicate_end, replace_end, swap_replies};

/// A way in which a run is falsified, once.
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
    /// The last part of a reply lacks its first message.
    TruncateReply,
    /// What ran is reported as not sent.
    FalseNotSent,
    /// What was committed is reported as rejected.
    FalseRejected,
    /// What left nothing behind is reported as complete.
    FalseComplete,
    /// A segment is reported as failed, and what it held was committed.
    FalseRollback,
    /// Drained never comes.
    DropDrained,
    /// Full comes twice.
    DoubleFull,
    /// A caller that waits never gets its turn.
    DropRoom,
    /// A group never gets the floor.
    DropGranted,
    /// Two statements ran in the other order.
    SwapOrder,
    /// The engine has a larger window than it was given.
    LooseLimits,
    /// Nobody looks at the clock.
    LateDeadlines,
    /// The host reads only when it has nothing to write.
    WriteBeforeRead,
    /// A cancel arrives that nobody has sent.
    StrayCancel,
    /// What is sent behind a reset doesn't depend on it.
    NoGuard,
    /// The first change of the next owner is forgotten.
    ForgottenChange,
    /// What may leave something is taken for harmless.
    TakenForHarmless,
    /// A guard stands in front of what the server can't skip.
    GuardedQuery,
    /// A reset that failed is taken for done.
    FailedResetIsDone,
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
        Mutation::FalseRollback,
        Mutation::DropDrained,
        Mutation::DoubleFull,
        Mutation::DropRoom,
        Mutation::DropGranted,
        Mutation::SwapOrder,
        Mutation::LooseLimits,
        Mutation::LateDeadlines,
        Mutation::WriteBeforeRead,
        Mutation::StrayCancel,
        Mutation::NoGuard,
        Mutation::ForgottenChange,
        Mutation::TakenForHarmless,
        Mutation::GuardedQuery,
        Mutation::FailedResetIsDone,
    ];

    /// Whether it is of the protocol, where a session changes hands. What comes of it shows only where
    /// its owner had left something, and a reset fails, or was not made.
    pub fn is_of_owners(self) -> bool {
        matches!(
            self,
            Mutation::NoGuard
                | Mutation::ForgottenChange
                | Mutation::TakenForHarmless
                | Mutation::GuardedQuery
                | Mutation::FailedResetIsDone
        )
    }

    /// Whether it strikes in every run rather than where it finds an occasion, so that not every
    /// run can show it.
    pub fn is_ambient(self) -> bool {
        matches!(
            self,
            Mutation::LooseLimits
                | Mutation::LateDeadlines
                | Mutation::WriteBeforeRead
                | Mutation::StrayCancel
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
                let ran = log.entry(token.0).executed > 0;
                let lie = failed(Outcome::NotSent, Cause::Deadline);
                (ran && !matches!(end, End::Failed(Failure { outcome: Outcome::NotSent, .. })))
                    .then_some(lie)
            }),
            Mutation::FalseRejected => replace_end(outputs, |token, end| {
                let stands = log.entry(token.0).effect == Effect::Committed;
                (stands && end == End::Complete)
                    .then_some(failed(Outcome::Rejected, Cause::Deadline))
            }),
            Mutation::FalseComplete => replace_end(outputs, |_, end| {
                (end == failed(Outcome::Rejected, Cause::Server)).then_some(End::Complete)
            }),
            Mutation::FalseRollback => replace_end(outputs, |token, end| {
                let stands = log.entry(token.0).effect == Effect::Committed;
                (stands && end == End::Provisional)
                    .then_some(failed(Outcome::Rejected, Cause::Aborted))
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
            Mutation::DropGranted => {
                drop_first(outputs, |output| matches!(output, Output::Granted { .. }))
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
}

fn truncate_reply(outputs: &mut [Output<Event>]) -> bool {
    outputs.iter_mut().any(|output| match output {
        Output::Ended { block, end: End::Complete, .. } if block.len() > 6 => {
            let len = u32::from_be_bytes([block[1], block[2], block[3], block[4]]) as usize;
            *block = block.slice((1 + len).min(block.len())..);
            true
        }
        _ => false,
    })
}
