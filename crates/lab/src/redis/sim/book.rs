//! What a host was told, and whether it may have been told so.

use std::collections::BTreeMap;

use bytes::Bytes;
use onetrip_engine::{Cause, CloseReason, End, Failure, Outcome, Output, Time, Token};
use onetrip_redis::Event;

use super::super::model::ATTRIBUTE;
use super::Report;
use super::plan::{Kind, Plan};
use super::reply;

/// Everything that a host knows, and what was wrong with it.
#[derive(Default)]
pub(super) struct Book {
    /// Requests that were submitted, and callers that wait, by token.
    pub(super) records: BTreeMap<u64, Record>,
    /// Those of the requests that may be open.
    deadlines: Vec<(Time, u64)>,
    pub(super) closed: Option<CloseReason>,
    pub(super) full: bool,
    /// What was pushed, in order.
    pub(super) pushes: Vec<Bytes>,
    pub(super) findings: Vec<String>,
    pub(super) report: Report,
}

/// One request.
pub(super) struct Record {
    pub(super) plan: Plan,
    pub(super) state: State,
    /// Its place in issue order; 0 while its caller waits.
    pub(super) place: u64,
    /// Its reply so far.
    reply: Vec<u8>,
    error: Bytes,
    /// Identities of it that were answered with errors.
    pub(super) failed: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its caller waits for room.
    Waiting,
    Submitted,
    Ended(End),
}

impl Record {
    pub(super) fn new(plan: Plan, state: State, place: u64) -> Record {
        Record { plan, state, place, reply: Vec::new(), error: Bytes::new(), failed: Vec::new() }
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Ended(_)) && !self.plan.discard
    }

    /// How it ended.
    pub(super) fn end(&self) -> Option<End> {
        match self.state {
            State::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// With which outcome it failed.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        match self.end()? {
            End::Failed(failure) => Some(failure.outcome),
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
            Output::Data { token, block } => self.note_data(*token, block),
            Output::Ended { token, block, end } => self.note_end(now, *token, block, *end),
            Output::Event { event: Event::Push, block } => {
                self.report.count("event push");
                let block =
                    block.strip_prefix(ATTRIBUTE).map_or(block.clone(), |it| block.slice_ref(it));
                self.pushes.push(block);
            }
            Output::Event { event: Event::ScriptLoaded, .. } => self.report.count("script loaded"),
            Output::Room { token } => self.note_room(*token),
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
            Output::Closed(reason) => {
                if self.closed.replace(reason.clone()).is_some() {
                    self.complain("Closed came twice");
                }
            }
            // A script that is sent again more than once; nothing of its reply has come.
            Output::Restarted { .. } => self.report.count("sent again once more"),
            Output::Piece { .. }
            | Output::Granted { .. }
            | Output::Cancel
            | Output::NotCancelled { .. }
            | Output::Astray => self.complain(format!("nothing leads to {output:?}")),
        }
    }

    fn note_room(&mut self, token: Token) {
        self.report.count("room announced");
        match self.records.remove(&token.0) {
            Some(Record { state: State::Waiting, .. }) => {}
            _ => self.complain(format!("room was announced to {token:?}, who does not wait")),
        }
    }

    fn note_data(&mut self, token: Token, block: &Bytes) {
        self.report.count("part of a reply");
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

    fn note_end(&mut self, now: Time, token: Token, block: &Bytes, end: End) {
        let Some(record) = self.records.get_mut(&token.0).filter(|record| record.is_open()) else {
            return self.complain(format!("{token:?} ended ({end:?}), but is not open"));
        };
        let waited = record.state == State::Waiting;
        record.state = State::Ended(end);
        match matches!(end, End::Failed(Failure { cause: Cause::Server, .. })) {
            true => record.error = block.clone(),
            false => record.reply.extend_from_slice(block),
        }
        self.report.count(name(end));
        if waited {
            self.report.count("ended while waiting for room");
            if record.outcome() != Some(Outcome::NotSent) {
                self.complain(format!("{token:?} was never submitted ({end:?})"));
            }
        }
        let closed = self.closed.is_some();
        let record = self.records.get_mut(&token.0).expect("it was there");
        let mut findings = Vec::new();
        match reply::check(&record.reply, &record.plan, end == End::Complete) {
            Ok(failed) => record.failed = failed,
            Err(what) => findings.push(what),
        }
        findings.extend(misjudged(record, end, now, closed).map(str::to_owned));
        for what in findings {
            self.complain(format!("{}: {what} ({end:?})", token.0));
        }
        self.count_kind(token.0, end);
    }

    fn count_kind(&mut self, token: u64, end: End) {
        let record = &self.records[&token];
        let what = match (&record.plan.kind, end) {
            (_, End::Complete) if !record.failed.is_empty() => {
                "complete with errors among its replies"
            }
            (Kind::Script(_), End::Complete) => "script complete",
            (Kind::Atomic, End::Complete) => "atomic complete",
            (Kind::Confirmations(_), End::Complete) => "subscription confirmed",
            _ => return,
        };
        self.report.count(what);
    }

    /// Takes note of a request, or of a caller that waits.
    pub(super) fn open(&mut self, now: Time, record: Record) {
        if record.plan.deadline != Time::NEVER && !record.plan.discard {
            // One that is late from the beginning has the same millisecond.
            self.deadlines.push((record.plan.deadline.max(now), record.plan.id));
        }
        self.records.insert(record.plan.id, record);
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

/// What is wrong with this end, as far as the host can know.
fn misjudged(record: &Record, end: End, now: Time, closed: bool) -> Option<&'static str> {
    let End::Failed(Failure { cause, outcome }) = end else {
        let one = !matches!(record.plan.kind, Kind::Commands | Kind::Atomic);
        return match end {
            End::Complete if one && !record.failed.is_empty() => Some("its error is no reply"),
            End::Complete => None,
            _ => Some("nothing is provisional here"),
        };
    };
    match cause {
        Cause::Server if !reply::is_own_error(&record.error, &record.plan) => {
            Some("its error is another one's")
        }
        Cause::Server if outcome != outcome_of(&record.error, record.plan.leaves) => {
            Some("its error says something else")
        }
        Cause::Aborted => Some("it has no neighbours"),
        Cause::Deadline if record.plan.deadline > now => Some("it is not late"),
        Cause::Closed if !closed => Some("the connection is open"),
        Cause::Cancelled if outcome != Outcome::NotSent && outcome != Outcome::Rejected => {
            Some("what was sent can't be taken back")
        }
        _ => None,
    }
}

/// What an error means: it was refused before it began, or it may have left something, or it did not.
fn outcome_of(error: &[u8], leaves: bool) -> Outcome {
    let code = reply::code(error.strip_prefix(ATTRIBUTE).unwrap_or(error));
    match !reply::is_refusal(error) && (leaves || code == b"IOERR") {
        true => Outcome::Unknown,
        false => Outcome::Rejected,
    }
}

fn name(end: End) -> &'static str {
    let End::Failed(Failure { outcome, cause }) = end else { return "ended Complete" };
    match (outcome, cause) {
        (Outcome::Rejected, Cause::Server) => "ended Rejected by the server",
        (Outcome::Unknown, Cause::Server) => "ended Unknown by the server",
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
