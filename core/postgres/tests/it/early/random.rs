//! Programs whose statements are drawn. Each seed can be run again by its number.

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use onetrip_postgres::client::early::Saved;

use super::link::{Link, Pieces, draw, extended, query};
use super::model::Fault;

const SEEDS: u64 = 1500;
const STEPS: usize = 40;

/// A program that believes what it hears.
#[derive(Default)]
struct Program {
    seed: u64,
    /// As the last ReadyForQuery said it.
    status: char,
    works: u32,
    names: u32,
    prepared: Vec<(String, u32)>,
    /// Open savepoints, and how much was done before each.
    savepoints: Vec<(String, usize)>,
    /// Transactions that it has begun.
    begun: u32,
    /// What was done in the one that is open.
    done: Vec<u32>,
    /// Works, and the transaction in which each was sent; `None` outside of any.
    believed: BTreeMap<u32, Option<u32>>,
    /// What it was told is committed.
    committed: Vec<u32>,
}

/// What a step says, and what becomes of the program if it succeeds.
struct Step {
    bytes: BytesMut,
    works: Vec<u32>,
    then: Then,
}

enum Then {
    Nothing,
    Begin,
    End,
    Savepoint(String),
    Release(usize),
    RollbackTo(usize),
    Prepare(String, u32),
    /// It is not used any more.
    Forget(usize),
}

impl Program {
    fn new(seed: u64) -> Program {
        Program { seed, status: 'I', ..Program::default() }
    }

    fn draw(&mut self, below: u64) -> u64 {
        draw(&mut self.seed, below)
    }

    fn step(&mut self) -> Step {
        let is_simple = self.draw(2) == 0;
        let run = |sql: &str| match is_simple {
            true => query(sql),
            false => extended(&[&format!("P - {sql}"), "B", "Dp", "E", "S"]),
        };
        let plain = |bytes, then| Step { bytes, works: Vec::new(), then };
        match (self.status, self.draw(10)) {
            ('I', 0..4) => plain(run("begin"), Then::Begin),
            ('T', 0) => plain(run("commit"), Then::End),
            ('T', 1) => plain(run("rollback"), Then::End),
            ('T', 2 | 3) => {
                let name = format!("s{}", self.draw(3));
                plain(run(&format!("savepoint {name}")), Then::Savepoint(name))
            }
            ('T', 4) | ('E', 0..2) if !self.savepoints.is_empty() => {
                let at = self.savepoint();
                let sql = format!("rollback to {}", self.savepoints[at].0);
                plain(run(&sql), Then::RollbackTo(at))
            }
            ('T', 5) if !self.savepoints.is_empty() => {
                let at = self.savepoint();
                plain(run(&format!("release {}", self.savepoints[at].0)), Then::Release(at))
            }
            ('E', 2..8) => plain(run(["rollback", "commit"][self.works as usize % 2]), Then::End),
            (_, 6) => self.prepare(),
            (_, 7) if !self.prepared.is_empty() => {
                let at = self.draw(self.prepared.len() as u64) as usize;
                let name = &self.prepared[at].0;
                let bytes = match is_simple {
                    true => query(&format!("deallocate {name}")),
                    false => extended(&[&format!("Cs {name}"), "S"]),
                };
                plain(bytes, Then::Forget(at))
            }
            (_, 8) if !self.prepared.is_empty() => {
                let at = self.draw(self.prepared.len() as u64) as usize;
                let (name, work) = self.prepared[at].clone();
                self.believe(work);
                let bytes = extended(&[&format!("B {name}"), "E", "S"]);
                // Each is run once, so that each work has one number.
                Step { bytes, works: vec![work], then: Then::Forget(at) }
            }
            (_, 9) if self.draw(3) == 0 => plain(run("bad"), Then::Nothing),
            (_, which) => {
                let count = if which == 9 { 3 } else { 1 };
                let works: Vec<u32> = (0..count).map(|_| self.work()).collect();
                let bytes = works.iter().map(|it| run(&format!("work {it}"))).collect::<Vec<_>>();
                Step { bytes: bytes.concat()[..].into(), works, then: Then::Nothing }
            }
        }
    }

    /// The newest savepoint of a name that is drawn, as the server would find it.
    fn savepoint(&mut self) -> usize {
        let at = self.draw(self.savepoints.len() as u64) as usize;
        let name = self.savepoints[at].0.clone();
        self.savepoints.iter().rposition(|it| it.0 == name).unwrap()
    }

    fn prepare(&mut self) -> Step {
        self.names += 1;
        self.works += 1;
        let (name, work) = (format!("p{}", self.names), self.works);
        let sql = if self.draw(4) == 0 { "bad".to_owned() } else { format!("work {work}") };
        let bytes = extended(&[&format!("P {name} {sql}"), "S"]);
        Step { bytes, works: Vec::new(), then: Then::Prepare(name, work) }
    }

    fn work(&mut self) -> u32 {
        self.works += 1;
        self.believe(self.works);
        self.works
    }

    fn believe(&mut self, work: u32) {
        let transaction = (self.status != 'I').then_some(self.begun);
        self.believed.insert(work, transaction);
    }

    fn hear(&mut self, step: Step, heard: &[String]) {
        let mut works = step.works.into_iter();
        let mut at_end = Vec::new();
        for part in heard.split_inclusive(|it| it.starts_with('Z')) {
            let work = works.next();
            let has_failed = part.iter().any(|it| it.starts_with('E'));
            let Some(status) = part.last().and_then(|it| it.strip_prefix("Z ")) else { return };
            self.status = status.chars().next().unwrap();
            match work {
                Some(work) if !has_failed && self.status == 'I' => self.committed.push(work),
                Some(work) if !has_failed => self.done.push(work),
                _ => {}
            }
            at_end.push((has_failed, part.iter().any(|it| it == "C COMMIT")));
        }
        let Some((false, is_committed)) = at_end.last().copied() else { return };
        match step.then {
            Then::Nothing => {}
            Then::Begin => self.begun += 1,
            Then::End => {
                self.savepoints.clear();
                let done = std::mem::take(&mut self.done);
                if is_committed {
                    self.committed.extend(done);
                }
            }
            Then::Savepoint(name) => self.savepoints.push((name, self.done.len())),
            Then::Release(at) => self.savepoints.truncate(at),
            Then::RollbackTo(at) => {
                self.done.truncate(self.savepoints[at].1);
                self.savepoints.truncate(at + 1);
            }
            Then::Prepare(name, work) => self.prepared.push((name, work)),
            Then::Forget(at) => {
                self.prepared.remove(at);
            }
        }
    }
}

/// Each statement ran in the transaction that the program believed in when it sent it.
fn check(program: &Program, link: &Link, seed: u64) {
    let mut of_belief: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    let mut numbers = BTreeSet::new();
    for ran in &link.server.ran {
        let believed = program.believed[&ran.number];
        assert_eq!(believed.is_some(), ran.is_explicit, "seed {seed}: {ran:?}");
        assert!(numbers.insert(ran.number), "seed {seed}: {ran:?} ran twice");
        if let Some(transaction) = believed {
            of_belief.entry(transaction).or_default().insert(ran.transaction);
        }
    }
    let mut all = BTreeSet::new();
    for (belief, transactions) in &of_belief {
        assert_eq!(transactions.len(), 1, "seed {seed}: {belief} is {transactions:?}");
        assert!(all.insert(*transactions.first().unwrap()), "seed {seed}: two are one");
    }
}

fn sorted(numbers: &[u32]) -> Vec<u32> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers
}

#[test]
fn programs_hear_what_they_would_hear_directly_in_fewer_trips() {
    let mut saved = 0;
    for seed in 0..SEEDS {
        let mut program = Program::new(seed);
        let mut direct = Link::direct();
        let mut link = Link::through(pieces(seed));
        for _ in 0..STEPS {
            let step = program.step();
            // A statement that can't be prepared is told later: another test.
            if matches!(step.then, Then::Prepare(..))
                && step.bytes.windows(3).any(|it| it == b"bad")
            {
                continue;
            }
            let heard = direct.say(&step.bytes);
            assert_eq!(link.say(&step.bytes), heard, "seed {seed}");
            program.hear(step, &heard);
        }
        check(&program, &link, seed);
        assert!(link.trips <= direct.trips, "seed {seed}: {} trips", link.trips);
        saved += direct.trips - link.trips;
        let committed = sorted(&program.committed);
        assert_eq!(sorted(&direct.server.committed), committed, "seed {seed}");
        assert_eq!(sorted(&link.server.committed), committed, "seed {seed}");
    }
    assert!(saved > 10_000, "{saved}");
}

/// P78.
#[test]
fn whatever_proves_false_no_statement_leaves_its_transaction() {
    const FAULTS: [(&str, Fault); 7] = [
        ("begin", Fault::Error("25006")),
        ("begin", Fault::Error("57014")),
        ("begin", Fault::Fatal("57P01")),
        ("begin", Fault::Cut),
        ("savepoint", Fault::Error("57014")),
        ("release", Fault::Error("57014")),
        ("work", Fault::Error("40001")),
    ];
    let mut refuted = 0;
    for seed in 0..SEEDS {
        let mut program = Program::new(seed);
        let mut link = Link::through(pieces(seed));
        let mut reported = Saved::default();
        for _ in 0..STEPS {
            if program.draw(6) == 0 && link.server.faults.is_empty() {
                let fault = FAULTS[program.draw(FAULTS.len() as u64) as usize];
                link.server.faults.push_back(fault);
            }
            let step = program.step();
            let in_flight = step.works.clone();
            let heard = link.say(&step.bytes);
            // It fails where less was saved than before.
            link.early.as_mut().unwrap().report(&mut reported);
            if link.is_closed {
                // Nothing is known of what was under way; all that was acknowledged is there.
                let committed: BTreeSet<u32> = link.server.committed.iter().copied().collect();
                let acknowledged = program.committed.iter().copied();
                let missing: Vec<u32> = acknowledged.filter(|it| !committed.contains(it)).collect();
                assert!(missing.is_empty(), "seed {seed}: {missing:?} of {in_flight:?}");
                break;
            }
            program.hear(step, &heard);
        }
        check(&program, &link, seed);
        let saved = *link.early.as_ref().unwrap().saved();
        assert!(saved.all() - reported.all() <= 1, "seed {seed}: all but a Parse that is held");
        assert_eq!(reported.all_refuted(), saved.all_refuted(), "seed {seed}");
        refuted += saved.all_refuted();
        if !link.is_closed {
            assert_eq!(sorted(&link.server.committed), sorted(&program.committed), "seed {seed}");
        }
    }
    assert!(refuted > 500, "{refuted}");
}

fn pieces(seed: u64) -> Pieces {
    match seed % 3 {
        0 => Pieces::Whole,
        1 => Pieces::Bytes,
        _ => Pieces::Drawn(seed),
    }
}
