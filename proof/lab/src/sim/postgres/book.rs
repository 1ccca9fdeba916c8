//! Records and checks the outputs that only PostgreSQL's hosts receive.

use onetrip_engine::{Cause, End, Failure, HEALS_MAX, Outcome, Output, SyncPoint, Token};
use onetrip_postgres::Event;

use super::cancels::Wishes;
use super::judge::judge_error;
use super::plan::PreparedText;
use super::{Postgres, Record, reply};
use crate::model::Fail;
use crate::sim::book::{Book, failed};

/// What is known of a request that was submitted.
#[derive(Default)]
pub struct Known {
    pub(super) in_transaction: bool,
    /// Whether it keeps its place in the order in any case.
    pub(super) in_order: bool,
    /// How often it was sent again: a neighbour failed, a cancel hit it by mistake, or it was taken
    /// away from those behind it.
    pub(super) restarts: u32,
    /// How often it was sent again although its statement had been prepared again.
    outdated: u8,
    pub(super) tags: Vec<String>,
    /// Replies that may come before its own if it was sent again.
    pub(super) healed: Vec<reply::Part>,
}

/// What a host was told, apart from the ends of its requests.
#[derive(Default)]
pub struct Heard {
    /// Wishes for the floor that were not granted.
    pub(super) wishes: Vec<u64>,
    /// Prepared statements that were confirmed and not registered yet.
    pub(super) confirmed: Vec<PreparedText>,
    pub(super) wishes_to_cancel: Wishes,
    /// Whether late heads are taken away from those behind them.
    pub(super) yields: bool,
    /// Whether a reset has failed, or an owner has deallocated everything: then statements after a
    /// guard may be skipped.
    pub(super) guards_fail: bool,
}

impl Record {
    /// What its reply consists of. One whose sync point was left out has no answer to that.
    fn parts(&self) -> &[reply::Part] {
        match &self.plan.own.reply[..] {
            [parts @ .., reply::Part::Ready]
                if self.plan.own.joins && self.reply.iter().rev().nth(5) != Some(&b'Z') =>
            {
                parts
            }
            parts => parts,
        }
    }

    /// Whether it may not have started although its statement was prepared again.
    fn may_be_outdated(&self) -> bool {
        // The first that heals it was sent without a word.
        let may_come_again = self.plan.again && self.own.outdated + 1 < HEALS_MAX;
        may_come_again && reply::is_healed_alone(&self.reply)
    }

    /// Whether it may have been sent again without the host being told.
    pub(super) fn may_be_restarted(&self) -> bool {
        let unheard =
            self.plan.discard || self.end() == Some(failed(Outcome::Unknown, Cause::Deadline));
        self.own.restarts > 0 || self.plan.own.resend && unheard
    }
}

impl Book<Postgres> {
    pub(super) fn note_other(&mut self, output: &Output<Event>) {
        match output {
            Output::Restarted { token } => self.note_restarted(*token),
            Output::Event { event, .. } => self.report.count(match event {
                Event::Notice => "event notice",
                Event::Notification => "event notification",
                Event::StaleNotification => "event stale notification",
                Event::ParameterStatus => "event parameter status",
            }),
            Output::Granted { token } => {
                self.report.count("group granted");
                let before = self.own.wishes.len();
                self.own.wishes.retain(|wish| *wish != token.0);
                if self.own.wishes.len() == before {
                    self.complain(format!("the floor was granted to {token:?}, who did not ask"));
                }
            }
            Output::Cancel => self.report.count("cancel asked for"),
            Output::NotCancelled { .. } => self.report.count("cancel given up"),
            Output::Astray => {
                self.report.count("cancel astray");
                if !self.own.wishes_to_cancel.unprotected {
                    self.complain("no cancel got lost");
                }
            }
            output => self.complain(format!("nothing leads to {output:?}")),
        }
    }

    fn note_restarted(&mut self, token: Token) {
        match self.records.get_mut(&token.0).filter(|record| record.is_open()) {
            Some(record) if record.may_be_outdated() => {
                record.own.outdated += 1;
                record.reply.clear();
                self.report.count("healed more than once");
            }
            Some(record)
                if (record.plan.own.joins || record.plan.own.resend)
                    && (self.own.yields || record.own.restarts == 0) =>
            {
                record.own.restarts += 1;
                record.reply.clear();
                self.report.count("sent again for a neighbour");
            }
            _ => self.complain(format!("{token:?} was sent again, and should not be")),
        }
    }

    /// The end of a wish for the floor, if it is one.
    pub(super) fn note_end_of_wish(&mut self, token: Token, end: End) -> bool {
        let Some(at) = self.own.wishes.iter().position(|wish| *wish == token.0) else {
            return false;
        };
        self.own.wishes.remove(at);
        if self.closed.is_none() || end != failed(Outcome::NotSent, Cause::Closed) {
            self.complain(format!("the wish {token:?} ended as {end:?}"));
        }
        true
    }

    /// What is wrong with a reply, or an error.
    pub(super) fn judge(&mut self, token: u64, end: End) -> Vec<String> {
        let record = &self.records[&token];
        let mut findings = Vec::new();
        let whole = !matches!(end, End::Failed(_));
        let tags = match reply::check(&record.reply, record.parts(), whole, &record.own.healed) {
            Ok(tags) => tags,
            Err(what) => {
                findings.push(what);
                Vec::new()
            }
        };
        if let End::Failed(Failure { cause: Cause::Server, .. }) = end
            && let Err(what) = judge_error(&self.records, &self.own, record, &record.error)
        {
            findings.push(what);
        }
        findings.extend(misplaced(record, end).map(str::to_owned));
        let (shared, again) =
            (!record.reply.ends_with(b"Z\0\0\0\x05I"), record.reply.starts_with(b"3"));
        if end == End::Complete {
            self.report.add("shared a sync point", u64::from(shared));
            self.report.add("sent again and answered", u64::from(again));
        }
        if let Some(record) = self.records.get_mut(&token) {
            record.own.tags = tags;
            if end == End::Complete {
                self.own.confirmed.extend(record.plan.own.prepares.take());
            }
        }
        findings
    }
}

/// What is wrong with an end that is no failure.
fn misplaced(record: &Record, end: End) -> Option<&'static str> {
    let is_member = record.plan.own.sync == SyncPoint::Member;
    let fails = matches!(record.plan.own.fail, Some(Fail::Parse | Fail::Bind | Fail::Execute));
    match end {
        End::Complete if is_member => Some("a member can't be complete before its segment is"),
        End::Provisional if !is_member => Some("what carries a sync point is never provisional"),
        End::Complete | End::Provisional if fails => Some("it was to fail"),
        _ => None,
    }
}
