//! How requests enter the connection: each with its prepared statement, and with a guard if its
//! transaction may not have begun.

use bytes::{BufMut, BytesMut};
use onetrip_engine::pool::TextKey;
use onetrip_engine::{Connection, Request, SubmitError, SyncPoint, Ticket, Time, Token, memory};
use onetrip_postgres::Expect;
use onetrip_postgres::client::named::{NameTaken, Plan};
use onetrip_postgres::client::retry::{Setting, permit};
use onetrip_postgres::client::statements::{Closing, Scope, Way};
use onetrip_postgres::client::transaction::block::LevelId;
use onetrip_postgres::client::transaction::pending::Treatment;
use onetrip_postgres::message::execute::failing;
use onetrip_postgres::message::{EncodeError, SYNC, TransactionStatus};
use onetrip_postgres::sql::Traits;

use super::request::{Submission, expect, expect_simple};
use super::statements::Numbered;
use super::{Postgres, Refused, TOKEN_MAX, Use};
use crate::completion::Completions;
use crate::flag;
use crate::protocol;

impl Postgres {
    /// Takes a request. Its reply comes under its token.
    pub(crate) fn submit(
        &mut self,
        now: Time,
        (token, key): (u32, TextKey),
        submission: Submission<'_>,
        deadline: Time,
        to: &mut Completions,
    ) -> Result<Ticket, Refused> {
        self.check(token)?;
        self.arrives(now);
        let (level, is_member) = (self.level(), submission.has(flag::MEMBER));
        let result = match self.lead_statement(now, token, &submission, to) {
            Ok(true) => self.take_request(now, token, submission, deadline, to),
            ended => ended.map(|_| Ticket::Sent),
        };
        match &result {
            Ok(_) => self.note_taken(token, key, (level, is_member), now),
            Err(Refused::Closed) => {}
            Err(_) => self.leave_out(),
        }
        self.settle(to);
        result
    }

    /// A request comes from the host.
    pub(super) fn arrives(&mut self, now: Time) {
        self.clock = now;
        self.statements.set_clock(now);
        self.pace.submitted(now);
        if self.engine.in_flight() + self.engine.queued() == 0 {
            self.workload.clear();
            // The network's round trip is not the server's time.
            self.since = now.after(self.workload.trip());
        }
    }

    /// It was taken.
    pub(super) fn note_taken(
        &mut self,
        token: u32,
        key: TextKey,
        (level, is_member): (Option<LevelId>, bool),
        now: Time,
    ) {
        let Some(used) = self.uses.get_mut(token as usize) else { return };
        (used.level, used.is_member) = (level, is_member);
        if let Some(timings) = self.timings.as_ref().filter(|_| key != TextKey::UNTOLD) {
            used.task = Some(match is_member {
                true => self.workload.begin_member(now, key, timings),
                false => self.workload.begin(now, key, timings),
            });
        }
    }

    /// Submits a request to the engine.
    pub(super) fn send(
        &mut self,
        now: Time,
        token: u32,
        mut submission: Submission<'_>,
        deadline: Time,
        treatment: Treatment,
    ) -> Result<Ticket, Refused> {
        if submission.has(flag::COPY_IN) {
            return self.send_copy(now, token, &submission);
        }
        if submission.has(flag::DESCRIBE) {
            return self.send_describe(now, token, &submission, deadline, treatment);
        }
        if submission.has(flag::SIMPLE) {
            if !treatment.is_guarded() {
                return self.send_simple(now, token, submission, deadline);
            }
            submission.flags = flag::UNPREPARED;
        }
        self.send_statement(now, token, submission, deadline, treatment)
    }

    fn send_simple(
        &mut self,
        now: Time,
        token: u32,
        submission: Submission<'_>,
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        let traits = self.statements.traits(submission.text);
        let stands_alone = self.stands_alone(Treatment::Plain);
        if !stands_alone {
            self.statements.sent(self.engine.protocol(), traits);
        }
        let request = Request {
            deadline,
            in_order: !stands_alone,
            resend: stands_alone && !traits.partial_effects(),
            metered: submission.has(flag::STREAM),
            ..Request::isolated(Token(token.into()), expect_simple(traits).into())
        };
        let write = &mut |out: &mut BytesMut| submission.write_simple(traits, out);
        let ticket = enter(&mut self.engine, now, request, submission.size_max(0), write)?;
        self.begin(token, None, None, changes_status(traits), false);
        self.uses[token as usize].metered = submission.has(flag::STREAM);
        Ok(ticket)
    }

    /// A question for what a statement takes and returns.
    fn send_describe(
        &mut self,
        now: Time,
        token: u32,
        submission: &Submission<'_>,
        deadline: Time,
        treatment: Treatment,
    ) -> Result<Ticket, Refused> {
        let (is_member, leads) = (submission.has(flag::MEMBER), treatment == Treatment::Leads);
        if leads {
            self.submit_begin(now)?;
        }
        let request = Request {
            sync: if is_member { SyncPoint::Member } else { SyncPoint::Own },
            deadline,
            pinned: leads || self.block.is_some(),
            in_order: !self.is_shared || is_member,
            // It has no effect, so it may be sent again where another's cancel has hit it.
            resend: self.is_shared && !is_member,
            ..Request::isolated(
                Token(token.into()),
                Expect::sync().parse().describe_statement().leaves_nothing().into(),
            )
        };
        let write = &mut |out: &mut BytesMut| submission.write_describe(out);
        match enter(&mut self.engine, now, request, submission.size_max(0), write) {
            Ok(ticket) => {
                self.segment_open = is_member;
                self.begin(token, None, None, leads, leads);
                Ok(ticket)
            }
            Err(error) => {
                if leads {
                    self.sync_begin(now)?;
                }
                Err(error.into())
            }
        }
    }

    pub(super) fn send_statement(
        &mut self,
        now: Time,
        token: u32,
        submission: Submission<'_>,
        deadline: Time,
        treatment: Treatment,
    ) -> Result<Ticket, Refused> {
        if !self.engine.is_open() {
            return Err(Refused::Closed);
        }
        match submission.exactness(self.engine.protocol().is_utc()).loosened() {
            None => self.send_planned(now, token, (submission, false), deadline, treatment),
            Some(loose) => {
                let loose = (submission.with(&loose), true);
                self.send_planned(now, token, loose, deadline, treatment)
            }
        }
    }

    /// `is_loose`: the server has to infer types of it anew.
    fn send_planned(
        &mut self,
        now: Time,
        token: u32,
        (submission, is_loose): (Submission<'_>, bool),
        deadline: Time,
        treatment: Treatment,
    ) -> Result<Ticket, Refused> {
        let Plan { way, closes, traits } = self.plan(&submission, is_loose)?;
        if !self.stands_alone(treatment) {
            self.statements.sent(self.engine.protocol(), traits);
        }
        let leads = treatment == Treatment::Leads;
        if leads {
            self.submit_begin(now)?;
        }
        let is_portal = !submission.portal.name.is_empty();
        let may_close = !closes && !is_portal && way.parsed_as().is_some();
        let close = if may_close { self.close_along() } else { None };
        let is_member = submission.has(flag::MEMBER);
        let is_behind = submission.has(BEHIND_GUARD);
        let stands_alone = self.stands_alone(treatment) && !is_member;
        let guard = self.pending_begin.as_ref().filter(|_| treatment == Treatment::Guarded);
        let expect = match is_portal {
            true => submission.expect_portal(traits),
            false => expect(&way, 1 + submission.more.len(), closes || close.is_some(), traits),
        };
        let expect = submission.and_behind(expect);
        let partial = expect.has_partial_effects();
        let expected = if guard.is_some() { expect.guarded() } else { expect };
        let request = Request {
            sync: if is_member { SyncPoint::Member } else { SyncPoint::Own },
            deadline,
            // A leading BEGIN, or a guard, has opened a segment, which needs this request to end it.
            pinned: leads || is_behind || self.block.is_some(),
            in_order: !stands_alone,
            metered: submission.has(flag::STREAM),
            ..Request::isolated(Token(token.into()), expected.into())
        };
        let at = Setting {
            is_shared: stands_alone && !is_behind,
            is_outside: !is_member && !is_behind && self.goes_outside(treatment),
        };
        let used = if let Way::Named(used) = &way { Some(used) } else { None };
        let mut request = permit(request, at, used, partial, submission.goes_on(traits));
        request.again &= !submission.has(flag::ANEW);
        let size = submission.size_max(close.as_ref().map_or(0, Closing::len));
        let write = &mut |out: &mut BytesMut| {
            guard.map_or(Ok(()), |pending| pending.begin().write_guard(out))?;
            submission.write(&way, closes, close.as_ref(), out)
        };
        match enter(&mut self.engine, now, request, size, write) {
            Ok(ticket) => {
                self.segment_open = is_member;
                let changes = leads || changes_status(traits);
                self.begin(token, way.used(), close, changes, treatment.is_guarded());
                let used = &mut self.uses[token as usize];
                (used.metered, used.is_behind) = (submission.has(flag::STREAM), is_behind);
                Ok(ticket)
            }
            Err(error) => {
                close.into_iter().for_each(|closing| self.statements.give_back(closing));
                if leads {
                    self.sync_begin(now)?;
                }
                Err(error.into())
            }
        }
    }

    /// A Close that goes along with a statement. There is none with one that is only named: that may
    /// be sent again behind a repair, which begins with a Close, and the answers to the two could not
    /// be told apart.
    fn close_along(&mut self) -> Option<Closing> {
        self.statements.take_close(self.engine.protocol_mut())
    }

    /// Whether a request sent now has no order among others, and no state but its own: its session
    /// is shared by agreement, or the pool puts requests of many callers on it and no transaction is
    /// open.
    fn stands_alone(&self, treatment: Treatment) -> bool {
        let is_idle = || self.engine.protocol().status() == TransactionStatus::Idle;
        self.is_shared || self.is_open_to_all && self.goes_outside(treatment) && is_idle()
    }

    /// Whether a request sent now runs outside any transaction for certain.
    fn goes_outside(&self, treatment: Treatment) -> bool {
        self.block.is_none() && !treatment.is_guarded() && self.changing == 0
    }

    /// `is_loose`: the server has to infer types of it anew.
    fn plan(
        &mut self,
        submission: &Submission<'_>,
        is_loose: bool,
    ) -> Result<Plan<Numbered>, Refused> {
        let protocol = self.engine.protocol_mut();
        let text = submission.text;
        let parameters = submission.exactness(protocol.is_utc());
        if !submission.name.is_empty() {
            // The text is kept, to compare it with others and to prepare it again.
            if !memory::is_there(3 * text.len()) {
                return Err(Refused::NoMemory);
            }
            let plan = self.statements.named(protocol, submission.name, text, parameters)?;
            return plan.map_err(|NameTaken| Refused::NameTaken);
        }
        if submission.has(flag::UNPREPARED) || !submission.portal.name.is_empty() || is_loose {
            let traits = self.statements.traits(text);
            return Ok(Plan { way: Way::Unnamed, closes: false, traits });
        }
        let heals = self.is_shared && !submission.has(flag::MEMBER | BEHIND_GUARD);
        let scope = if heals { Scope::Heals } else { Scope::Fixed };
        Ok(self.statements.counted(protocol, (text, submission.types.id), parameters, scope)?)
    }

    /// Sends a BEGIN that was held, because no more requests of its caller follow.
    pub(crate) fn flush(&mut self, now: Time, to: &mut Completions) {
        if self.delayed.is_empty() {
            self.leave_transaction(now);
        } else {
            self.delay_leaving();
        }
        self.settle(to);
    }

    /// Puts a request that fails in place of the rest of an open segment.
    pub(crate) fn fail_segment(&mut self, now: Time) {
        let expect = Expect::sync().execute().into();
        let request = Request {
            sync: SyncPoint::Member,
            in_order: true,
            ..Request::isolated(Token::DISCARD, expect)
        };
        let failing = failing();
        let write = &mut |out: &mut BytesMut| {
            out.put_slice(&failing);
            Ok(())
        };
        // The rest of a segment is never refused but by the end of the connection.
        let _ = enter(&mut self.engine, now, request, failing.len(), write);
    }

    pub(crate) fn queue_max(&self) -> usize {
        self.queue_max.0
    }

    pub(super) fn submit_sync(
        &mut self,
        now: Time,
        token: Token,
        treatment: Treatment,
    ) -> Result<Ticket, SubmitError<Refused>> {
        let guard = self.pending_begin.as_ref().filter(|_| treatment == Treatment::Guarded);
        let expect = Expect::sync();
        let request = Request {
            sync: SyncPoint::Only,
            in_order: true,
            pinned: true,
            ..Request::isolated(
                token,
                if guard.is_some() { expect.guarded() } else { expect }.into(),
            )
        };
        let write = &mut |out: &mut BytesMut| {
            guard.map_or(Ok(()), |pending| pending.begin().write_guard(out))?;
            out.put_slice(&SYNC);
            Ok(())
        };
        enter(&mut self.engine, now, request, 0, write)
    }

    /// Ends a segment of members. Without members it reports whether the transaction has begun.
    pub(crate) fn sync(
        &mut self,
        now: Time,
        token: u32,
        to: &mut Completions,
    ) -> Result<Ticket, Refused> {
        self.check(token)?;
        let submitted = self.submit_host_sync(now, token, to);
        self.settle(to);
        submitted
    }

    pub(super) fn submit_host_sync(
        &mut self,
        now: Time,
        token: u32,
        to: &mut Completions,
    ) -> Result<Ticket, Refused> {
        let treatment = self.treatment_of_sync();
        match treatment {
            Treatment::Waits => return self.delay_sync(now, token),
            Treatment::Fails => {
                self.fail_unbegun(token, to);
                return Ok(Ticket::Sent);
            }
            Treatment::Leads => self.submit_begin(now)?,
            _ => {}
        }
        let ticket = self.submit_sync(now, Token(token.into()), treatment)?;
        self.segment_open = false;
        self.begin(token, None, None, treatment == Treatment::Leads, treatment.is_guarded());
        Ok(ticket)
    }

    /// Whether a token can be used for a new request.
    pub(super) fn check(&mut self, token: u32) -> Result<(), Refused> {
        if self.terminating {
            return Err(Refused::Closed);
        }
        let is_live = self.uses.get(token as usize).is_some_and(|it| it.is_live);
        if token == 0 || token > TOKEN_MAX || is_live {
            return Err(Refused::Malformed);
        }
        let len = token as usize + 1;
        if self.uses.len() < len && !memory::is_there(2 * len * size_of::<Use>()) {
            return Err(Refused::NoMemory);
        }
        Ok(())
    }

    /// Notes a request that was sent or waits. `changes`: the transaction status may differ after
    /// it. `guarded`: it is skipped if BEGIN is refused.
    pub(super) fn begin(
        &mut self,
        token: u32,
        statement: Option<super::statements::Use>,
        close: Option<Closing>,
        changes: bool,
        guarded: bool,
    ) {
        let index = token as usize;
        if self.uses.len() <= index {
            self.uses.resize_with(index + 1, Use::default);
        }
        let is_live = true;
        self.uses[index] = Use { statement, close, changes, guarded, is_live, ..Use::default() };
        self.changing += usize::from(changes);
        self.live += 1;
    }

    /// Forgets a request that has ended. Returns what was known of it.
    pub(super) fn forget(&mut self, token: u32) -> Use {
        let used = self.uses.get_mut(token as usize).map(std::mem::take).unwrap_or_default();
        self.changing -= usize::from(used.changes);
        self.live -= usize::from(used.is_live);
        self.forget_end(token);
        if used.waits_for_cancel().is_some() {
            self.given_up_until = self.next_given_up();
        }
        used
    }

    pub(crate) fn cancel(&mut self, now: Time, ticket: Ticket, to: &mut Completions) -> bool {
        let taken_back = self.engine.cancel(now, ticket);
        self.settle(to);
        taken_back
    }
}

/// A bit of the flags that no host sets: the read has a guard in front of it, which it needs.
pub(super) const BEHIND_GUARD: u32 = 1 << 31;

/// Submits a request of at most `size` bytes that `write` writes. One function for all kinds, so
/// that the compiled module contains the engine's `submit` only once.
pub(crate) fn enter(
    engine: &mut Connection<protocol::Protocol>,
    now: Time,
    request: Request<protocol::Expect>,
    size_max: usize,
    write: &mut dyn FnMut(&mut BytesMut) -> Result<(), EncodeError>,
) -> Result<Ticket, SubmitError<Refused>> {
    engine.submit(now, request, |out| match memory::make_room(out, size_max + FRAMES_MAX) {
        true => write(out).map_err(Refused::from),
        false => Err(Refused::NoMemory),
    })
}

/// More than the headers of all messages of one request.
const FRAMES_MAX: usize = 256;

impl From<SubmitError<Refused>> for Refused {
    fn from(error: SubmitError<Refused>) -> Refused {
        match error {
            SubmitError::Closed => Refused::Closed,
            SubmitError::QueueFull => Refused::Full,
            SubmitError::NotGranted => Refused::Malformed,
            SubmitError::Encode(refused) => refused,
        }
    }
}

impl From<EncodeError> for Refused {
    fn from(error: EncodeError) -> Refused {
        match error {
            EncodeError::TooLong => Refused::TooLong,
            _ => Refused::Malformed,
        }
    }
}

/// Whether the transaction status may differ after this statement.
fn changes_status(traits: Traits) -> bool {
    traits.transaction_control() || traits.several()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_told_from_what_has_a_zero_byte() {
        assert_eq!(Refused::from(EncodeError::TooLong), Refused::TooLong);
        assert_eq!(Refused::from(EncodeError::Nul), Refused::Malformed);
    }
}
