//! A transaction whose BEGIN was answered here: it waits for the first statement and leaves with it in one
//! segment, so it costs no trip.
//!
//! **The guard.** Where the server refuses BEGIN it is outside of any transaction, and what was sent behind it would be
//! committed, each statement by itself. So BEGIN runs as a portal with a name, which lives as long as its transaction
//! (PostgreSQL documentation, "Extended Query"). Until its answer is known, each statement behind the first
//! describes that portal in front, and the server skips it where there is none.
//!
//! A single statement of the simple protocol goes by the extended one meanwhile, which has the same results.
//! What can't (several statements in a text or none, COPY, `$1` without a value, FETCH, whose form a cursor
//! decides) waits until BEGIN is known to have succeeded, which costs a trip, and what is behind it waits with it.
//!
//! Once BEGIN was refused, all statements up to the end of the transaction fail by the server's error to it. COMMIT and
//! ROLLBACK are then answered by ROLLBACK, as the server answers them in a transaction that failed.

use bytes::{Bytes, BytesMut};
use onetrip_engine::{Cause, End, Failure, Request, SyncPoint, Time};
use onetrip_postgres::Expect;
use onetrip_postgres::message::{
    Describe, EncodeError, Execute, Target, TransactionStatus, bind, parse,
};
use onetrip_postgres::sql::Traits;

use super::begin::{self, Control};
use super::request::Submission;
use super::submitting::enter;
use super::{BEGIN, BEGIN_SYNC, Postgres, Refused};
use crate::export::flag;

/// A transaction that may not have begun.
#[derive(Debug)]
pub(super) struct Opening {
    text: Box<str>,
    /// The name of the portal in which BEGIN runs.
    pub(super) portal: String,
    state: State,
    /// Its end was sent, or it is nobody's any more: what comes from now on is not of it.
    is_over: bool,
}

#[derive(Debug)]
enum State {
    Held,
    /// On its way.
    Sent,
    /// By this error.
    Refused(Bytes),
}

/// What is done with a request, as to a transaction that may not have begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It has nothing to do with it.
    Plain,
    /// BEGIN goes in front of it, in its segment.
    Leads,
    /// The portal of BEGIN is described in front of it.
    Guarded,
    /// It waits until BEGIN was answered.
    Waits,
    /// It is answered here, as this.
    Answered(Control),
    /// It fails, since BEGIN was refused.
    Fails,
}

impl Course {
    /// Whether the request is skipped where BEGIN is refused.
    pub(super) fn is_guarded(self) -> bool {
        matches!(self, Course::Leads | Course::Guarded)
    }
}

impl Opening {
    fn is_held(&self) -> bool {
        matches!(self.state, State::Held)
    }

    /// Whether nobody knows if it begins.
    pub(super) fn is_in_doubt(&self) -> bool {
        matches!(self.state, State::Sent)
    }

    /// Why it did not begin.
    pub(super) fn refusal(&self) -> Option<&Bytes> {
        match &self.state {
            State::Refused(error) => Some(error),
            _ => None,
        }
    }

    /// Its end was sent.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Writes BEGIN without a Sync: what follows is of its segment.
    fn write(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        parse::write(out, "", &self.text, &[])?;
        bind::write_named(out, &self.portal, "", &[0; 6])?;
        Execute { portal: &self.portal, rows_max: 0 }.encode(out)
    }

    /// Writes what fails where it did not begin.
    pub(super) fn write_guard(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        Describe { target: Target::Portal(&self.portal) }.encode(out)
    }
}

impl Postgres {
    /// What is to be done with a request.
    pub(super) fn course(&mut self, submission: &Submission<'_>) -> Course {
        if self.delayed.is_ahead() {
            return Course::Waits;
        }
        let is_idle = self.is_idle();
        let control = Control::of(submission.text);
        let own = plain(submission).then_some(control).flatten();
        let Some(opening) = self.opening.as_ref().filter(|it| !it.is_over) else {
            return match own {
                Some(begin @ (Control::Begin | Control::Start)) if is_idle && self.is_outside() => {
                    Course::Answered(begin)
                }
                _ => Course::Plain,
            };
        };
        match (&opening.state, control) {
            (State::Held, Some(end @ (Control::Commit | Control::Rollback))) if own.is_some() => {
                Course::Answered(end)
            }
            (State::Held, _) if self.can_be_guarded(submission, control) => Course::Leads,
            // It fails where the transaction never began, and does no harm.
            (State::Sent, Some(Control::Rollback)) => Course::Plain,
            (State::Sent, _) if self.can_be_guarded(submission, control) => Course::Guarded,
            (State::Held | State::Sent, _) => Course::Waits,
            (State::Refused(_), Some(Control::Commit | Control::Rollback)) if is_idle => {
                Course::Answered(Control::Rollback)
            }
            (State::Refused(_), Some(Control::Commit)) => Course::Guarded,
            (State::Refused(_), _) if self.segment_open => Course::Guarded,
            // What is behind it in the text has nothing to do with the transaction.
            (State::Refused(_), _)
                if Control::ends_first(submission.text) == Some(Control::Rollback) =>
            {
                Course::Plain
            }
            (State::Refused(_), _) => Course::Fails,
        }
    }

    /// What is to be done with a sync point of its own.
    pub(super) fn course_of_sync(&self) -> Course {
        if self.delayed.is_ahead() {
            return Course::Waits;
        }
        match self.opening.as_ref().filter(|it| !it.is_over).map(|it| &it.state) {
            None => Course::Plain,
            Some(State::Held) => Course::Leads,
            Some(State::Sent) => Course::Guarded,
            Some(State::Refused(_)) if self.segment_open => Course::Guarded,
            Some(State::Refused(_)) => Course::Fails,
        }
    }

    /// Takes note of what a request that was taken does to the transaction.
    pub(super) fn follow(&mut self, text: &str, course: Course) {
        match course {
            Course::Answered(Control::Begin | Control::Start) => {
                self.transactions += 1;
                self.opening = Some(Opening {
                    text: text.into(),
                    portal: format!("{PORTAL_PREFIX}{}", self.transactions),
                    state: State::Held,
                    is_over: false,
                });
            }
            Course::Answered(_) => self.opening = None,
            Course::Plain | Course::Leads | Course::Guarded => {
                if let Some(opening) = &mut self.opening {
                    opening.is_over |= Control::ends_first(text).is_some();
                }
            }
            Course::Waits | Course::Fails => {}
        }
    }

    /// Whether a request is skipped by the server behind an error in front of it in its segment.
    fn can_be_guarded(&self, submission: &Submission<'_>, control: Option<Control>) -> bool {
        // What is of an open segment can't wait, since nothing of that is answered before its end.
        if self.segment_open {
            return true;
        }
        let traits = self.statements.traits(submission.text);
        // Behind COMMIT AND CHAIN and its kin there may be another transaction, in which the portal is no more.
        let goes_on = traits.transaction_control() && !traits.savepoint() && control.is_none();
        let simple = submission.has(flag::SIMPLE) && needs_simple(submission.text, traits);
        !goes_on && !simple && !traits.copy()
    }

    /// Submits BEGIN in front of what comes next, in its segment.
    pub(super) fn submit_begin(&mut self, now: Time) -> Result<(), Refused> {
        let Some(opening) = self.opening.as_mut().filter(|it| it.is_held()) else { return Ok(()) };
        let request = Request {
            sync: SyncPoint::Member,
            in_order: true,
            pinned: true,
            ..Request::isolated(BEGIN, Expect::sync().parse().bind().execute().into())
        };
        let size = opening.text_len();
        enter(&mut self.engine, now, request, size, &mut |out| opening.write(out))?;
        opening.state = State::Sent;
        self.own_requests += 1;
        Ok(())
    }

    /// Sends BEGIN in a segment of its own.
    pub(super) fn send_begin(&mut self, now: Time) -> Result<(), Refused> {
        if self.opening.as_ref().is_some_and(Opening::is_held) {
            self.submit_begin(now)?;
            self.submit_sync(now, BEGIN_SYNC, Course::Plain)?;
            self.own_requests += 1;
        }
        Ok(())
    }

    /// BEGIN was answered, or will not be.
    pub(super) fn begun(&mut self, block: Bytes, end: End) {
        self.own_requests -= 1;
        let Some(opening) = &mut self.opening else { return };
        match end {
            End::Failed(Failure { cause: Cause::Server, .. }) => {
                opening.state = State::Refused(block);
            }
            _ => self.opening = None,
        }
    }

    /// Nobody goes on with the transaction: a BEGIN that is held is sent, and if it is refused, that concerns
    /// nobody.
    pub(super) fn leave_transaction(&mut self, now: Time) {
        // A connection that takes nothing any more begins no transaction either.
        let _ = self.send_begin(now);
        if let Some(opening) = &mut self.opening {
            opening.end();
        }
    }

    /// Whether something is known of the transaction that the server has not told.
    pub(super) fn presumed(&self) -> Option<TransactionStatus> {
        let opening = self.opening.as_ref().filter(|it| !it.is_over)?;
        Some(match opening.state {
            State::Held | State::Sent => TransactionStatus::InTransaction,
            State::Refused(_) => TransactionStatus::Failed,
        })
    }

    /// Whether the session is in no transaction, as far as the server has told.
    fn is_outside(&self) -> bool {
        self.engine.protocol().status() == TransactionStatus::Idle && self.engine.is_open()
    }
}

/// Whether nothing but the text says what a request is.
fn plain(submission: &Submission<'_>) -> bool {
    submission.name.is_empty() && submission.parameters.is_empty() && !submission.has(flag::MEMBER)
}

/// Whether a text of the simple protocol may be answered otherwise by the extended one.
fn needs_simple(text: &str, traits: Traits) -> bool {
    traits.several()
        || text.as_bytes().contains(&b'$')
        || traits.session_state() && has(text, b"fetch")
        // What follows such a body is not seen to be a statement of its own.
        || has(text, b"atomic")
        // The extended protocol refuses it in a transaction that failed.
        || begin::is_empty(text)
}

/// Whether this stands somewhere in a text, in whatever case.
fn has(text: &str, part: &[u8]) -> bool {
    text.as_bytes().windows(part.len()).any(|it| it.eq_ignore_ascii_case(part))
}

/// In front of the numbers of portals.
const PORTAL_PREFIX: &str = "onetrip_tx_";
