//! How requests enter the connection: each with its statement, and behind a BEGIN that waited for it.

use bytes::BufMut;
use onetrip_engine::{Request, SubmitError, SyncPoint, Ticket, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::message::{EncodeError, SYNC, TransactionStatus};
use onetrip_postgres::sql::Traits;

use super::begin::{Begin, Control};
use super::request::{Submission, expect, expect_simple};
use super::statements::{NameTaken, Number, Way};
use super::{BEGIN, Postgres, Refused, TOKEN_MAX, Use};
use crate::completion::{Completions, end, kind};
use crate::export::flag;

impl Postgres {
    /// Takes a request. What it is answered comes under its token.
    pub(crate) fn submit(
        &mut self,
        now: Time,
        token: u32,
        submission: Submission<'_>,
        deadline: Time,
        to: &mut Completions,
    ) -> Result<Ticket, Refused> {
        self.check(token)?;
        if self.engine.in_flight() + self.engine.queued() == 0 {
            self.since = now;
        }
        if self.hold_begin && self.control(token, &submission, to) {
            return Ok(Ticket::Sent);
        }
        let result = match submission.has(flag::SIMPLE) {
            true => {
                self.send_held(now, token)?;
                self.submit_simple(now, token, submission, deadline)
            }
            false => self.submit_statement(now, token, submission, deadline),
        };
        self.settle(to);
        result
    }

    fn submit_simple(
        &mut self,
        now: Time,
        token: u32,
        submission: Submission<'_>,
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        let traits = self.statements.traits(submission.text);
        let request = Request {
            deadline,
            in_order: true,
            ..Request::isolated(Token(token.into()), expect_simple(traits))
        };
        let ticket =
            self.engine.submit(now, request, |out| submission.write_simple(traits, out))?;
        self.begin(token, 0, None, changes_status(traits));
        Ok(ticket)
    }

    fn submit_statement(
        &mut self,
        now: Time,
        token: u32,
        submission: Submission<'_>,
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        if !self.engine.is_open() {
            return Err(Refused::Closed);
        }
        let (way, traits) = self.way(&submission)?;
        let number = match way {
            Way::Unnamed => 0,
            Way::Prepare { number, .. } | Way::Named { number, .. } => number,
        };
        let parses = matches!(way, Way::Prepare { .. });
        self.statements.began(number);
        let leads = self.submit_held(now).inspect_err(|_| {
            self.statements.ended(self.engine.protocol_mut(), number, parses);
        })?;
        let close = match way {
            Way::Prepare { close: true, .. } => None,
            _ => self.statements.take_close(),
        };
        let is_member = submission.has(flag::MEMBER);
        let request = Request {
            sync: if is_member { SyncPoint::Member } else { SyncPoint::Own },
            deadline,
            // Without it the segment that BEGIN has begun would have no end.
            pinned: leads,
            // What fails in a transaction is not mended by sending it again.
            again: !is_member && !leads && self.changing == 0 && matches!(way, Way::Named { .. }),
            in_order: true,
            ..Request::isolated(Token(token.into()), expect(&way, close.is_some(), traits))
        };
        let (engine, statements) = (&mut self.engine, &self.statements);
        let submitted = engine.submit(now, request, |out| {
            submission.write(&way, statements.name(number), close.as_deref(), out)
        });
        match submitted {
            Ok(ticket) => {
                if leads {
                    self.held = None;
                    self.led.push_back(token);
                }
                self.begin(token, number, close, leads || changes_status(traits));
                Ok(ticket)
            }
            Err(error) => {
                if leads {
                    // BEGIN was answered: the transaction begins all the same.
                    self.held = None;
                    self.led.push_back(0);
                    self.submit_sync(now, Token::DISCARD)?;
                }
                close.into_iter().for_each(|name| self.statements.give_close_back(name));
                self.statements.ended(self.engine.protocol_mut(), number, parses);
                Err(error.into())
            }
        }
    }

    fn way(&mut self, submission: &Submission<'_>) -> Result<(Way, Traits), Refused> {
        let protocol = self.engine.protocol_mut();
        let text = submission.text;
        if !submission.name.is_empty() {
            let way = self.statements.named(protocol, submission.name, text)?;
            return way.map_err(|NameTaken| Refused::NameTaken);
        }
        if submission.has(flag::UNPREPARED) {
            return Ok((Way::Unnamed, self.statements.traits(text)));
        }
        Ok(self.statements.counted(protocol, text)?)
    }

    /// Answers control of a transaction that has not begun on the server. Whether it did.
    fn control(&mut self, token: u32, submission: &Submission<'_>, to: &mut Completions) -> bool {
        let plain = submission.name.is_empty()
            && submission.parameters.is_empty()
            && !submission.has(flag::MEMBER);
        let Some(control) = Control::of(submission.text).filter(|_| plain) else { return false };
        match (control, self.held.is_some()) {
            (Control::Begin, false) if self.is_outside() => {
                self.held = Some(Begin::new(submission.text));
            }
            (Control::Commit | Control::Rollback, true) => self.held = None,
            _ => return false,
        }
        to.push(kind::END, token, (0, end::COMPLETE), control.answer());
        true
    }

    /// Whether the session is in no transaction, and nothing on its way can change that.
    fn is_outside(&self) -> bool {
        let idle = self.engine.protocol().status() == TransactionStatus::Idle;
        idle && self.changing == 0 && self.engine.is_open()
    }

    /// Puts a BEGIN that was held in front of the statement that comes next, in its segment. Whether there was one.
    fn submit_held(&mut self, now: Time) -> Result<bool, Refused> {
        let Some(begin) = &self.held else { return Ok(false) };
        let request = Request {
            sync: SyncPoint::Member,
            in_order: true,
            pinned: true,
            ..Request::isolated(BEGIN, Expect::sync().parse().bind().execute())
        };
        self.engine.submit(now, request, |out| begin.write(out))?;
        Ok(true)
    }

    /// Sends a BEGIN that was held by itself, in front of what can't be of its segment.
    fn send_held(&mut self, now: Time, before: u32) -> Result<(), Refused> {
        if self.submit_held(now)? {
            self.held = None;
            self.led.push_back(before);
            self.submit_sync(now, Token::DISCARD)?;
        }
        Ok(())
    }

    /// Sends a BEGIN that was held, since nothing of this connection's host comes behind it.
    pub(crate) fn flush(&mut self, now: Time, to: &mut Completions) {
        // A connection that takes nothing any more begins no transaction either.
        let _ = self.send_held(now, 0);
        self.settle(to);
    }

    fn submit_sync(&mut self, now: Time, token: Token) -> Result<Ticket, SubmitError<EncodeError>> {
        let request = Request {
            sync: SyncPoint::Only,
            in_order: true,
            pinned: true,
            ..Request::isolated(token, Expect::sync())
        };
        self.engine.submit(now, request, |out| {
            out.put_slice(&SYNC);
            Ok::<(), EncodeError>(())
        })
    }

    /// Ends a segment of members.
    pub(crate) fn sync(
        &mut self,
        now: Time,
        token: u32,
        to: &mut Completions,
    ) -> Result<Ticket, Refused> {
        self.check(token)?;
        let submitted = self.submit_sync(now, Token(token.into()));
        if submitted.is_ok() {
            self.begin(token, 0, None, false);
        }
        self.settle(to);
        Ok(submitted?)
    }

    /// Whether a token can be given to a request.
    fn check(&self, token: u32) -> Result<(), Refused> {
        let is_live = self.uses.get(token as usize).is_some_and(|it| it.is_live);
        match token == 0 || token > TOKEN_MAX || is_live {
            true => Err(Refused::Malformed),
            false => Ok(()),
        }
    }

    fn begin(&mut self, token: u32, statement: Number, close: Option<String>, changes: bool) {
        let index = token as usize;
        if self.uses.len() <= index {
            self.uses.resize_with(index + 1, Use::default);
        }
        self.uses[index] = Use { statement, parsed: false, close, changes, is_live: true };
        self.changing += usize::from(changes);
    }

    pub(crate) fn cancel(&mut self, now: Time, ticket: Ticket, to: &mut Completions) -> bool {
        let taken_back = self.engine.cancel(now, ticket);
        self.settle(to);
        taken_back
    }
}

impl From<SubmitError<EncodeError>> for Refused {
    fn from(error: SubmitError<EncodeError>) -> Refused {
        match error {
            SubmitError::Closed => Refused::Closed,
            SubmitError::QueueFull => Refused::Full,
            SubmitError::NotGranted | SubmitError::Encode(_) => Refused::Malformed,
        }
    }
}

impl From<EncodeError> for Refused {
    fn from(_: EncodeError) -> Refused {
        Refused::Malformed
    }
}

/// Whether the status of the transaction may be another one behind it.
fn changes_status(traits: Traits) -> bool {
    traits.transaction_control() || traits.several()
}
