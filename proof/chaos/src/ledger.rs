//! The ledger: what was written, and what the client said of it.

use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use onetrip::{Error, Outcome};

use crate::drive::until;

/// What the client, or the writer that gave it up, says of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// Success, or an error with the outcome `Applied`.
    Acknowledged,
    /// Success, and WAIT said that a replica has the write, too.
    Copied,
    NotSent,
    Rejected,
    /// The writer undid it on purpose.
    RolledBack,
    /// `Unknown`, for another reason than the write's own deadline.
    Unknown,
    /// `Unknown`, because the write's own deadline passed.
    Late,
    /// The writer dropped the reply.
    Forgotten,
}

impl Claim {
    /// The claim that a program in another language names.
    pub(crate) fn named(name: &str) -> Option<Claim> {
        Some(match name {
            "Acknowledged" | "Applied" => Claim::Acknowledged,
            "NotSent" => Claim::NotSent,
            "Rejected" => Claim::Rejected,
            "RolledBack" => Claim::RolledBack,
            "Unknown" => Claim::Unknown,
            _ => return None,
        })
    }

    /// The claim that a result makes.
    pub(crate) fn of<T>(result: &Result<T, Error>) -> Claim {
        match result {
            Ok(_) => Claim::Acknowledged,
            Err(error) => Claim::of_error(error),
        }
    }

    pub(crate) fn of_error(error: &Error) -> Claim {
        match error.outcome() {
            Outcome::Applied => Claim::Acknowledged,
            Outcome::NotSent => Claim::NotSent,
            Outcome::Rejected => Claim::Rejected,
            Outcome::Unknown if error.code() == "timeout" => Claim::Late,
            Outcome::Unknown => Claim::Unknown,
        }
    }

    /// Whether the rows must be there; `None` if the claim leaves it open.
    pub(crate) fn is_there(self) -> Option<bool> {
        match self {
            Claim::Acknowledged | Claim::Copied => Some(true),
            Claim::NotSent | Claim::Rejected | Claim::RolledBack => Some(false),
            Claim::Unknown | Claim::Late | Claim::Forgotten => None,
        }
    }
}

/// Rows that stand or fall together.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    /// How they were written.
    pub(crate) what: &'static str,
    pub(crate) task: u32,
    pub(crate) numbers: Range<i64>,
    pub(crate) began: Duration,
    /// `None` while the writer waits.
    pub(crate) ended: Option<Duration>,
    /// Claims on the unit as a whole and on its parts; both count alike.
    pub(crate) claims: Vec<Claim>,
    /// The texts of the errors, shown with a finding.
    pub(crate) said: Vec<String>,
}

impl Unit {
    /// What is known of the unit in the end: the most definite of its claims.
    pub(crate) fn verdict(&self) -> Option<Claim> {
        let definite = self.claims.iter().find(|claim| claim.is_there().is_some());
        let late = || self.claims.iter().find(|claim| **claim == Claim::Late);
        definite.or_else(late).or_else(|| self.claims.iter().min()).copied()
    }
}

/// Units as they were begun.
#[derive(Debug)]
pub(crate) struct Ledger {
    start: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    units: Vec<Unit>,
    next_number: i64,
    /// Units that were acknowledged.
    acknowledged: u64,
    wrong: Vec<String>,
}

/// A unit that has begun.
#[derive(Debug)]
pub(crate) struct Begun {
    id: usize,
    pub(crate) numbers: Range<i64>,
    claims: Vec<Claim>,
    said: Vec<String>,
}

impl Begun {
    /// Records what a result says of the unit.
    pub(crate) fn claim<T>(&mut self, result: &Result<T, Error>) {
        self.claims.push(Claim::of(result));
        self.said.extend(result.as_ref().err().map(|error| format!("{error:?}")));
    }

    /// The same for a write that may still be undone: only a failure says something.
    pub(crate) fn provisional<T>(&mut self, result: &Result<T, Error>) {
        if result.as_ref().is_err_and(|error| error.outcome() != Outcome::Applied) {
            self.claim(result);
        }
    }

    pub(crate) fn say(&mut self, claim: Claim) {
        self.claims.push(claim);
    }
}

impl Ledger {
    pub(crate) fn new() -> Ledger {
        Ledger { start: Instant::now(), state: Mutex::default() }
    }

    /// A ledger that was kept elsewhere, in the order of the numbers.
    pub(crate) fn of(mut units: Vec<Unit>, wrong: Vec<String>) -> Ledger {
        units.sort_by_key(|unit| unit.numbers.start);
        let state = State { units, wrong, ..State::default() };
        Ledger { state: Mutex::new(state), ..Ledger::new() }
    }

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Begins a unit of `rows` rows and gives it that many numbers.
    pub(crate) fn begin(&self, task: u32, what: &'static str, rows: i64) -> Begun {
        let mut state = self.state.lock().unwrap();
        let numbers = state.next_number..state.next_number + rows;
        state.next_number = numbers.end;
        let id = state.units.len();
        state.units.push(Unit {
            what,
            task,
            numbers: numbers.clone(),
            began: self.now(),
            ended: None,
            claims: Vec::new(),
            said: Vec::new(),
        });
        Begun { id, numbers, claims: Vec::new(), said: Vec::new() }
    }

    /// Ends the unit: no claim follows.
    pub(crate) fn end(&self, begun: Begun) {
        let mut state = self.state.lock().unwrap();
        let now = self.now();
        let is_there = |claim: &Claim| claim.is_there() == Some(true);
        state.acknowledged += u64::from(begun.claims.iter().any(is_there));
        let unit = &mut state.units[begun.id];
        (unit.claims, unit.said, unit.ended) = (begun.claims, begun.said, Some(now));
    }

    /// Waits until some more writes were acknowledged, which shows that the client has recovered
    /// from the last fault. Returns whether that happened in time.
    pub(crate) async fn is_at_work(&self) -> bool {
        let acknowledged = || self.state.lock().unwrap().acknowledged;
        let enough = acknowledged() + AT_WORK;
        until(PATIENCE, async || acknowledged() >= enough).await
    }

    /// The units that have not ended, for a message that tells why a run hangs.
    pub(crate) fn under_way(&self) -> Vec<Unit> {
        let state = self.state.lock().unwrap();
        state.units.iter().filter(|unit| unit.ended.is_none()).cloned().collect()
    }

    /// Records a reply that can't belong to its request.
    pub(crate) fn wrong(&self, what: String) {
        self.state.lock().unwrap().wrong.push(what);
    }

    pub(crate) fn units(&self) -> Vec<Unit> {
        self.state.lock().unwrap().units.clone()
    }

    pub(crate) fn wrong_replies(&self) -> Vec<String> {
        self.state.lock().unwrap().wrong.clone()
    }
}

/// How many units must be acknowledged between two faults.
pub(crate) const AT_WORK: u64 = 20;

/// How long that may take. The client's pause between two attempts to connect grows to 10 s.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
