//! One case whose DDL another session runs.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use onetrip::Error;
use serde_json::Value;

use super::book::{Book, End, Failure, failure, said};
use super::cases::Case;
use super::databases::{Databases, Stored, Twin, migrate};
use super::subject::{Subject, Use, Way};
use crate::random::Random;

/// What one case has.
pub(super) struct Stage<'a> {
    pub(super) found: &'a Case,
    pub(super) connections: usize,
    pub(super) client: Subject,
    pub(super) databases: &'a Databases,
    pub(super) random: &'a RefCell<Random>,
    pub(super) book: &'a RefCell<Book>,
}

impl Stage<'_> {
    pub(super) fn below(&self, bound: usize) -> usize {
        self.random.borrow_mut().below(bound as u64) as usize
    }

    pub(super) fn wrong(&self, what: &str) {
        self.book.borrow_mut().wrong(what);
    }

    fn way(&self) -> Way {
        Way::all()[self.below(Way::all().len())]
    }

    /// Compares the connections with those from before.
    pub(super) async fn none_lost(&self, before: &[String]) {
        let after = self.databases.connections().await;
        let lost = before.iter().filter(|it| !after.contains(it)).count();
        if lost > 0 {
            self.wrong(&format!("{lost} connections were lost"));
        }
    }
}

/// The number before those of the rows whose uses are compared one by one.
const FIRST: i32 = 10_000;

/// The first number of the rows that are written while a migration happens.
const TRAFFIC: i32 = 1_000_000;

/// How often a text is used on each connection before the migration.
const USES: usize = 7;

/// Uses at a time of which it is only known in which phases it may have been.
struct Passed {
    uses: Vec<Use>,
    way: Way,
    from: usize,
    to: usize,
    began: u64,
    ended: u64,
    end: End,
}

/// An error, and when its uses began and ended.
struct Cost {
    error: Failure,
    began: u64,
    ended: u64,
}

/// What uses come to behind one migration, by their keys: as a new client does them, and whether
/// psql could.
type Expected = HashMap<String, (End, bool)>;

pub(super) struct Migration<'a> {
    stage: Stage<'a>,
    /// By phase: one before the first migration, one behind each.
    expected: Vec<Expected>,
    /// The keys of the uses of each phase, in their order.
    keys: Vec<Vec<String>>,
    phase: Cell<usize>,
    /// Whether a migration has begun of which it is not known whether it has ended.
    underway: Cell<bool>,
    next_id: Cell<i32>,
    passed: RefCell<Vec<Passed>>,
    /// What a migration cost so far.
    errors: Vec<Cost>,
    /// Counts what begins and ends.
    moments: Cell<u64>,
}

impl<'a> Migration<'a> {
    pub(super) fn new(stage: Stage<'a>) -> Migration<'a> {
        Migration {
            stage,
            expected: Vec::new(),
            keys: Vec::new(),
            phase: Cell::new(0),
            underway: Cell::new(false),
            next_id: Cell::new(TRAFFIC),
            passed: RefCell::default(),
            errors: Vec::new(),
            moments: Cell::new(0),
        }
    }

    pub(super) async fn run(mut self) {
        self.compare().await;
        self.warm().await;
        let before = self.stage.databases.connections().await;
        let found = self.stage.found;
        let phases = if found.back.is_empty() { 1 } else { 1 + self.stage.below(3) };
        while self.phase.get() < phases {
            let is_forth = self.phase.get().is_multiple_of(2);
            self.migrate(if is_forth { &found.migrate } else { &found.back }).await;
            self.compare().await;
        }
        self.stage.none_lost(&before).await;
    }

    /// Uses every text on every connection, so often that it is prepared there.
    async fn warm(&self) {
        let ways = Way::all().iter().filter(|way| Way::WARM.contains(way));
        for &way in ways {
            for _ in 0..USES {
                match self.stage.connections {
                    1 => self.each(way).await,
                    _ => drop(tokio::join!(self.each(way), self.each(way), self.each(way))),
                }
            }
        }
    }

    /// One use of each text, of values from before.
    async fn each(&self, way: Way) {
        let Case { statements, before, .. } = self.stage.found;
        let one = |statement: &super::cases::Statement| {
            let given = before[self.stage.below(before.len())].clone();
            Use { statement: statement.clone(), given, id: self.new_id() }
        };
        let uses: Vec<Use> = statements.iter().map(one).collect();
        if !way.is_single() {
            return self.pass(way, uses).await;
        }
        for one in uses {
            self.pass(way, vec![one]).await;
        }
    }

    fn new_id(&self) -> i32 {
        self.next_id.replace(self.next_id.get() + 1)
    }

    async fn pass(&self, way: Way, uses: Vec<Use>) {
        let (from, began) = (self.phase.get(), self.moment());
        let end = self.ended(way, &uses).await;
        let to = self.phase.get() + usize::from(self.underway.get());
        let ended = self.moment();
        self.passed.borrow_mut().push(Passed { uses, way, from, to, began, ended, end });
    }

    fn moment(&self) -> u64 {
        self.moments.replace(self.moments.get() + 1)
    }

    async fn ended(&self, way: Way, uses: &[Use]) -> End {
        let ran = tokio::time::timeout(super::PATIENCE, self.stage.client.run(way, uses)).await;
        let ran = ran.unwrap_or_else(|_| panic!("{way:?} of {:?} does not end", uses[0].key()));
        ran.map_err(|error| failure(&error))
    }

    /// Makes a migration while statements run.
    async fn migrate(&self, texts: &[String]) {
        let (going, done) = (Cell::new(true), Cell::new(0));
        let behind = self.phase.get() + 1;
        let task = async || {
            while going.get() {
                let way = self.stage.way();
                let count = if way.is_single() { 1 } else { 1 + self.stage.below(3) };
                let uses = (0..count).map(|_| self.any(behind)).collect();
                self.pass(way, uses).await;
                done.set(done.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        let more = async |count: usize| {
            let goal = done.get() + count;
            while done.get() < goal {
                tokio::task::yield_now().await;
            }
        };
        let migration = async {
            more(self.stage.below(12)).await;
            self.underway.set(true);
            match self.stage.below(4) {
                // The client makes it in a session of its own.
                0 => migrate(&self.stage.client.0.session().await.unwrap(), texts).await,
                _ => self.stage.databases.migrate(Twin::Ours, texts).await,
            }
            self.phase.set(behind);
            self.underway.set(false);
            self.stage.book.borrow_mut().report.migrations += 1;
            more(3 + self.stage.below(12)).await;
            going.set(false);
        };
        tokio::join!(task(), task(), task(), migration);
        self.stage.databases.migrate(Twin::Fresh, texts).await;
        self.stage.databases.migrate(Twin::Psql, texts).await;
    }

    /// Any use. Until the migration is made, only values come that it can take along.
    fn any(&self, behind: usize) -> Use {
        let Case { statements, before, after, .. } = self.stage.found;
        let is_new = self.phase.get() == behind && behind % 2 == 1;
        let count = before.len() + if is_new { after.len() } else { 0 };
        let at = self.stage.below(count);
        let given = before.get(at).unwrap_or_else(|| &after[at - before.len()]).clone();
        let statement = statements[self.stage.below(statements.len())].clone();
        Use { statement, given, id: self.new_id() }
    }

    /// Every statement with every value that may come in this phase.
    fn uses(&self) -> Vec<Use> {
        let Case { statements, before, after, .. } = self.stage.found;
        let phase = self.phase.get();
        let after = if phase % 2 == 1 { &after[..] } else { &[] };
        let mut keys = HashSet::new();
        let mut uses = Vec::new();
        for statement in statements {
            for given in before.iter().chain(after) {
                let one = Use { statement: statement.clone(), given: given.clone(), id: 0 };
                if keys.insert(one.key()) {
                    let id = FIRST + 1000 * phase as i32 + 1 + uses.len() as i32;
                    uses.push(Use { id, ..one });
                }
            }
        }
        uses
    }

    /// Runs every use here, by a new client and by psql, and compares all that was done since the
    /// last time.
    async fn compare(&mut self) {
        let (databases, tables) = (self.stage.databases, &self.stage.found.tables);
        let uses = self.uses();
        let fresh = Subject::connect(&databases.url(Twin::Fresh), 1).await;
        let mut expected = Expected::new();
        for one in &uses {
            let end = fresh.run(Way::Plain, std::slice::from_ref(one)).await;
            let by_psql = match one.literal().filter(|_| one.writes()) {
                Some(text) => databases.of(Twin::Psql).script(&text).await.is_ok(),
                None => false,
            };
            expected.insert(one.key(), (end.map_err(|error: Error| failure(&error)), by_psql));
        }
        self.expected.push(expected);
        self.keys.push(uses.iter().map(Use::key).collect());
        let missing = self.same(&uses).await;
        let ours = databases.stored(Twin::Ours, tables).await;
        let theirs = databases.stored(Twin::Fresh, tables).await;
        let psql = databases.stored(Twin::Psql, tables).await;
        for one in uses.iter().filter(|one| !missing.contains(&one.id)) {
            let (end, by_psql) = &self.expected[self.phase.get()][&one.key()];
            for (stored, name) in [(&theirs, "a new client"), (&psql, "psql")] {
                let is_there = if name == "psql" { *by_psql } else { end.is_ok() };
                if is_there && ours.get(&one.id) != stored.get(&one.id) {
                    let (mine, other) = (ours.get(&one.id), stored.get(&one.id));
                    self.stage.wrong(&format!(
                        "stored: phase {}, {}: {mine:?} and not {other:?} ({name})",
                        self.phase.get(),
                        one.key()
                    ));
                }
            }
        }
        self.judge_passed(&ours, &theirs);
        self.judge_errors();
    }

    /// Runs every use, and compares it with what is expected. Returns the numbers of those that
    /// were given up.
    async fn same(&mut self, uses: &[Use]) -> HashSet<i32> {
        let mut missing = HashSet::new();
        let mut at = 0;
        while at < uses.len() {
            let way = self.stage.way();
            let count = if way.is_single() { 1 } else { 1 + self.stage.below(3) };
            let mut unit = &uses[at..uses.len().min(at + count)];
            let expected = &self.expected[self.phase.get()];
            let ends: Vec<End> = unit.iter().map(|one| expected[&one.key()].0.clone()).collect();
            // One that fails would undo its neighbours.
            if ends.iter().any(Result::is_err) {
                unit = &unit[..1];
            }
            at += unit.len();
            if !self.same_unit(way, unit, &ends[..unit.len()]).await {
                missing.extend(unit.iter().map(|one| one.id));
            }
        }
        missing
    }

    async fn same_unit(&mut self, way: Way, unit: &[Use], expected: &[End]) -> bool {
        let what = |at: usize| format!("phase {}, {way:?}, {}", self.phase.get(), unit[at].key());
        for tries in 0.. {
            self.stage.book.borrow_mut().report.uses += unit.len() as u64;
            let began = self.moment();
            match (self.ended(way, unit).await, &expected[0]) {
                (Ok(rows), _) => {
                    for (at, (row, end)) in rows.iter().zip(expected).enumerate() {
                        let is_same = end.as_ref().ok().and_then(|it| it.first()) == Some(row);
                        let is_left = end.is_err() || is_by_number(row);
                        if !(is_same || is_left && takes()) {
                            let kind = if end.is_ok() { "differs" } else { "taken" };
                            let (what, end) = (what(at), said(end));
                            self.stage.wrong(&format!("{kind}: {what}: [{row}] and not {end}"));
                        }
                    }
                    return true;
                }
                (Err(error), Err(wanted)) if is_same_refusal(&error.code, &wanted.code) => {
                    return false;
                }
                (Err(error), _) if tries > self.stage.connections => {
                    let ends: Vec<_> = expected.iter().map(said).collect();
                    let (what, ends) = (what(0), ends.join(" "));
                    let kind = match &expected[0] {
                        Ok(_) => "fails again and again",
                        Err(_) => "fails otherwise",
                    };
                    let wrong = format!("{kind}: {what}: {} and not {ends}", error.said);
                    self.stage.wrong(&wrong);
                    return false;
                }
                (Err(error), _) => {
                    let ended = self.moment();
                    self.errors.push(Cost { error, began, ended });
                }
            }
        }
        false
    }

    /// What ran beside a migration has to be as on one of its two sides.
    fn judge_passed(&mut self, ours: &Stored, theirs: &Stored) {
        let theirs = self.stored_by(theirs);
        for Passed { uses, way, from, to, began, ended, end } in self.passed.take() {
            self.stage.book.borrow_mut().report.uses += uses.len() as u64;
            let phases = from..=to;
            let ends = |one: &Use| -> Vec<&End> {
                let of = |phase: usize| self.expected[phase].get(&one.key()).map(|(end, _)| end);
                phases.clone().filter_map(of).collect()
            };
            if let Err(error) = &end {
                let may_fail = uses.iter().any(|one| ends(one).into_iter().any(Result::is_err));
                if !may_fail && error.code != "40P01" {
                    self.errors.push(Cost { error: error.clone(), began, ended });
                }
            }
            for (at, one) in uses.iter().enumerate() {
                let what = format!("phases {from} to {to}, {way:?}, {}", one.key());
                let row = ours.get(&one.id).map(|rows| rows.join(" "));
                let rows = match &end {
                    Ok(rows) => rows,
                    Err(error) => {
                        if let Some(row) = row {
                            self.stage.wrong(&format!(
                                "stored: {what}: {row} in spite of {}",
                                error.said
                            ));
                        }
                        continue;
                    }
                };
                let wanted = ends(one);
                if !wanted
                    .iter()
                    .any(|it| it.as_ref().ok().and_then(|it| it.first()) == Some(&rows[at]))
                {
                    let is_left = wanted.iter().any(|it| it.is_err()) || is_by_number(&rows[at]);
                    if is_left && takes() {
                        continue;
                    }
                    let is_taken = wanted.iter().all(|it| it.is_err());
                    let kind = if is_taken { "taken" } else { "differs" };
                    let wanted: Vec<_> = wanted.into_iter().map(said).collect();
                    let wanted = wanted.join(" or ");
                    let got = &rows[at];
                    self.stage.wrong(&format!("{kind}: {what}: [{got}] and not {wanted}"));
                }
                let key = |phase: usize| theirs.get(&(phase, one.key())).cloned();
                let may_be: Vec<_> = phases.clone().map(key).collect();
                if !(may_be.contains(&row) || row.is_none() && self.stage.found.forgets) {
                    self.stage.wrong(&format!("stored: {what}: {row:?} and not one of {may_be:?}"));
                }
            }
        }
    }

    /// What the uses of a new client have stored, by phase and key.
    fn stored_by(&self, stored: &Stored) -> HashMap<(usize, String), String> {
        let mut all = HashMap::new();
        for (phase, keys) in self.keys.iter().enumerate() {
            for (at, key) in keys.iter().enumerate() {
                if let Some(rows) = stored.get(&(FIRST + 1000 * phase as i32 + 1 + at as i32)) {
                    all.insert((phase, key.clone()), rows.join(" "));
                }
            }
        }
        all
    }

    /// One error at most for each connection and migration.
    fn judge_errors(&mut self) {
        let phase = self.phase.get();
        let is_free = phase == 0 || self.stage.found.calm;
        let budget = if is_free { 0 } else { self.stage.connections };
        for cost in &self.errors {
            self.stage.book.borrow_mut().cost(&cost.error);
        }
        // Those that were in flight with the first one can't have known.
        let first = self.errors.iter().map(|it| it.ended).min().unwrap_or_default();
        let behind = self.errors.iter().filter(|it| it.began > first).count();
        if self.errors.len().min(1 + behind) > budget {
            let all: Vec<_> = self.errors.iter().map(|it| it.error.said.as_str()).collect();
            let count = format!("{} for {} connections", all.len(), self.stage.connections);
            let all = all.join("; ");
            let what = format!("phase {phase}: {count}, {behind} sent behind the first: {all}");
            self.stage.wrong(&format!("errors: {what}"));
        }
        self.errors.clear();
    }
}

/// The values of a case: those from before, and those from behind.
pub(super) fn givens(found: &Case) -> impl Iterator<Item = &Value> {
    found.before.iter().chain(&found.after)
}

/// Whether a value came of a type that is known by its number alone, and so its reader is told: it
/// could not be looked up in time. That is left, too.
fn is_by_number(row: &str) -> bool {
    row.contains("with oid ")
}

/// Whether two errors refuse the same. A value that does not fit is refused by the server, or by the
/// client without asking where it has learned the type: from an earlier value, which chance decides.
fn is_same_refusal(code: &str, wanted: &str) -> bool {
    const OURS: &str = "unencodable_parameter";
    let is_of_types = |code| matches!(code, "42804" | "42883");
    code == wanted || code == OURS && is_of_types(wanted) || wanted == OURS && is_of_types(code)
}

/// Whether a value that means the same under the new type may be taken under the old one, where a new
/// client refuses what it is in Rust. That is left; `ONETRIP_LEFT` shows it.
fn takes() -> bool {
    std::env::var_os("ONETRIP_LEFT").is_none()
}
