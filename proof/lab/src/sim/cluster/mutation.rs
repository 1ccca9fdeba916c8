//! Mistakes of a cluster's client, or of the code that drives its policy.

use bytes::Bytes;
use onetrip_engine::Outcome;

use crate::redis::model::slots::{TAGS, slot};
use crate::sim::mutation::OwnMutation;

/// A mutation of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// ASKING is left out.
    NoAsking,
    /// A redirect is remembered for another slot.
    OtherSlot,
    /// A redirect is taken for the reply.
    RedirectIsReply,
    /// A command that was sent before its connection was lost is taken for unsent, and sent again.
    LostIsNotSent,
    /// A pause that a node asks for is taken for the reply.
    PauseIsReply,
}

impl OwnMutation for Own {
    const ALL: &'static [Own] = &[
        Own::NoAsking,
        Own::OtherSlot,
        Own::RedirectIsReply,
        Own::LostIsNotSent,
        Own::PauseIsReply,
    ];

    fn is_ambient(self) -> bool {
        true
    }
}

/// The mistakes that are made in a run.
pub(super) struct Mistakes {
    mutation: Option<Own>,
    pub(super) struck: bool,
}

impl Mistakes {
    pub(super) fn new(mutation: Option<Own>) -> Mistakes {
        Mistakes { mutation, struck: false }
    }

    fn strikes(&mut self, mutation: Own) -> bool {
        let strikes = self.mutation == Some(mutation);
        self.struck |= strikes;
        strikes
    }

    pub(super) fn forgets_asking(&mut self) -> bool {
        self.strikes(Own::NoAsking)
    }

    pub(super) fn outcome(&mut self, outcome: Outcome) -> Outcome {
        let lies = outcome == Outcome::Unknown && self.strikes(Own::LostIsNotSent);
        if lies { Outcome::NotSent } else { outcome }
    }

    /// The reply that the router gets, possibly falsified.
    pub(super) fn reply(&mut self, reply: Bytes) -> Bytes {
        let is_moved = reply.starts_with(b"-MOVED ");
        let is_redirect = is_moved || reply.starts_with(b"-ASK ");
        let is_pause = reply.starts_with(b"-TRYAGAIN") || reply.starts_with(b"-LOADING");
        if is_redirect && self.strikes(Own::RedirectIsReply)
            || is_pause && self.strikes(Own::PauseIsReply)
        {
            return Bytes::from_static(b"+OK\r\n");
        }
        if is_moved && self.strikes(Own::OtherSlot) {
            return other_slot(&reply);
        }
        reply
    }
}

/// The same redirect, of another slot.
fn other_slot(reply: &Bytes) -> Bytes {
    let text = String::from_utf8_lossy(reply);
    let mut words = text.splitn(3, ' ');
    let (word, number, rest) = (words.next(), words.next(), words.next());
    let tag = (0..TAGS).find(|tag| Some(&*slot(*tag).to_string()) != number).unwrap_or_default();
    let (word, rest) = (word.unwrap_or_default(), rest.unwrap_or_default());
    format!("{word} {} {rest}", slot(tag)).into()
}
