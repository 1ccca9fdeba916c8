//! Requests that wait for the answer to BEGIN, because the server would not skip them if BEGIN
//! fails. All requests behind them wait too, in order.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use bytes::{BufMut, Bytes, BytesMut};
use onetrip_engine::memory::is_there;
use onetrip_engine::{Ticket, Time};
use onetrip_postgres::client::transaction::pending::{PendingBegin, Treatment};
use onetrip_postgres::message::Format;
use onetrip_postgres::message::tag::backend;

use super::request::{Portal, Submission, Types};
use super::{Postgres, Refused};
use crate::completion::{Completions, end, kind, outcome};
use crate::flag;

/// The requests that wait.
#[derive(Debug)]
pub(super) struct Delayed {
    queue: VecDeque<Waiting>,
    /// How many of the entries are requests, and their bytes.
    requests: usize,
    bytes: usize,
    /// No deadline of a request here is earlier than this.
    earliest: Time,
    /// The requests are being submitted, each as if none waited.
    released: bool,
}

#[derive(Debug)]
struct Waiting {
    /// 0 if the entry is not a request.
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
        types: (u32, Box<[u32]>, bool),
        formats: Box<[Format]>,
        portal: (Box<str>, Option<NonZeroU32>),
        guard: Box<[u8]>,
    },
    Sync,
    /// No caller goes on with the transaction from here on.
    Left,
}

impl Waiting {
    fn bytes(&self) -> usize {
        match &self.what {
            What::Statement { text, name, parameters, types, formats, guard, .. } => {
                let lists = 4 * types.1.len() + size_of_val(&**formats);
                text.len() + guard.len() + name.len() + parameters.len() + lists
            }
            What::Sync | What::Left => 0,
        }
    }
}

impl Delayed {
    pub(super) fn new() -> Delayed {
        let queue = VecDeque::new();
        Delayed { queue, requests: 0, bytes: 0, earliest: Time::NEVER, released: false }
    }

    /// Whether a new request has to wait behind others.
    pub(super) fn is_ahead(&self) -> bool {
        !self.queue.is_empty() && !self.released
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many requests wait.
    pub(super) fn requests(&self) -> usize {
        self.requests
    }

    /// The earliest time at which a deadline may pass.
    pub(super) fn deadline(&self) -> Time {
        self.earliest
    }

    fn push(&mut self, waiting: Waiting) {
        self.requests += usize::from(waiting.token != 0);
        self.bytes += waiting.bytes();
        self.earliest = self.earliest.min(waiting.deadline);
        match self.released {
            // It has to wait again, and is still the first.
            true => self.queue.push_front(waiting),
            false => self.queue.push_back(waiting),
        }
    }

    fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.queue.pop_front()?;
        self.took(&waiting);
        Some(waiting)
    }

    fn took(&mut self, waiting: &Waiting) {
        self.requests -= usize::from(waiting.token != 0);
        self.bytes -= waiting.bytes();
        if self.queue.is_empty() {
            self.earliest = Time::NEVER;
        }
    }

    /// Takes out the requests whose deadline has passed, and returns their tokens.
    fn take(&mut self, is_over: &dyn Fn(&Waiting) -> bool) -> Vec<u32> {
        let (mut over, mut earliest, mut bytes) = (Vec::new(), Time::NEVER, 0);
        self.queue.retain(|waiting| {
            let ends = is_over(waiting);
            match ends {
                true if waiting.token != 0 => over.push(waiting.token),
                true => {}
                false => {
                    earliest = earliest.min(waiting.deadline);
                    bytes += waiting.bytes();
                }
            }
            !ends
        });
        (self.earliest, self.bytes) = (earliest, bytes);
        self.requests -= over.len();
        over
    }
}

impl Postgres {
    /// Keeps a request until BEGIN is answered.
    pub(super) fn delay(
        &mut self,
        now: Time,
        token: u32,
        submission: &Submission<'_>,
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        let Submission {
            flags, text, name, types, parameters, more, formats, portal, guard, ..
        } = *submission;
        if !more.is_empty() {
            return Err(Refused::Malformed);
        }
        if !is_there(submission.size_max(0)) {
            return Err(Refused::NoMemory);
        }
        let what = What::Statement {
            flags,
            text: text.into(),
            name: name.into(),
            parameters: parameters.into(),
            types: (types.id, types.oids.into(), types.are_learned),
            formats: formats.into(),
            portal: (portal.name.into(), portal.rows_max),
            guard: guard.into(),
        };
        self.push_delayed(now, Waiting { token, deadline, what })
    }

    /// The same for a sync point with a segment of its own.
    pub(super) fn delay_sync(&mut self, now: Time, token: u32) -> Result<Ticket, Refused> {
        self.push_delayed(now, Waiting { token, deadline: Time::NEVER, what: What::Sync })
    }

    /// No caller goes on with the transaction behind the requests that wait.
    pub(super) fn delay_leaving(&mut self) {
        self.delayed.push(Waiting { token: 0, deadline: Time::NEVER, what: What::Left });
    }

    fn push_delayed(&mut self, now: Time, waiting: Waiting) -> Result<Ticket, Refused> {
        let bytes = self.engine.queued_bytes() + self.delayed.bytes + waiting.bytes();
        if self.queued() >= self.queue_max.0 || bytes > self.queue_max.1 {
            return Err(Refused::Full);
        }
        self.send_begin(now)?;
        self.begin(waiting.token, None, None, false, false);
        self.delayed.push(waiting);
        Ok(Ticket::Sent)
    }

    /// Submits the requests that waited, once BEGIN is answered.
    pub(super) fn release_delayed(&mut self, now: Time, to: &mut Completions) {
        self.delayed.released = true;
        while !self.pending_begin.as_ref().is_some_and(PendingBegin::is_in_doubt)
            && let Some(first) = self.delayed.pop()
        {
            self.submit_delayed(now, first, to);
        }
        self.delayed.released = false;
        if self.delayed.is_empty() && std::mem::take(&mut self.terminating) {
            self.engine.terminate(now);
        }
        self.settle(to);
    }

    fn submit_delayed(&mut self, now: Time, waiting: Waiting, to: &mut Completions) {
        let Waiting { token, deadline, what } = waiting;
        let result = match what {
            What::Left => return self.leave_transaction(now),
            What::Sync => {
                self.forget(token);
                self.submit_host_sync(now, token, to)
            }
            What::Statement { flags, text, name, parameters, types, formats, portal, guard } => {
                self.forget(token);
                let (text, name, parameters) = (&*text, &*name, &*parameters);
                let types = Types { id: types.0, oids: &types.1, are_learned: types.2 };
                let formats = &*formats;
                let portal = Portal { name: &portal.0, rows_max: portal.1 };
                let guard = &*guard;
                let submission = Submission {
                    flags,
                    text,
                    name,
                    types,
                    parameters,
                    more: &[],
                    formats,
                    portal,
                    behind: "",
                    guard,
                };
                self.take_request(now, token, submission, deadline, to)
            }
        };
        if let Err(refused) = result {
            let how = end::SERVER | outcome::NOT_SENT << 8;
            to.push(kind::END, token, (0, how), refusal(refused));
        }
    }

    /// Ends the waiting requests whose deadline has passed.
    pub(super) fn expire_delayed(&mut self, now: Time, to: &mut Completions) {
        if self.delayed.deadline() <= now {
            self.end_delayed(end::DEADLINE, to, &|waiting| waiting.deadline <= now);
        }
    }

    /// Takes back a request that waits. Returns whether it waited.
    pub(super) fn cancel_delayed(&mut self, token: u32, to: &mut Completions) -> bool {
        self.end_delayed(end::CANCELLED, to, &|waiting| waiting.token == token) > 0
    }

    /// Ends all waiting requests, because the connection has ended.
    pub(super) fn close_delayed(&mut self, to: &mut Completions) {
        self.end_delayed(end::CLOSED, to, &|_| true);
    }

    fn end_delayed(
        &mut self,
        how: u32,
        to: &mut Completions,
        is_over: &dyn Fn(&Waiting) -> bool,
    ) -> usize {
        let over = self.delayed.take(is_over);
        for token in &over {
            self.forget(*token);
            to.push(kind::END, *token, (0, how | outcome::NOT_SENT << 8), Bytes::new());
        }
        over.len()
    }

    /// Ends a request at once, because BEGIN was refused.
    pub(super) fn fail_unbegun(&self, token: u32, to: &mut Completions) {
        let error = self.pending_begin.as_ref().and_then(PendingBegin::refusal).cloned();
        let how = end::BEGIN | outcome::NOT_SENT << 8;
        to.push(kind::END, token, (0, how), error.unwrap_or_default());
    }

    /// Answers, delays or sends a request, as the state of the transaction demands.
    pub(super) fn take_request(
        &mut self,
        now: Time,
        token: u32,
        submission: Submission<'_>,
        deadline: Time,
        to: &mut Completions,
    ) -> Result<Ticket, Refused> {
        let is_question = submission.has(flag::DESCRIBE) && !self.delayed.is_ahead();
        let treatment = match (self.hold_begin, is_question) {
            (true, true) => self.treatment_of_question(),
            (true, false) => self.treatment(&submission),
            (false, _) => Treatment::Plain,
        };
        let text = submission.text;
        let ticket = match treatment {
            Treatment::Answered(control) => {
                to.push(kind::END, token, (0, end::COMPLETE), control.answer());
                Ticket::Sent
            }
            Treatment::Fails => {
                self.fail_unbegun(token, to);
                Ticket::Sent
            }
            Treatment::Waits => self.delay(now, token, &submission, deadline)?,
            Treatment::Plain | Treatment::Leads | Treatment::Guarded => {
                self.send(now, token, submission, deadline, treatment)?
            }
        };
        if self.hold_begin && !is_question {
            self.follow(text, treatment);
        }
        Ok(ticket)
    }
}

/// An error in the server's format, for a request that was accepted before and can no longer be
/// refused.
fn refusal(refused: Refused) -> Bytes {
    let (code, message) = match refused {
        Refused::NameTaken => ("42P05", "the name stands for another prepared statement"),
        Refused::Full => ("53400", "too many queries wait"),
        Refused::Closed => ("08003", "the connection takes no more queries"),
        Refused::Malformed => ("08P01", "the query can't be sent"),
        Refused::NoMemory => ("53200", "there is no memory for a query this large"),
        Refused::TooLong => ("54000", "a query has less than 1 GiB"),
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
