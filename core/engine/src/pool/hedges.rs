//! When a read is sent a second time while its first answer may still come.
//!
//! A text that is quick as a rule is slow at times, because it waits for a lock or reads from a
//! cold disk. The statements behind it on its connection wait as long. Reads that may run twice, as
//! their caller says, can be sent again on another connection, and the first answer wins ("hedged
//! requests": Dean and Barroso, The Tail at Scale, 2013).

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Behind, Expected, Limits, Load, choose};
use crate::Time;

/// What to do about a read that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hedge<K> {
    /// It is sent once more, on this connection.
    On(K),
    /// The first answer is not late yet, or no other connection is free. Ask again at this moment;
    /// [`Time::NEVER`] if it is never sent again.
    At(Time),
}

/// How many reads of a pool may be sent a second time: one in 20 reads, and up to ten at once after
/// many without. That bounds the added load when everything is slow.
#[derive(Debug)]
pub struct Hedges {
    /// [`COST`] for each read that may be sent a second time now.
    credit: AtomicU32,
}

/// The cost of sending a read a second time. Each read earns 1.
const COST: u32 = 20;

const CREDIT_MAX: u32 = 10 * COST;

impl Default for Hedges {
    /// One read may be sent a second time before any was made.
    fn default() -> Hedges {
        Hedges { credit: AtomicU32::new(COST) }
    }
}

impl Hedges {
    /// A read was made that may be sent a second time.
    pub fn earn(&self) {
        self.change(|credit| (credit < CREDIT_MAX).then_some(credit + 1));
    }

    /// Whether a read with this expectation is sent a second time, because the statement at the
    /// head of its connection (perhaps this one) has been running for longer than
    /// [`Limits::slow_head`].
    ///
    /// `first` is the load of the connection that the read is on; `others` are the loads of all
    /// others that take shared work. The read goes only to a connection where it waits for nothing
    /// slow. A text that is slow itself is not sent again: the second call would take as long.
    pub fn judge<K>(
        &self,
        now: Time,
        limits: &Limits,
        of: Expected,
        first: Load,
        others: impl IntoIterator<Item = (K, Load)>,
    ) -> Hedge<K> {
        if !matches!(of, Expected::Likely(_) | Expected::Quick(_)) {
            return Hedge::At(Time::NEVER);
        }
        let late = first.since.after(limits.slow_head);
        if now < late {
            return Hedge::At(late);
        }
        let choice = choose(now, limits, of, others);
        let on = choice.on.filter(|_| matches!(choice.behind, Behind::Nothing | Behind::Quick));
        match on {
            Some(on) if self.change(|credit| credit.checked_sub(COST)) => Hedge::On(on),
            _ => Hedge::At(now.after(limits.slow_head)),
        }
    }

    fn change(&self, to: impl FnMut(u32) -> Option<u32>) -> bool {
        self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, to).is_ok()
    }
}
