//! A connection that one caller has to himself: what waits for it, and what stands open on it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use onetrip_client::postgres::Act;

use crate::call::{Call, Want};
use crate::failure::Failure;

/// A session, from the moment when it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Its connection; 0 while it waits for one.
    pub(crate) number: Cell<u32>,
    /// The pool knows it by this while it waits.
    pub(crate) token: Cell<u32>,
    /// What its caller submitted and has not been handed to the engine.
    pub(crate) line: RefCell<VecDeque<Rc<Call>>>,
    /// A transaction was begun and not ended, as its caller sees it.
    pub(crate) in_transaction: Cell<bool>,
    /// The transaction that ended last is to be run again as it stood.
    pub(crate) runs_again: Cell<bool>,
    /// Savepoints that are open.
    pub(crate) savepoints: Cell<usize>,
    /// The stream or the COPY that has it, beside which nothing runs.
    pub(crate) claimed: RefCell<Option<Rc<Call>>>,
    /// This side asks whether BEGIN was answered.
    pub(crate) is_asking: Cell<bool>,
    /// Its caller has gone: it goes back when all is answered.
    pub(crate) is_left: Cell<bool>,
    /// Why nothing goes there any more.
    pub(crate) over: RefCell<Option<Failure>>,
    /// Whether something of its transaction may have reached the server when its connection ended:
    /// of each savepoint that was open, from the inside out, and of the transaction.
    pub(crate) has_left: RefCell<Vec<bool>>,
}

impl Session {
    /// Why a call fails whose connection has ended: a commit and a release speak of the whole.
    pub(crate) fn over_for(&self, want: &Want, why: Failure) -> Failure {
        let has_left = self.has_left.borrow();
        let has_left = match want {
            Want::Act(Act::Commit) => has_left.last(),
            Want::Act(Act::Release) => has_left.first(),
            _ => None,
        };
        has_left.map_or(why.clone(), |has_left| why.of_whole(*has_left))
    }
}
