//! What was written, and what the client said of it.

use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use onetrip::{Error, Outcome};

use crate::drive::until;

/// What is said of a write, by the client or by the one who gave it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// Success, or an error with the outcome `Applied`.
    Acknowledged,
    NotSent,
    Rejected,
    /// The writer undid it on purpose.
    RolledBack,
    /// `Unknown`, and not since its own deadline passed.
    Unknown,
    /// `Unknown`, since the deadline passed.
    Late,
    /// The writer dropped the reply.
    Forgotten,
}

impl Claim {
    /// What a result says.
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

    /// Whether the rows are there; `None` if it does not say.
    pub(crate) fn is_there(self) -> Option<bool> {
        match self {
            Claim::Acknowledged => Some(true),
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
    /// None while the writer waits.
    pub(crate) ended: Option<Duration>,
    /// Of the unit as a whole and of its parts, which comes to the same.
    pub(crate) claims: Vec<Claim>,
    /// What the errors said, for those who read a finding.
    pub(crate) said: Vec<String>,
}

impl Unit {
    /// What is known of it in the end: what says the most of all that was said.
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
    /// Takes note of what a result says of the unit.
    pub(crate) fn claim<T>(&mut self, result: &Result<T, Error>) {
        self.claims.push(Claim::of(result));
        self.said.extend(result.as_ref().err().map(|error| format!("{error:?}")));
    }

    /// The same for what may still be undone: only a failure says something.
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

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Gives out so many numbers for a unit that begins now.
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

    /// Nothing more will be heard of it.
    pub(crate) fn end(&self, begun: Begun) {
        let mut state = self.state.lock().unwrap();
        let now = self.now();
        state.acknowledged += u64::from(begun.claims.contains(&Claim::Acknowledged));
        let unit = &mut state.units[begun.id];
        (unit.claims, unit.said, unit.ended) = (begun.claims, begun.said, Some(now));
    }

    /// Returns when some more writes were acknowledged: then the client has come back from what befell
    /// it before.
    pub(crate) async fn is_at_work(&self) -> bool {
        let acknowledged = || self.state.lock().unwrap().acknowledged;
        let enough = acknowledged() + AT_WORK;
        until(PATIENCE, async || acknowledged() >= enough).await
    }

    /// What has not ended, for those who read why not.
    pub(crate) fn under_way(&self) -> Vec<Unit> {
        let state = self.state.lock().unwrap();
        state.units.iter().filter(|unit| unit.ended.is_none()).cloned().collect()
    }

    /// A reply that can't be that of its request.
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
const AT_WORK: u64 = 20;

/// How long it may take until they are. The pause before the client looks for its server again grows to
/// 10 s.
const PATIENCE: Duration = Duration::from_secs(60);
