//! Mutations: broken promises that the checks have to notice.

use std::fmt::Debug;

use bytes::Bytes;
use onetrip_engine::{Cause, End, Outcome, Output, Token};

use super::book::failed;
use super::driven::Driven;
use super::side::Side;
use crate::seeded::{Effect, Log, Rng};

/// A way in which a run is falsified, once or throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation<Own> {
    /// Two requests get one another's reply.
    SwapReplies,
    /// A request never ends.
    DropEnd,
    /// A request ends twice.
    DuplicateEnd,
    /// A discarded request reports an end.
    EndDiscarded,
    /// A reply lacks its beginning.
    TruncateReply,
    /// A request that ran is reported as not sent.
    FalseNotSent,
    /// A request that took effect is reported as rejected.
    FalseRejected,
    /// A request that failed is reported as complete.
    FalseComplete,
    /// Drained never comes.
    DropDrained,
    /// Full comes twice.
    DoubleFull,
    /// A caller that waits never gets its turn.
    DropRoom,
    /// Two statements of one line ran in the other order.
    SwapOrder,
    /// The engine has a larger window than it was given.
    LooseLimits,
    /// Deadlines are not checked.
    LateDeadlines,
    /// The host reads only when it has nothing to write.
    WriteBeforeRead,
    /// A mutation of this protocol only.
    Own(Own),
}

/// Mutations that only one protocol has.
pub trait OwnMutation: Copy + Debug + PartialEq + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// Whether it strikes in every run rather than where it finds an occasion, so that not every
    /// run can show it.
    fn is_ambient(self) -> bool;
}

impl<Own: OwnMutation> Mutation<Own> {
    /// The mutations of every protocol.
    const COMMON: [Mutation<Own>; 15] = [
        Mutation::SwapReplies,
        Mutation::DropEnd,
        Mutation::DuplicateEnd,
        Mutation::EndDiscarded,
        Mutation::TruncateReply,
        Mutation::FalseNotSent,
        Mutation::FalseRejected,
        Mutation::FalseComplete,
        Mutation::DropDrained,
        Mutation::DoubleFull,
        Mutation::DropRoom,
        Mutation::SwapOrder,
        Mutation::LooseLimits,
        Mutation::LateDeadlines,
        Mutation::WriteBeforeRead,
    ];

    /// All of them.
    pub fn all() -> impl Iterator<Item = Mutation<Own>> {
        Self::COMMON.into_iter().chain(Own::ALL.iter().copied().map(Mutation::Own))
    }

    /// Whether it strikes in every run rather than where it finds an occasion, so that not every
    /// run can show it.
    #[must_use]
    pub fn is_ambient(self) -> bool {
        match self {
            Mutation::LooseLimits | Mutation::LateDeadlines | Mutation::WriteBeforeRead => true,
            Mutation::Own(own) => own.is_ambient(),
            _ => false,
        }
    }
}

/// Applies a mutation where it first can be.
pub(crate) struct Mutator<Own> {
    mutation: Option<Mutation<Own>>,
    rng: Rng,
    struck: bool,
}

impl<Own: OwnMutation> Mutator<Own> {
    pub(crate) fn new(mutation: Option<Mutation<Own>>, rng: Rng) -> Mutator<Own> {
        let struck = mutation.is_some_and(Mutation::is_ambient);
        Mutator { mutation, rng, struck }
    }

    pub(crate) fn is(&self, mutation: Mutation<Own>) -> bool {
        self.mutation == Some(mutation)
    }

    /// The mutation, if only this protocol has it.
    pub(crate) fn own(&self) -> Option<Own> {
        match self.mutation {
            Some(Mutation::Own(own)) => Some(own),
            _ => None,
        }
    }

    pub(crate) fn has_struck(&self) -> bool {
        self.struck
    }

    /// Falsifies the outputs.
    pub(crate) fn strike<S: Side<Mutation = Own>>(
        &mut self,
        outputs: &mut Vec<Output<<S::Driven as Driven>::Event>>,
        log: &Log,
    ) {
        let Some(mutation) = self.mutation else { return };
        if self.struck || outputs.is_empty() || self.rng.one_in(3) {
            return;
        }
        self.struck = match mutation {
            Mutation::SwapReplies => swap_replies(outputs),
            Mutation::DropEnd => drop_first(outputs, |it| matches!(it, Output::Ended { .. })),
            Mutation::DuplicateEnd => duplicate_end(outputs),
            Mutation::EndDiscarded => {
                let end = failed(Outcome::NotSent, Cause::Cancelled);
                let (token, block) = (Token::DISCARD, Bytes::new());
                outputs.push(Output::Ended { token, block, end, together: false });
                true
            }
            Mutation::TruncateReply => truncate_reply(outputs, S::truncate),
            Mutation::FalseNotSent => replace_end(outputs, |token, end| {
                let is_true = matches!(end, End::Failed(it) if it.outcome == Outcome::NotSent);
                let ran = log.entry(token.0).executed > 0;
                (ran && !is_true).then_some(failed(Outcome::NotSent, Cause::Deadline))
            }),
            Mutation::FalseRejected => replace_end(outputs, |token, end| {
                (stands(log, token) && end == End::Complete)
                    .then_some(failed(Outcome::Rejected, Cause::Deadline))
            }),
            Mutation::FalseComplete => replace_end(outputs, |_, end| {
                (end == failed(Outcome::Rejected, Cause::Server)).then_some(End::Complete)
            }),
            Mutation::DropDrained => drop_first(outputs, |it| matches!(it, Output::Drained)),
            Mutation::DoubleFull => {
                let full = outputs.iter().position(|output| matches!(output, Output::Full));
                full.map(|at| outputs.insert(at, Output::Full)).is_some()
            }
            Mutation::DropRoom => drop_first(outputs, |it| matches!(it, Output::Room { .. })),
            Mutation::Own(own) => S::strike(own, outputs, log),
            _ => false,
        };
    }

    /// Falsifies the order in which the server ran the requests.
    pub(crate) fn strike_order(&mut self, order: &mut [u64], line: impl Fn(u64) -> usize) {
        if self.is(Mutation::SwapOrder) && order.len() > 1 {
            let at = self.rng.index(order.len() - 1);
            let mut behind = order.iter().skip(at + 1);
            let next = behind.position(|op| line(*op) == line(order[at]));
            if let Some(next) = next {
                order.swap(at, at + 1 + next);
                self.struck = true;
            }
        }
    }
}

/// Whether the effect of this request remains.
pub(crate) fn stands(log: &Log, token: Token) -> bool {
    log.entry(token.0).effect == Effect::Committed
}

/// Hands out the end of a reply without its beginning.
fn truncate_reply<E>(outputs: &mut [Output<E>], truncate: impl Fn(&Bytes) -> Bytes) -> bool {
    outputs.iter_mut().any(|output| match output {
        Output::Ended { block, end: End::Complete, .. } if block.len() > 6 => {
            *block = truncate(block);
            true
        }
        _ => false,
    })
}

/// Loses the first of these.
pub(crate) fn drop_first<E>(
    outputs: &mut Vec<Output<E>>,
    which: impl Fn(&Output<E>) -> bool,
) -> bool {
    let at = outputs.iter().position(which);
    at.map(|at| outputs.remove(at)).is_some()
}

/// Reports an end twice.
pub(crate) fn duplicate_end<E>(outputs: &mut Vec<Output<E>>) -> bool {
    let end = outputs.iter().find_map(|output| match output {
        Output::Ended { token, block, end, together } => {
            let (token, block) = (*token, block.clone());
            Some(Output::Ended { token, block, end: *end, together: *together })
        }
        _ => None,
    });
    end.map(|end| outputs.push(end)).is_some()
}

/// Exchanges the last parts of two requests' replies, if they differ.
pub(crate) fn swap_replies<E>(outputs: &mut [Output<E>]) -> bool {
    let mut blocks: Vec<&mut Bytes> = outputs
        .iter_mut()
        .filter_map(|output| match output {
            Output::Ended { block, end: End::Complete | End::Provisional, .. } => Some(block),
            _ => None,
        })
        .collect();
    let Some((first, rest)) = blocks.split_first_mut() else { return false };
    let other = rest.iter_mut().find(|block| ***block != **first);
    other.map(|other| std::mem::swap(*first, *other)).is_some()
}

/// Reports another end than there was.
pub(crate) fn replace_end<E>(
    outputs: &mut [Output<E>],
    lie: impl Fn(Token, End) -> Option<End>,
) -> bool {
    outputs.iter_mut().any(|output| match output {
        Output::Ended { token, end, .. } => lie(*token, *end).map(|lie| *end = lie).is_some(),
        _ => false,
    })
}
