//! Records the outputs that a host received, and checks each as it comes.

use std::collections::BTreeMap;

use bytes::Bytes;
use onetrip_engine::{Cause, CloseReason, End, Failure, Outcome, Output, Time, Token};

use super::Report;
use super::driven::Driven;
use super::side::Side;

/// The plan of a request.
#[derive(Clone, Debug)]
pub struct Plan<Own> {
    /// Its identity, and its token.
    pub(crate) id: u64,
    pub(crate) bytes: Bytes,
    /// Every identity that it runs.
    pub(crate) ops: Vec<u64>,
    pub(crate) deadline: Time,
    pub(crate) again: bool,
    pub(crate) discard: bool,
    /// The part that depends on the protocol.
    pub(crate) own: Own,
}

pub(crate) type PlanOf<S> = Plan<<S as Side>::Request>;

impl<Own> Plan<Own> {
    pub(crate) fn new(id: u64, own: Own) -> Plan<Own> {
        Plan {
            id,
            bytes: Bytes::new(),
            ops: Vec::new(),
            deadline: Time::NEVER,
            again: false,
            discard: false,
            own,
        }
    }

    /// The name under which it is submitted.
    pub(crate) fn token(&self) -> Token {
        if self.discard { Token::DISCARD } else { Token(self.id) }
    }
}

/// Everything that a host knows, and the findings.
pub struct Book<S: Side> {
    /// Requests that were submitted, and callers that wait, by token.
    pub(crate) records: BTreeMap<u64, Record<S>>,
    /// The deadlines of requests that may be open.
    deadlines: Vec<(Time, u64)>,
    pub(crate) closed: Option<CloseReason>,
    pub(crate) full: bool,
    pub(crate) findings: Vec<String>,
    pub(crate) report: Report,
    /// What only this side has.
    pub(crate) own: S::Heard,
}

/// One request.
pub struct Record<S: Side> {
    pub(crate) plan: PlanOf<S>,
    pub(crate) state: State,
    /// Its place in issue order: that of its group or its own, then that within the group; zero
    /// while its caller waits.
    pub(crate) place: (u64, u64),
    /// Its run: requests with the same number share a transaction or a sync point.
    pub(crate) run: u64,
    /// Its group, if any.
    pub(crate) group: Option<u64>,
    /// Its reply so far.
    pub(crate) reply: Vec<u8>,
    pub(crate) error: Bytes,
    /// What only this side has.
    pub(crate) own: S::Known,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its caller waits for room.
    Waiting,
    Submitted,
    Ended(End),
}

impl<S: Side> Record<S> {
    pub(crate) fn new(plan: PlanOf<S>, state: State, place: (u64, u64)) -> Record<S> {
        Record {
            run: plan.id,
            plan,
            state,
            place,
            group: None,
            reply: Vec::new(),
            error: Bytes::new(),
            own: S::Known::default(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Ended(_)) && !self.plan.discard
    }

    /// How it ended, for those that were submitted.
    pub(crate) fn end(&self) -> Option<End> {
        match self.state {
            State::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// The outcome with which it failed.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match self.end()? {
            End::Failed(failure) => Some(failure.outcome),
            _ => None,
        }
    }

    /// Whether its bytes went to the connection, as far as the host knows.
    pub(crate) fn is_on_wire(&self) -> bool {
        match self.state {
            State::Waiting => false,
            State::Ended(End::Failed(Failure { outcome: Outcome::NotSent, cause })) => {
                cause == Cause::Closed && self.place != (0, 0)
            }
            State::Submitted | State::Ended(_) => true,
        }
    }
}

impl<S: Side> Book<S> {
    pub(crate) fn new() -> Book<S> {
        Book {
            records: BTreeMap::new(),
            deadlines: Vec::new(),
            closed: None,
            full: false,
            findings: Vec::new(),
            report: Report::default(),
            own: S::Heard::default(),
        }
    }

    pub(crate) fn complain(&mut self, what: impl Into<String>) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(what.into());
        }
    }

    /// Records and checks an output.
    pub(crate) fn note(&mut self, now: Time, output: &Output<<S::Driven as Driven>::Event>) {
        match output {
            Output::Data { token, block } => self.note_data(*token, block),
            Output::Ended { token, block, end, .. } => self.note_end(now, *token, block, *end),
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
            output => S::note(self, output),
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
        if S::note_other_end(self, token, end) {
            return;
        }
        let Some(record) = self.records.get_mut(&token.0).filter(|record| record.is_open()) else {
            return self.complain(format!("{token:?} ended ({end:?}), but is not open"));
        };
        let waited = record.state == State::Waiting;
        record.state = State::Ended(end);
        match matches!(end, End::Failed(Failure { cause: Cause::Server, .. })) {
            true => record.error = block.clone(),
            false => record.reply.extend_from_slice(block),
        }
        let not_sent = record.outcome() == Some(Outcome::NotSent);
        self.report.count(name(end));
        if waited {
            self.report.count("ended while waiting for room");
        }
        let mut findings = S::judge_reply(self, token.0, end);
        findings.extend(self.misjudged(token.0, end, now).map(str::to_owned));
        if waited && !not_sent {
            findings.push("it was never submitted".into());
        }
        for what in findings {
            self.complain(format!("{}: {what} ({end:?})", token.0));
        }
    }

    /// What is wrong with the cause of a failure, as far as the host can know.
    fn misjudged(&self, token: u64, end: End, now: Time) -> Option<&'static str> {
        let End::Failed(Failure { cause, outcome }) = end else { return None };
        let record = &self.records[&token];
        let mut run = self.records.values().filter(|other| other.run == record.run);
        match cause {
            Cause::Aborted if record.group.is_none() && run.nth(1).is_none() => {
                Some("it shares its sync point with nobody")
            }
            // A segment leaves the queue as a whole.
            Cause::Deadline
                if record.plan.deadline > now && !run.any(|other| other.plan.deadline <= now) =>
            {
                Some("nothing of it was late")
            }
            Cause::Closed if self.closed.is_none() && !S::LOSES_LINKS => {
                Some("the connection is open")
            }
            Cause::Cancelled
                if outcome != Outcome::NotSent
                    && !(outcome == Outcome::Rejected && S::may_be_taken_back(self, record)) =>
            {
                Some("what was sent can't be taken back")
            }
            _ => None,
        }
    }

    /// Records a request, or a caller that waits.
    pub(crate) fn open(&mut self, now: Time, record: Record<S>) {
        if record.plan.deadline != Time::NEVER && !record.plan.discard {
            // A request that is late from the beginning ends within the same millisecond.
            self.deadlines.push((record.plan.deadline.max(now), record.plan.id));
        }
        self.records.insert(record.plan.id, record);
    }

    /// Requests that were submitted and have not ended.
    pub(crate) fn submitted(&self) -> impl Iterator<Item = u64> {
        let open = |record: &&Record<S>| record.is_open() && record.state == State::Submitted;
        self.records.values().filter(open).map(|record| record.plan.id)
    }

    /// A request whose deadline passed before `moment` and that has not ended.
    pub(crate) fn overdue(&mut self, moment: Time) -> Option<u64> {
        let records = &self.records;
        self.deadlines.retain(|(_, id)| records.get(id).is_some_and(Record::is_open));
        self.deadlines.iter().find(|(deadline, _)| *deadline < moment).map(|(_, id)| *id)
    }
}

/// The most findings of a run.
const FINDINGS_MAX: usize = 10;

pub(crate) const fn failed(outcome: Outcome, cause: Cause) -> End {
    End::Failed(Failure { outcome, cause })
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
