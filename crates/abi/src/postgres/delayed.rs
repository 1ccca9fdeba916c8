//! Requests that wait until BEGIN was answered, since the server would not skip them behind one that fails; and all that
//! came behind them, in order.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use onetrip_engine::{Ticket, Time};
use onetrip_postgres::message::tag::backend;

use super::opening::{Course, Opening};
use super::request::Submission;
use super::{Postgres, Refused};
use crate::completion::{Completions, end, kind, outcome};

/// What waits.
#[derive(Debug)]
pub(super) struct Delayed {
    /// 0 for what concerns no request.
    token: u32,
    deadline: Time,
    what: What,
}

#[derive(Debug)]
enum What {
    Statement {
        flags: u32,
        text: Box<str>,
        name: Box<str>,
        parameters: Box<[u8]>,
    },
    Sync,
    /// From here on nobody goes on with the transaction.
    Left,
}

impl Delayed {
    fn bytes(&self) -> usize {
        match &self.what {
            What::Statement { text, name, parameters, .. } => {
                text.len() + name.len() + parameters.len()
            }
            What::Sync | What::Left => 0,
        }
    }
}

impl Postgres {
    /// Keeps a request until BEGIN was answered.
    pub(super) fn delay(
        &mut self,
        now: Time,
        token: u32,
        submission: &Submission<'_>,
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        let Submission { flags, text, name, parameters } = *submission;
        // It could not be written.
        if text.contains('\0') || name.contains('\0') {
            return Err(Refused::Malformed);
        }
        let what = What::Statement {
            flags,
            text: text.into(),
            name: name.into(),
            parameters: parameters.into(),
        };
        self.push_delayed(now, Delayed { token, deadline, what })
    }

    /// The same for a sync point of its own.
    pub(super) fn delay_sync(&mut self, now: Time, token: u32) -> Result<Ticket, Refused> {
        self.push_delayed(now, Delayed { token, deadline: Time::NEVER, what: What::Sync })
    }

    /// Nobody goes on with the transaction behind what waits.
    pub(super) fn delay_leaving(&mut self) {
        let left = Delayed { token: 0, deadline: Time::NEVER, what: What::Left };
        self.delayed.push_back(left);
    }

    fn push_delayed(&mut self, now: Time, delayed: Delayed) -> Result<Ticket, Refused> {
        let bytes: usize = self.delayed.iter().map(Delayed::bytes).sum();
        let is_full = self.queued() >= self.queue_max.0
            || self.engine.queued_bytes() + bytes + delayed.bytes() > self.queue_max.1;
        if is_full {
            return Err(Refused::Full);
        }
        self.send_begin(now)?;
        self.begin(delayed.token, 0, None, false, false);
        self.delayed.push_back(delayed);
        Ok(Ticket::Sent)
    }

    /// Submits what waited, once BEGIN was answered.
    pub(super) fn release_delayed(&mut self, now: Time, to: &mut Completions) {
        while !self.delayed.is_empty() && !self.opening.as_ref().is_some_and(Opening::is_in_doubt) {
            // Unless it has to wait again, it must not wait behind the rest.
            let mut rest = std::mem::take(&mut self.delayed);
            let Some(first) = rest.pop_front() else { break };
            self.submit_delayed(now, first, to);
            self.delayed.extend(rest);
        }
        if self.delayed.is_empty() && std::mem::take(&mut self.terminating) {
            self.engine.terminate(now);
        }
        self.settle(to);
    }

    fn submit_delayed(&mut self, now: Time, delayed: Delayed, to: &mut Completions) {
        let Delayed { token, deadline, what } = delayed;
        let result = match what {
            What::Left => return self.leave_transaction(now),
            What::Sync => {
                self.forget(token);
                self.submit_host_sync(now, token, to)
            }
            What::Statement { flags, text, name, parameters } => {
                self.forget(token);
                let submission =
                    Submission { flags, text: &text, name: &name, parameters: &parameters };
                self.take_course(now, token, submission, deadline, to)
            }
        };
        if let Err(refused) = result {
            let how = end::SERVER | outcome::NOT_SENT << 8;
            to.push(kind::END, token, (0, how), refusal(refused));
        }
    }

    /// Ends those that wait and whose time is over.
    pub(super) fn expire_delayed(&mut self, now: Time, to: &mut Completions) {
        self.end_delayed(end::DEADLINE, to, |delayed| delayed.deadline <= now);
    }

    /// Takes one back that waits. Whether it did.
    pub(super) fn cancel_delayed(&mut self, token: u32, to: &mut Completions) -> bool {
        let before = self.delayed.len();
        self.end_delayed(end::CANCELLED, to, |delayed| delayed.token == token);
        self.delayed.len() < before
    }

    /// The connection has ended.
    pub(super) fn close_delayed(&mut self, to: &mut Completions) {
        self.end_delayed(end::CLOSED, to, |_| true);
    }

    fn end_delayed(&mut self, how: u32, to: &mut Completions, is_over: impl Fn(&Delayed) -> bool) {
        if self.delayed.is_empty() {
            return;
        }
        let (over, rest): (VecDeque<_>, _) =
            std::mem::take(&mut self.delayed).into_iter().partition(is_over);
        self.delayed = rest;
        for Delayed { token, .. } in over.into_iter().filter(|it| it.token != 0) {
            self.forget(token);
            to.push(kind::END, token, (0, how | outcome::NOT_SENT << 8), Bytes::new());
        }
    }

    /// When the first of them is over.
    pub(super) fn delayed_deadline(&self) -> Time {
        self.delayed.iter().map(|it| it.deadline).min().unwrap_or(Time::NEVER)
    }

    /// How many requests wait.
    pub(super) fn delayed_len(&self) -> usize {
        self.delayed.iter().filter(|it| it.token != 0).count()
    }

    /// Ends a request at once, since BEGIN was refused.
    pub(super) fn fail_unbegun(&self, token: u32, to: &mut Completions) {
        let error = self.opening.as_ref().and_then(Opening::refusal).cloned();
        let how = end::BEGIN | outcome::NOT_SENT << 8;
        to.push(kind::END, token, (0, how), error.unwrap_or_default());
    }

    /// Does with a request what is to be done with it.
    pub(super) fn take_course(
        &mut self,
        now: Time,
        token: u32,
        submission: Submission<'_>,
        deadline: Time,
        to: &mut Completions,
    ) -> Result<Ticket, Refused> {
        let course = if self.hold_begin { self.course(&submission) } else { Course::Plain };
        let text = submission.text;
        let ticket = match course {
            Course::Answered(control) => {
                to.push(kind::END, token, (0, end::COMPLETE), control.answer());
                Ticket::Sent
            }
            Course::Fails => {
                self.fail_unbegun(token, to);
                Ticket::Sent
            }
            Course::Waits => self.delay(now, token, &submission, deadline)?,
            Course::Plain | Course::Leads | Course::Guarded => {
                self.send(now, token, submission, deadline, course)?
            }
        };
        if self.hold_begin {
            self.follow(text, course);
        }
        Ok(ticket)
    }
}

/// An error in the server's form, for what can't be refused in any other way any more.
fn refusal(refused: Refused) -> Bytes {
    let (code, message) = match refused {
        Refused::NameTaken => ("42P05", "the name stands for another prepared statement"),
        Refused::Full => ("53400", "too many queries wait"),
        Refused::Closed => ("08003", "the connection takes no more queries"),
        Refused::Malformed => ("08P01", "the query can't be sent"),
    };
    let mut body = BytesMut::new();
    for (field, text) in [(b'S', "ERROR"), (b'V', "ERROR"), (b'C', code), (b'M', message)] {
        body.put_u8(field);
        body.put_slice(text.as_bytes());
        body.put_u8(0);
    }
    body.put_u8(0);
    let mut error = BytesMut::new();
    error.put_u8(backend::ERROR_RESPONSE);
    error.put_u32(body.len() as u32 + 4);
    error.put_slice(&body);
    error.freeze()
}
