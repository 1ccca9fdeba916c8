//! Transactions whose BEGIN was answered locally. `client::transaction` decides what to do with
//! each request, and this module submits it to the engine.
//!
//! Until BEGIN is answered by the server, a single statement of the simple protocol is sent by the
//! extended protocol, which has the same results. Some requests can't be: several statements in a
//! text or none, COPY, `$1` without a value, and FETCH, whose result format its cursor decides.
//! They wait until BEGIN has succeeded, which costs a round trip, and the requests behind them wait
//! too.
//!
//! Once BEGIN was refused, all statements up to the end of the transaction fail with the server's
//! error to BEGIN. COMMIT and ROLLBACK are then answered with ROLLBACK, as the server does in a
//! failed transaction.

use bytes::Bytes;
use onetrip_engine::{Cause, End, Failure, Request, SyncPoint, Time};
use onetrip_postgres::client::transaction::control::Control;
use onetrip_postgres::client::transaction::pending::{
    Asked, Begin, PendingBegin, Surroundings, Treatment, treatment, treatment_of_sync,
};
use onetrip_postgres::message::TransactionStatus;

use super::request::Submission;
use super::submitting::enter;
use super::{BEGIN, BEGIN_SYNC, Postgres, Refused};
use crate::flag;

impl Postgres {
    /// Decides how to treat a request.
    pub(super) fn treatment(&self, submission: &Submission<'_>) -> Treatment {
        if self.delayed.is_ahead() {
            return Treatment::Waits;
        }
        let Submission { text, .. } = *submission;
        let is_plain = submission.name.is_empty()
            && submission.parameters.is_empty()
            && !submission.has(flag::MEMBER);
        let asked = Asked { text, is_plain, is_simple: submission.has(flag::SIMPLE) };
        let at = Surroundings {
            is_idle: self.is_idle(),
            is_outside: self.is_outside(),
            segment_open: self.segment_open,
        };
        treatment(self.pending_begin.as_ref(), asked, at, || self.statements.traits(text))
    }

    /// Decides how to treat a question for what a statement takes. BEGIN goes in front of it, since
    /// the transaction has failed where the server refuses the statement.
    pub(super) fn treatment_of_question(&self) -> Treatment {
        match self.pending_begin.as_ref().is_some_and(PendingBegin::is_held) {
            true => Treatment::Leads,
            false => Treatment::Plain,
        }
    }

    /// Decides how to treat a sync point with a segment of its own.
    pub(super) fn treatment_of_sync(&self) -> Treatment {
        match self.delayed.is_ahead() {
            true => Treatment::Waits,
            false => treatment_of_sync(self.pending_begin.as_ref(), self.segment_open),
        }
    }

    /// Notes what a request that was accepted does to the transaction.
    pub(super) fn follow(&mut self, text: &str, treatment: Treatment) {
        match treatment {
            Treatment::Answered(Control::Begin | Control::Start) => {
                self.transactions += 1;
                let begin = Begin::new(text.to_owned(), self.transactions);
                self.pending_begin = Some(PendingBegin::new(begin));
            }
            Treatment::Answered(_) => self.pending_begin = None,
            Treatment::Plain | Treatment::Leads | Treatment::Guarded => {
                if let Some(pending) = &mut self.pending_begin {
                    pending.follow(text);
                }
            }
            Treatment::Waits | Treatment::Fails => {}
        }
    }

    /// Submits BEGIN in front of the next request, in the same segment.
    pub(super) fn submit_begin(&mut self, now: Time) -> Result<(), Refused> {
        let Some(pending) = self.pending_begin.as_mut().filter(|it| it.is_held()) else {
            return Ok(());
        };
        let request = Request {
            sync: SyncPoint::Member,
            in_order: true,
            pinned: true,
            ..Request::isolated(BEGIN, Begin::expect().into())
        };
        let begin = pending.begin();
        enter(&mut self.engine, now, request, begin.text_len(), &mut |out| begin.write(out))?;
        pending.sent();
        self.own_requests += 1;
        Ok(())
    }

    /// Sends BEGIN in a segment of its own.
    pub(super) fn send_begin(&mut self, now: Time) -> Result<(), Refused> {
        if self.pending_begin.as_ref().is_some_and(PendingBegin::is_held) {
            self.submit_begin(now)?;
            self.sync_begin(now)?;
        }
        Ok(())
    }

    /// Ends the segment of a BEGIN whose request can't be sent. BEGIN was answered, so the
    /// transaction begins all the same.
    pub(super) fn sync_begin(&mut self, now: Time) -> Result<(), Refused> {
        self.submit_sync(now, BEGIN_SYNC, Treatment::Plain)?;
        self.own_requests += 1;
        Ok(())
    }

    /// BEGIN was answered, or never will be.
    pub(super) fn begun(&mut self, block: Bytes, end: End) {
        self.own_requests -= 1;
        let Some(pending) = &mut self.pending_begin else { return };
        match end {
            End::Failed(Failure { cause: Cause::Server, .. }) => {
                pending.refused(block);
            }
            _ => self.pending_begin = None,
        }
    }

    /// No caller goes on with the transaction. A BEGIN that is held is sent; if it is refused, no
    /// caller is told.
    pub(super) fn leave_transaction(&mut self, now: Time) {
        // A connection that takes no more requests begins no transaction.
        let _ = self.send_begin(now);
        if let Some(pending) = &mut self.pending_begin {
            pending.end();
        }
    }

    /// The transaction status that is presumed and that the server has not reported, if there is
    /// one.
    pub(super) fn presumed(&self) -> Option<TransactionStatus> {
        self.pending_begin.as_ref()?.status()
    }

    /// Whether the last reported status is outside a transaction.
    fn is_outside(&self) -> bool {
        self.engine.protocol().status() == TransactionStatus::Idle && self.engine.is_open()
    }
}
