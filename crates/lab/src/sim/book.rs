//! What a host was told, and whether it may have been told so.

use std::collections::BTreeMap;

use bytes::Bytes;
use onetrip_engine::{
    Cause, CloseReason, End, Failure, HEALS_MAX, Outcome, Output, SyncPoint, Time, Token,
};
use onetrip_postgres::Event;
use onetrip_postgres::message::TransactionStatus;

use super::Report;
use super::cancels::Wishes;
use super::judge::judge_error;
use super::plan::{Plan, PreparedText};
use super::reply;
use crate::model::Fail;

/// Everything that a host knows, and what was wrong with it.
#[derive(Default)]
pub(super) struct Book {
    /// Requests that were submitted, and callers that wait, by token.
    pub(super) records: BTreeMap<u64, Record>,
    /// Wishes for the floor that were not granted.
    pub(super) wishes: Vec<u64>,
    /// Those of the requests that may be open.
    deadlines: Vec<(Time, u64)>,
    /// Prepared statements that were confirmed and that nobody has registered.
    pub(super) confirmed: Vec<PreparedText>,
    pub(super) closed: Option<CloseReason>,
    pub(super) wishes_to_cancel: Wishes,
    /// A reset has failed, or an owner has deallocated all: what stands behind a guard may be skipped.
    pub(super) guards_fail: bool,
    pub(super) full: bool,
    pub(super) findings: Vec<String>,
    pub(super) report: Report,
}

/// One request.
pub(super) struct Record {
    pub(super) plan: Plan,
    pub(super) state: State,
    /// Its place in issue order: that of its group or its own, then that within the group.
    pub(super) place: (u64, u64),
    /// Those that share a transaction or a sync point with it.
    pub(super) run: u64,
    /// The group that it is of.
    pub(super) group: Option<u64>,
    pub(super) in_transaction: bool,
    /// It keeps its place in the order, whatever becomes of it.
    pub(super) in_order: bool,
    /// It was sent again since a neighbour failed.
    pub(super) restarted: bool,
    /// How often it was sent again though what heals it had been answered.
    outdated: u8,
    /// Its reply so far.
    pub(super) reply: Vec<u8>,
    pub(super) error: Option<Bytes>,
    pub(super) tags: Vec<String>,
    /// What may stand in front of its reply if it was sent again.
    pub(super) healed: Vec<reply::Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its caller waits for room.
    Waiting,
    Submitted,
    Ended(End),
}

impl Record {
    pub(super) fn new(plan: Plan, state: State, place: (u64, u64), run: u64) -> Record {
        Record {
            plan,
            state,
            place,
            run,
            group: None,
            in_transaction: false,
            in_order: false,
            restarted: false,
            outdated: 0,
            reply: Vec::new(),
            error: None,
            tags: Vec::new(),
            healed: Vec::new(),
        }
    }

    /// What its reply consists of. One whose sync point was left out has no answer to that.
    fn parts(&self) -> &[reply::Part] {
        match &self.plan.reply[..] {
            [parts @ .., reply::Part::Ready]
                if self.plan.joins && self.reply.iter().rev().nth(5) != Some(&b'Z') =>
            {
                parts
            }
            parts => parts,
        }
    }

    /// Whether it may not have started though what heals it was answered.
    fn may_be_outdated(&self) -> bool {
        // The first that heals it was sent without a word.
        self.plan.again && self.outdated + 1 < HEALS_MAX && reply::is_healed_alone(&self.reply)
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Ended(_)) && !self.plan.discard
    }

    /// How it ended, for those that were submitted.
    pub(super) fn end(&self) -> Option<End> {
        match self.state {
            State::Ended(end) => Some(end),
            _ => None,
        }
    }
}

impl Book {
    pub(super) fn complain(&mut self, what: impl Into<String>) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(what.into());
        }
    }

    /// Takes note of an output.
    pub(super) fn note(&mut self, now: Time, output: &Output<Event>) {
        match output {
            Output::Data { token, block } | Output::Piece { token, block, .. } => {
                self.note_data(*token, block);
            }
            Output::Restarted { token } => self.note_restarted(*token),
            Output::Ended { token, block, end } => self.note_end(now, *token, block, *end),
            Output::Event { event, .. } => self.report.count(match event {
                Event::Notice => "event notice",
                Event::Notification => "event notification",
                Event::ParameterStatus => "event parameter status",
            }),
            Output::Granted { token } => {
                self.report.count("group granted");
                let before = self.wishes.len();
                self.wishes.retain(|wish| *wish != token.0);
                if self.wishes.len() == before {
                    self.complain(format!("the floor was granted to {token:?}, who did not ask"));
                }
            }
            Output::Room { token } => {
                self.report.count("room announced");
                let waits = matches!(
                    self.records.get(&token.0),
                    Some(Record { state: State::Waiting, .. })
                );
                if !waits {
                    self.complain(format!("room was announced to {token:?}, who does not wait"));
                }
                self.records.remove(&token.0);
            }
            Output::Full => {
                self.report.count("full");
                if std::mem::replace(&mut self.full, true) {
                    self.complain("Full came twice without Drained");
                }
            }
            Output::Drained => {
                self.report.count("drained");
                if !std::mem::replace(&mut self.full, false) {
                    self.complain("Drained came without Full");
                }
            }
            Output::Cancel => self.report.count("cancel asked for"),
            Output::NotCancelled { .. } => self.report.count("cancel given up"),
            Output::Astray => {
                self.report.count("cancel astray");
                if !self.wishes_to_cancel.unprotected {
                    self.complain("no cancel got lost");
                }
            }
            Output::Closed(reason) => {
                if self.closed.replace(reason.clone()).is_some() {
                    self.complain("Closed came twice");
                }
            }
        }
    }

    fn note_data(&mut self, token: Token, block: &Bytes) {
        match self.records.get_mut(&token.0) {
            Some(record) if record.is_open() && record.state != State::Waiting => {
                record.reply.extend_from_slice(block);
                if block.is_empty() {
                    self.complain(format!("an empty part of the reply to {token:?}"));
                }
            }
            _ => self.complain(format!("a part of a reply for {token:?}, who expects none")),
        }
    }

    fn note_restarted(&mut self, token: Token) {
        match self.records.get_mut(&token.0).filter(|record| record.is_open()) {
            Some(record) if record.may_be_outdated() => {
                record.outdated += 1;
                record.reply.clear();
                self.report.count("healed more than once");
            }
            Some(record) if (record.plan.joins || record.plan.resend) && !record.restarted => {
                record.restarted = true;
                record.reply.clear();
                self.report.count("sent again for a neighbour");
            }
            _ => self.complain(format!("{token:?} was sent again, and should not be")),
        }
    }

    fn note_end(&mut self, now: Time, token: Token, block: &Bytes, end: End) {
        if let Some(at) = self.wishes.iter().position(|wish| *wish == token.0) {
            self.wishes.remove(at);
            if self.closed.is_none() || end != failed(Outcome::NotSent, Cause::Closed) {
                self.complain(format!("the wish {token:?} ended as {end:?}"));
            }
            return;
        }
        let Some(record) = self.records.get_mut(&token.0).filter(|record| record.is_open()) else {
            return self.complain(format!("{token:?} ended ({end:?}), but is not open"));
        };
        let waited = record.state == State::Waiting;
        record.state = State::Ended(end);
        let failed_at_server = matches!(end, End::Failed(Failure { cause: Cause::Server, .. }));
        match failed_at_server {
            true => record.error = Some(block.clone()),
            false => record.reply.extend_from_slice(block),
        }
        self.report.count(name(end));
        if waited {
            self.report.count("ended while waiting for room");
        }
        let findings = self.judge(now, token.0, end, waited);
        findings.into_iter().for_each(|finding| self.complain(finding));
    }

    /// What is wrong with this end, as far as the host can know.
    fn judge(&mut self, now: Time, token: u64, end: End, waited: bool) -> Vec<String> {
        let guards_fail = self.guards_fail;
        let (closed, all, wishes) = (self.closed.is_some(), &self.records, &self.wishes_to_cancel);
        let record = &all[&token];
        let mut findings = Vec::new();
        let mut complain = |what: String| findings.push(format!("{token}: {what} ({end:?})"));
        let whole = !matches!(end, End::Failed(_));
        let mut tags = Vec::new();
        match reply::check(&record.reply, record.parts(), whole, &record.healed) {
            Ok(found) => tags = found,
            Err(what) => complain(what),
        }
        match end {
            End::Complete if record.plan.sync == SyncPoint::Member => {
                complain("a member can't be complete before its segment is".into());
            }
            End::Provisional if record.plan.sync != SyncPoint::Member => {
                complain("what carries a sync point is never provisional".into());
            }
            End::Complete | End::Provisional => {
                if matches!(record.plan.fail, Some(Fail::Parse | Fail::Bind | Fail::Execute)) {
                    complain("it was to fail".into());
                }
            }
            End::Failed(Failure { cause, outcome }) => match cause {
                Cause::Server => {
                    let block = record.error.as_deref().unwrap_or_default();
                    if let Err(what) = judge_error(all, (wishes, guards_fail), record, block) {
                        complain(what);
                    }
                }
                Cause::Aborted => {
                    let alone = record.group.is_none()
                        && all.values().filter(|other| other.run == record.run).count() == 1;
                    if alone {
                        complain("it shares its sync point with nobody".into());
                    }
                }
                // A segment is taken out of the queue whole.
                Cause::Deadline if !run_is_late(all, record, now) => {
                    complain(format!("nothing of it was late at {now:?}"));
                }
                Cause::Closed if !closed => complain("the connection is open".into()),
                Cause::Cancelled if outcome == Outcome::Rejected && wishes.want(record) => {}
                Cause::Cancelled if outcome != Outcome::NotSent => {
                    complain("what was sent can't be taken back".into());
                }
                _ => {}
            },
        }
        if waited && !matches!(end, End::Failed(Failure { outcome: Outcome::NotSent, .. })) {
            complain("it was never submitted".into());
        }
        if let Some(record) = self.records.get_mut(&token) {
            record.tags = tags;
            if end == End::Complete {
                self.confirmed.extend(record.plan.prepares.take());
            }
            if record.end() == Some(End::Complete) && !record.reply.ends_with(b"Z\0\0\0\x05I") {
                self.report.count("shared a sync point");
            }
            if record.end() == Some(End::Complete) && record.reply.starts_with(b"3") {
                self.report.count("sent again and answered");
            }
        }
        findings
    }

    /// Takes note of a request, or of a caller that waits.
    pub(super) fn open(&mut self, now: Time, record: Record) {
        if record.plan.deadline != Time::NEVER && !record.plan.discard {
            // One that is late from the beginning has the same millisecond.
            self.deadlines.push((record.plan.deadline.max(now), record.plan.id));
        }
        self.records.insert(record.plan.id, record);
    }

    /// Requests that were submitted and have not ended.
    pub(super) fn submitted(&self) -> impl Iterator<Item = u64> {
        let open = self
            .records
            .iter()
            .filter(|(_, record)| record.is_open() && record.state == State::Submitted);
        open.map(|(id, _)| *id)
    }

    /// A request whose deadline passed before `moment` and that has not ended.
    pub(super) fn overdue(&mut self, moment: Time) -> Option<u64> {
        let records = &self.records;
        self.deadlines.retain(|(_, id)| records.get(id).is_some_and(Record::is_open));
        self.deadlines.iter().find(|(deadline, _)| *deadline < moment).map(|(_, id)| *id)
    }
}

/// A run with this many findings says no more.
const FINDINGS_MAX: usize = 10;

pub(super) const fn failed(outcome: Outcome, cause: Cause) -> End {
    End::Failed(Failure { outcome, cause })
}

fn run_is_late(all: &BTreeMap<u64, Record>, record: &Record, now: Time) -> bool {
    record.plan.deadline <= now
        || all.values().any(|other| other.run == record.run && other.plan.deadline <= now)
}

fn name(end: End) -> &'static str {
    let End::Failed(Failure { outcome, cause }) = end else {
        return if end == End::Complete { "ended Complete" } else { "ended Provisional" };
    };
    match (outcome, cause) {
        (Outcome::Rejected, Cause::Server) => "ended Rejected by the server",
        (Outcome::Unknown, Cause::Server) => "ended Unknown by the server",
        (Outcome::Rejected, Cause::Aborted) => "ended Rejected, aborted",
        (Outcome::Unknown, Cause::Aborted) => "ended Unknown, aborted",
        (Outcome::NotSent, Cause::Aborted) => "ended NotSent, aborted",
        (Outcome::NotSent, Cause::Deadline) => "ended NotSent at the deadline",
        (Outcome::Unknown, Cause::Deadline) => "ended Unknown at the deadline",
        (Outcome::Rejected, Cause::Deadline) => "ended Rejected at the deadline",
        (Outcome::NotSent, Cause::Cancelled) => "ended NotSent, cancelled",
        (Outcome::NotSent, Cause::Closed) => "ended NotSent at the close",
        (Outcome::Unknown, Cause::Closed) => "ended Unknown at the close",
        (Outcome::Rejected, Cause::Closed) => "ended Rejected at the close",
        _ => "ended otherwise",
    }
}

/// The letter that the session's transaction status has in a trace.
pub(super) fn letter(status: TransactionStatus) -> char {
    match status {
        TransactionStatus::Idle => 'I',
        TransactionStatus::InTransaction => 'T',
        TransactionStatus::Failed => 'E',
    }
}
