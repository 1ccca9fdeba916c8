//! A task that writes, independent of what it writes to.

use std::fmt::Debug;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use crate::ledger::{Begun, Claim, Ledger};
use crate::random::Random;

/// A task that writes over a client `C`, with other state `O` that it needs.
pub(crate) struct Writer<C, O> {
    pub(crate) task: u32,
    pub(crate) client: C,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) random: Random,
    pub(crate) own: O,
}

impl<C, O> Writer<C, O> {
    pub(crate) fn new(task: u32, seed: u64, client: C, ledger: Arc<Ledger>, own: O) -> Self {
        let random = Random::new(seed, task.into());
        Writer { task, client, ledger, random, own }
    }

    /// A number of this range.
    pub(crate) fn some(&mut self, range: Range<i64>) -> i64 {
        range.start + self.random.below((range.end - range.start) as u64) as i64
    }

    /// Begins a unit of so many rows.
    pub(crate) fn begin(&self, what: &'static str, rows: i64) -> Begun {
        self.ledger.begin(self.task, what, rows)
    }

    /// Begins `rows` units of one row each, with consecutive numbers.
    pub(crate) fn begin_each(&self, what: &'static str, rows: i64) -> Vec<Begun> {
        (0..rows).map(|_| self.begin(what, 1)).collect()
    }

    pub(crate) fn end(&self, unit: Begun) {
        self.ledger.end(unit);
    }

    /// Ends a unit with its only claim.
    pub(crate) fn end_as(&self, mut unit: Begun, claim: Claim) {
        unit.say(claim);
        self.end(unit);
    }

    /// Records it as wrong if a reply is that of another request.
    pub(crate) fn expect<T: PartialEq + Debug>(&self, unit: &Begun, got: Option<T>, own: T) {
        if got.as_ref().is_some_and(|got| *got != own) {
            let Begun { numbers, .. } = unit;
            self.ledger.wrong(format!("rows {numbers:?} got {got:?} instead of {own:?}"));
        }
    }
}

/// Polls a future up to `times` + 1 times; `None` if it is not ready by then.
pub(crate) async fn polled<F: Future + Unpin>(future: &mut F, mut times: u64) -> Option<F::Output> {
    poll_fn(|cx| match Pin::new(&mut *future).poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if times == 0 => Poll::Ready(None),
        Poll::Pending => {
            times -= 1;
            Poll::Pending
        }
    })
    .await
}
