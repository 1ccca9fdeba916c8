//! Programs whose dataflow is known, for PostgreSQL and for Redis.
//!
//! A program is a list of statements, loops and branches. A statement takes constants, inputs of
//! the unit, values of earlier results (single ones, all of a list, a field of JSON), or values
//! that were derived from these. Domains are small and large, some results repeat an input, and
//! some results go by an input. While it runs, it is noted what each statement saw.

use std::collections::{HashMap, HashSet};

use onetrip_profile::Profiler;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Random;

use crate::speaker::{Found, Speaker};

pub(crate) type Id = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Constant(u64),
    Input(usize),
    /// Of the first row.
    Result(Id),
    /// Of the row that the loop is at.
    Row(Id),
    /// Of all rows, as an array.
    List(Id),
    /// Of the round before, where there was one, and else an input.
    Before(Id),
    Derived(Id, How),
    /// The number of the round.
    Round,
}

/// How a value was derived, so that it can't be matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    PlusOne,
    Joined,
    Hashed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    /// 0 to 2 rows.
    Rows,
    One,
    /// 0 to 6 rows, of which no two are equal where the domain allows it.
    Many,
    /// The first parameter.
    Echo,
    /// One row, or none where the first input is odd.
    ByInput,
    /// One row of JSON with a number, a name and a value.
    Json,
    /// No rows, or an error.
    MayFail,
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) takes: Vec<Source>,
    pub(crate) returns: Returns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum On {
    HasRows,
    Failed,
    /// Its value is even.
    Even,
}

#[derive(Debug)]
pub(crate) enum Node {
    Run(Id),
    /// Sent in one write.
    Together(Vec<Id>),
    Each(Id, Vec<Id>),
    Times(u64, Vec<Id>),
    If(Id, On, Vec<Id>, Vec<Id>),
    /// The program ends where there are no rows.
    StopUnless(Id),
}

pub(crate) struct Program {
    pub(crate) is_redis: bool,
    pub(crate) statements: Vec<Statement>,
    pub(crate) nodes: Vec<Node>,
    inputs: usize,
    input: Domain,
    result: Domain,
    is_in_transaction: bool,
}

/// Where values come from.
#[derive(Clone, Copy, Debug)]
struct Domain {
    values: u64,
    /// Times this, so that few values may have many digits.
    stride: u64,
}

impl Domain {
    /// Whether a value says 32 bits or more.
    fn is_wide(self) -> bool {
        self.values >= 1 << 32
    }
}

const DOMAINS: [Domain; 6] = [
    Domain { values: 4, stride: 1 },
    Domain { values: 50, stride: 1 },
    Domain { values: 10_000, stride: 1 },
    Domain { values: 30, stride: 0x0123_4567_89ab },
    Domain { values: 1 << 40, stride: 1 },
    Domain { values: 1 << 40, stride: 1 },
];

/// What a statement saw when it ran.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) id: Id,
    /// The class of its result, with the value where there is one.
    class: (u8, u64),
    /// A value that no result and no request had before.
    has_news: bool,
}

/// The log of all units.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) units: Vec<Vec<Ran>>,
    /// Conditions and what they came to.
    outcomes: HashSet<(Id, On, bool)>,
}

pub(crate) fn below(random: &mut Random, bound: u64) -> u64 {
    random.next_u64() % bound
}

/// A name of letters, since parts of keys without digits are names.
fn letters(mut number: u64) -> String {
    let mut name = String::new();
    loop {
        name.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
        if number == 0 {
            return name;
        }
    }
}

impl Program {
    pub(crate) fn new(random: &mut Random, number: u64) -> Program {
        let of = |random: &mut Random| DOMAINS[below(random, 6) as usize];
        let mut program = Program {
            is_redis: below(random, 4) == 0,
            statements: Vec::new(),
            nodes: Vec::new(),
            inputs: 1 + below(random, 3) as usize,
            input: of(random),
            result: of(random),
            is_in_transaction: false,
        };
        program.is_in_transaction = !program.is_redis && below(random, 4) == 0;
        let len = 2 + below(random, 4);
        for _ in 0..len {
            let node = program.node(random, number);
            program.nodes.push(node);
        }
        program
    }

    fn node(&mut self, random: &mut Random, number: u64) -> Node {
        let earlier: Vec<Id> = self.top().collect();
        let pick = |random: &mut Random, of: &[Id]| of[below(random, of.len() as u64) as usize];
        let lists: Vec<Id> = earlier
            .iter()
            .copied()
            .filter(|id| matches!(self.statements[*id].returns, Returns::Many | Returns::Rows))
            .collect();
        match below(random, 12) {
            0 if !lists.is_empty() => {
                let of = pick(random, &lists);
                let body = (0..=below(random, 2)).map(|at| {
                    let first = if at == 0 { Some(Source::Row(of)) } else { None };
                    self.statement(random, number, first)
                });
                Node::Each(of, body.collect())
            }
            1 => {
                let id = self.statement(random, number, Some(Source::Round));
                if below(random, 3) == 0 {
                    self.statements[id].takes.push(Source::Before(id));
                }
                Node::Times(2 + below(random, 4), vec![id])
            }
            2 | 3 if !earlier.is_empty() => {
                let of = pick(random, &earlier);
                let on = match (self.statements[of].returns, below(random, 3)) {
                    (Returns::MayFail, _) => On::Failed,
                    (Returns::One, 0) => On::Even,
                    _ => On::HasRows,
                };
                let then = vec![self.statement(random, number, None)];
                let otherwise = match below(random, 2) {
                    0 => vec![self.statement(random, number, None)],
                    _ => Vec::new(),
                };
                Node::If(of, on, then, otherwise)
            }
            4 if !earlier.is_empty() => Node::StopUnless(pick(random, &earlier)),
            5 => {
                let all: Vec<Id> =
                    (0..2).map(|_| self.statement_of(random, number, None, &earlier)).collect();
                Node::Together(all)
            }
            _ => Node::Run(self.statement(random, number, None)),
        }
    }

    /// Statements that run in each unit that gets so far.
    fn top(&self) -> impl Iterator<Item = Id> {
        self.nodes.iter().flat_map(|node| match node {
            Node::Run(id) => vec![*id],
            Node::Together(ids) => ids.clone(),
            _ => Vec::new(),
        })
    }

    fn statement(&mut self, random: &mut Random, number: u64, first: Option<Source>) -> Id {
        let earlier: Vec<Id> = self.top().collect();
        self.statement_of(random, number, first, &earlier)
    }

    fn statement_of(
        &mut self,
        random: &mut Random,
        number: u64,
        first: Option<Source>,
        earlier: &[Id],
    ) -> Id {
        let id = self.statements.len();
        let more = below(random, 3);
        let taken = (0..more).map(|_| {
            let of = |random: &mut Random| earlier[below(random, earlier.len() as u64) as usize];
            match below(random, 12) {
                0 => Source::Constant(below(random, 5)),
                1..=3 if !earlier.is_empty() => Source::Result(of(random)),
                4 if !earlier.is_empty() && !self.is_redis => Source::List(of(random)),
                5 | 6 if !earlier.is_empty() => {
                    let how = [How::PlusOne, How::Joined, How::Hashed][below(random, 3) as usize];
                    Source::Derived(of(random), how)
                }
                _ => Source::Input(below(random, self.inputs as u64) as usize),
            }
        });
        let takes: Vec<_> = first.into_iter().chain(taken).collect();
        let returns = match below(random, 12) {
            0..=3 => Returns::Rows,
            4 | 5 => Returns::One,
            6 | 7 => Returns::Many,
            8 => Returns::Echo,
            9 => Returns::ByInput,
            10 => Returns::Json,
            _ if below(random, 2) == 0 && !self.is_in_transaction => Returns::MayFail,
            _ => Returns::Nothing,
        };
        let table = format!("t{}_{}", letters(number), letters(id as u64));
        let text = if self.is_redis {
            let command = match returns {
                Returns::Rows if takes.len() > 1 => "MGET",
                Returns::Many => "SMEMBERS",
                _ => "GET",
            };
            format!("{command} {table}")
        } else {
            match takes.len() {
                0 => format!("select c from {table}"),
                n => {
                    let conditions: Vec<_> = (1..=n).map(|n| format!("k{n} = ${n}")).collect();
                    format!("select c from {table} where {}", conditions.join(" and "))
                }
            }
        };
        self.statements.push(Statement { text, takes, returns });
        id
    }

    /// The statement with this text, as the profile shows it.
    pub(crate) fn place(&self, text: &str) -> Option<Id> {
        let table = |text: &str| {
            let word = text.split([' ', ':']).find(|it| it.starts_with('t') && it.contains('_'));
            word.map(str::to_owned)
        };
        let table_of = table(text)?;
        self.statements.iter().position(|it| table(&it.text).as_ref() == Some(&table_of))
    }

    /// Whether values of a result are of 32 bits or more.
    pub(crate) fn is_wide(&self) -> bool {
        self.result.is_wide()
    }

    // --- what depends on what ---

    /// Whether a statement takes something of a result in the same unit, of the same round where
    /// both are in a loop.
    pub(crate) fn takes(&self, b: Id, a: Id) -> bool {
        self.statements[b].takes.iter().any(|it| match it {
            Source::Result(of) | Source::Row(of) | Source::List(of) | Source::Derived(of, _) => {
                *of == a
            }
            _ => false,
        })
    }

    /// Whether a round of a statement takes something of the round before.
    pub(crate) fn takes_before(&self, b: Id, a: Id) -> bool {
        self.statements[b].takes.contains(&Source::Before(a))
    }

    /// Whether a result decided if a statement ran. A branch that was never taken can't be seen.
    pub(crate) fn is_decided(&self, b: Id, a: Id, log: &Log) -> bool {
        let was_seen = |on| [true, false].iter().all(|it| log.outcomes.contains(&(a, on, *it)));
        let mut is_behind_stop = false;
        for node in &self.nodes {
            let has = |ids: &[Id]| ids.contains(&b);
            match node {
                Node::Run(id) if *id == b => return is_behind_stop,
                Node::Together(ids) | Node::Times(_, ids) if has(ids) => return is_behind_stop,
                Node::Each(of, ids) if has(ids) => return is_behind_stop || *of == a,
                Node::If(of, on, then, otherwise) if has(then) || has(otherwise) => {
                    return is_behind_stop || (*of == a && was_seen(*on));
                }
                Node::StopUnless(of) if *of == a => is_behind_stop = was_seen(On::HasRows),
                _ => {}
            }
        }
        false
    }

    /// Whether both are in the body of one loop.
    pub(crate) fn are_in_a_loop(&self, a: Id, b: Id) -> bool {
        self.nodes.iter().any(|node| match node {
            Node::Each(_, body) | Node::Times(_, body) => body.contains(&a) && body.contains(&b),
            _ => false,
        })
    }

    /// The results in which the values that a statement takes were there first; `None` for values
    /// that requests had before.
    pub(crate) fn origins(&self, b: Id) -> HashSet<Id> {
        let mut origins = HashSet::new();
        for source in &self.statements[b].takes {
            let (Source::Result(of) | Source::Row(of) | Source::List(of)) = source else {
                continue;
            };
            origins.extend(self.origin(*of));
        }
        origins
    }

    pub(crate) fn origin(&self, of: Id) -> Option<Id> {
        let statement = &self.statements[of];
        match (statement.returns, statement.takes.first()) {
            (Returns::Nothing | Returns::MayFail, _) => None,
            // A value that is repeated comes from where its request had it.
            (Returns::Echo, Some(Source::Result(of) | Source::Row(of))) => self.origin(*of),
            (Returns::Echo, _) => None,
            _ => Some(of),
        }
    }

    // --- running it ---

    /// Runs one unit.
    pub(crate) fn run(
        &self,
        random: &mut Random,
        it: &mut Speaker,
        log: &mut Log,
        to: &mut Profiler,
    ) {
        let inputs = (0..self.inputs).map(|_| self.input.one(random)).collect();
        let mut unit = Unit {
            program: self,
            inputs,
            results: HashMap::new(),
            ran: Vec::new(),
            requested: HashSet::new(),
            row: None,
            round: 0,
        };
        if self.is_in_transaction {
            it.simple(to, "begin", &Vec::new());
        }
        for node in &self.nodes {
            if !unit.node(node, random, it, log, to) {
                break;
            }
        }
        if self.is_in_transaction {
            it.simple(to, "commit", &Vec::new());
        }
        log.units.push(unit.ran);
    }
}

impl Domain {
    fn one(self, random: &mut Random) -> u64 {
        below(random, self.values) * self.stride
    }
}

/// One run of a program.
struct Unit<'a> {
    program: &'a Program,
    inputs: Vec<u64>,
    /// None for an error.
    results: HashMap<Id, Option<Vec<u64>>>,
    ran: Vec<Ran>,
    requested: HashSet<String>,
    row: Option<u64>,
    round: usize,
}

/// What is asked, with its values, and whether one of them is new.
type Asked = (Id, Vec<String>, bool);

impl Unit<'_> {
    /// False where the program ends.
    fn node(
        &mut self,
        node: &Node,
        random: &mut Random,
        it: &mut Speaker,
        log: &mut Log,
        to: &mut Profiler,
    ) -> bool {
        match node {
            Node::Run(id) => self.send(&[*id], random, it, to),
            Node::Together(ids) => self.send(ids, random, it, to),
            Node::Each(of, body) => {
                let rows = self.results.get(of).cloned().flatten().unwrap_or_default();
                for (round, row) in rows.into_iter().enumerate() {
                    (self.row, self.round) = (Some(row), round);
                    body.iter().for_each(|id| self.send(&[*id], random, it, to));
                }
                self.round = 0;
            }
            Node::Times(rounds, body) => {
                for round in 0..*rounds {
                    self.round = round as usize;
                    body.iter().for_each(|id| self.send(&[*id], random, it, to));
                }
                self.round = 0;
            }
            Node::If(of, on, then, otherwise) => {
                if let Some(holds) = self.holds(*of, *on) {
                    log.outcomes.insert((*of, *on, holds));
                    let body = if holds { then } else { otherwise };
                    body.iter().for_each(|id| self.send(&[*id], random, it, to));
                }
            }
            Node::StopUnless(of) => {
                let holds = self.holds(*of, On::HasRows);
                log.outcomes.extend(holds.map(|holds| (*of, On::HasRows, holds)));
                return holds.unwrap_or(false);
            }
        }
        true
    }

    fn holds(&self, of: Id, on: On) -> Option<bool> {
        let result = self.results.get(&of)?;
        let first = result.as_ref().and_then(|it| it.first());
        Some(match on {
            On::HasRows => first.is_some(),
            On::Failed => result.is_none(),
            On::Even => first.is_some_and(|it| it % 2 == 0),
        })
    }

    /// Sends statements in one write. What can't be had is not asked for.
    fn send(&mut self, ids: &[Id], random: &mut Random, it: &mut Speaker, to: &mut Profiler) {
        let asked: Vec<Asked> = ids.iter().filter_map(|id| self.values(*id)).collect();
        let found: Vec<Option<Vec<u64>>> =
            asked.iter().map(|(id, with, _)| self.result(*id, with, random)).collect();
        let all: Vec<_> = asked
            .iter()
            .zip(&found)
            .map(|((id, with, _), found)| {
                let statement = &self.program.statements[*id];
                (statement.text.clone(), with.clone(), shown(statement.returns, found, random))
            })
            .collect();
        if all.is_empty() {
            return;
        }
        if self.program.is_redis {
            it.commands(to, &all);
        } else {
            it.statements(to, &all);
        }
        for ((id, with, has_news), found) in asked.into_iter().zip(found) {
            self.requested.extend(with);
            let class = class(&found);
            self.ran.push(Ran { id, class, has_news });
            self.results.insert(id, found);
        }
    }

    fn values(&self, id: Id) -> Option<Asked> {
        let mut has_news = false;
        let mut with = Vec::new();
        for source in &self.program.statements[id].takes {
            let first = |of: &Id| self.results.get(of)?.as_ref()?.first().copied();
            let (value, is_new) = match source {
                Source::Constant(value) => (value.to_string(), false),
                Source::Round => ((self.round + 100).to_string(), false),
                Source::Input(at) => (self.inputs[*at].to_string(), true),
                Source::Result(of) => (first(of)?.to_string(), false),
                Source::Row(_) => (self.row?.to_string(), false),
                Source::Before(of) => match (self.round, first(of)) {
                    (0, _) => (self.inputs[0].to_string(), true),
                    (_, before) => (before?.to_string(), false),
                },
                Source::List(of) => {
                    let all = self.results.get(of)?.as_ref().filter(|it| !it.is_empty())?;
                    let all: Vec<_> = all.iter().map(u64::to_string).collect();
                    (format!("{{{}}}", all.join(",")), false)
                }
                Source::Derived(of, how) => (how.derive(first(of)?), true),
            };
            has_news |= is_new && !self.requested.contains(&value);
            with.push(value);
        }
        Some((id, with, has_news))
    }

    /// Rows of a result, or an error.
    fn result(&self, id: Id, with: &[String], random: &mut Random) -> Option<Vec<u64>> {
        let mut some = |len: u64| -> Vec<u64> {
            let mut all = Vec::new();
            for _ in 0..len {
                let value = self.program.result.one(random);
                if !all.contains(&value) {
                    all.push(value);
                }
            }
            all
        };
        Some(match self.program.statements[id].returns {
            Returns::Rows => {
                let len = some(1)[0] / self.program.result.stride % 3;
                some(len)
            }
            Returns::Many => {
                let len = some(1)[0] / self.program.result.stride % 7;
                some(len)
            }
            Returns::One | Returns::Json => some(1),
            Returns::Echo => with.first().and_then(|it| it.parse().ok()).into_iter().collect(),
            Returns::ByInput if self.inputs[0] % 2 == 1 => Vec::new(),
            Returns::ByInput => some(1),
            Returns::MayFail if below(random, 4) == 0 => return None,
            Returns::MayFail | Returns::Nothing => Vec::new(),
        })
    }
}

impl How {
    fn derive(self, value: u64) -> String {
        match self {
            How::PlusOne => (value + 1).to_string(),
            How::Joined => format!("item-{value}"),
            How::Hashed => {
                let hash = (value ^ 0x9e37_79b9).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                format!("{hash:x}")
            }
        }
    }
}

fn shown(returns: Returns, found: &Option<Vec<u64>>, random: &mut Random) -> Found {
    match (returns, found) {
        (_, None) => Found::Failed,
        (Returns::Json, Some(rows)) => {
            let other = below(random, 1 << 40);
            let rows = rows.iter();
            let json = rows.map(|it| format!(r#"{{"id":{it},"name":"x","other":{other}}}"#));
            Found::Json(json.collect())
        }
        (_, Some(rows)) => Found::Rows(rows.iter().map(u64::to_string).collect()),
    }
}

fn class(found: &Option<Vec<u64>>) -> (u8, u64) {
    match found.as_deref() {
        None => (3, 0),
        Some([]) => (0, 0),
        Some([value]) => (1, *value),
        Some(_) => (2, 0),
    }
}

impl Log {
    /// Whether it could be seen that `b` does not need `a`, which ran right before it: it followed
    /// in 20 units or more, over two classes of results or more, each in three or more, and took
    /// nothing that was not there before. Units are told apart by what ran in front.
    pub(crate) fn could_be_seen(&self, path: &[Id], b: Id) -> bool {
        let Some(a) = path.last() else { return false };
        let (mut n, mut classes) = (0, HashMap::<(u8, u64), u32>::new());
        for unit in &self.units {
            let Some(at) = unit.iter().position(|ran| ran.id == b) else { continue };
            if at == 0 || unit[at - 1].id != *a || !is_path(&unit[..at], path) {
                continue;
            }
            if unit[at].has_news {
                return false;
            }
            n += 1;
            *classes.entry(unit[at - 1].class).or_default() += 1;
        }
        // Single rows are a class each as long as they are few.
        let mut known: Vec<_> = classes.into_iter().collect();
        known.sort_by_key(|it| std::cmp::Reverse(it.1));
        if known.iter().filter(|it| it.0.0 == 1).count() > 8 {
            let ones: u32 = known.iter().filter(|it| it.0.0 == 1).map(|it| it.1).sum();
            known.retain(|it| it.0.0 != 1);
            known.push(((1, 0), ones));
        }
        n >= 20 && known.iter().filter(|it| it.1 >= 3).count() >= 2
    }
}

/// Whether a unit went the same way, however often its loops ran.
fn is_path(unit: &[Ran], path: &[Id]) -> bool {
    let mut seen = Vec::new();
    for ran in unit {
        if !seen.contains(&ran.id) {
            seen.push(ran.id);
        }
    }
    seen == path
}

/// Units that a program runs in: many, or not many more than what is said needs.
const UNITS: [u64; 2] = [200, 40];

/// Runs a program, and returns what was seen.
pub(crate) fn run(seed: u64) -> (Program, Log, onetrip_profile::Profile) {
    let mut random = Random::seed_from_u64(seed);
    let program = Program::new(&mut random, seed);
    let (mut profiler, mut log) = (Profiler::new(), Log::default());
    // Statements are known by their texts, those of Redis by the first part of their keys.
    profiler.show_values(true);
    let mut it = if program.is_redis {
        Speaker::redis(&mut profiler, 1, 0)
    } else {
        Speaker::new(&mut profiler, 1, 0)
    };
    // As slow as the rules of others need it to be.
    it.rtt = 40_000_000;
    for _ in 0..UNITS[seed as usize % 2] {
        program.run(&mut random, &mut it, &mut log, &mut profiler);
        it.rest(400_000_000);
    }
    (program, log, profiler.finish())
}
