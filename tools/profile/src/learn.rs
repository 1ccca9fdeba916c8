//! What was seen of each place in each shape of unit: what followed which results, and where the
//! values of its parameters had been seen before.
//!
//! The experiment is natural: where a statement followed whatever the one before it returned, and
//! took nothing from it, it need not have waited. It takes many units, and results of several
//! classes, before that is said.

mod parameter;
mod rounds;

use std::collections::HashMap;

use parameter::Parameter;
use rounds::Rounds;

use crate::exchange::{Class, Exchange, TextId};
use crate::steps::Step;
use crate::value::{Value, Values};

/// What is said of two exchanges of a unit, of which one came later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Link {
    /// A parameter has a value of the earlier result.
    Strong,
    /// What follows varies with the class of the result.
    Control,
    /// It followed in `n` units over `k` classes of results.
    Independent {
        n: u32,
        k: u32,
    },
    Unknown,
}

/// Units that a statement of independence needs, classes of results, and units of each class.
const UNITS_MIN: u32 = 20;
const CLASSES_MIN: u32 = 2;
const OF_CLASS_MIN: u32 = 3;

/// The steps back for which it is learned what followed.
const BACK_MAX: usize = 16;
const POINTS_MAX: usize = 20_000;
const CLASSES_MAX: usize = 16;
/// Values of small results that are classes of their own.
const SCALARS_MAX: usize = 8;
const NEXTS_MAX: usize = 8;

/// What follows a unit's last statement.
const END: TextId = TextId(u32::MAX);

/// All that was learned.
#[derive(Debug, Default)]
pub(crate) struct Learner {
    /// By what stands in front.
    points: HashMap<u64, Point>,
    /// By what stands in front, and the text of the statement.
    statements: HashMap<(u64, TextId), Statement>,
}

/// What followed, and how often.
type Nexts = Vec<(TextId, u32)>;

/// The classes of one result, and what followed each.
type Classes = Vec<(Class, Nexts)>;

/// What followed one prefix.
#[derive(Debug, Default)]
struct Point {
    /// For each earlier place the classes of its results.
    earlier: Vec<(u16, Classes)>,
}

/// What was seen of a statement at one place.
#[derive(Debug, Default)]
struct Statement {
    inputs: Vec<Parameter>,
    rounds: Rounds,
}

impl Learner {
    /// Learns from a unit, of which these are the exchanges that are steps.
    pub(crate) fn add(&mut self, values: &Values, unit: &[(&Exchange, Step)], whole: u64) {
        let mut known = HashMap::new();
        for (at, (exchange, step)) in unit.iter().enumerate() {
            let earlier = &unit[..at];
            if step.round == 0 {
                self.followed(step.prefix, earlier, exchange.text);
            }
            if let Some(statement) = self.statement(exchange.text, *step) {
                if step.round == 0 {
                    statement.took(values, &known, earlier, exchange);
                } else {
                    statement.rounds.went_on(&known, earlier, exchange, *step);
                }
                let is_last = step.loop_len == 0
                    || !unit[at + 1..].iter().any(|(_, it)| it.place == step.place);
                if is_last {
                    statement.rounds.ended(exchange, earlier, *step);
                }
            }
            for value in exchange.inputs.iter().flatten() {
                known.entry(*value).or_insert(at);
            }
        }
        self.followed(whole, unit, END);
    }

    fn statement(&mut self, text: TextId, step: Step) -> Option<&mut Statement> {
        let key = (step.prefix, text);
        if self.statements.len() >= POINTS_MAX && !self.statements.contains_key(&key) {
            return None;
        }
        Some(self.statements.entry(key).or_default())
    }

    fn followed(&mut self, prefix: u64, earlier: &[(&Exchange, Step)], next: TextId) {
        if self.points.len() >= POINTS_MAX && !self.points.contains_key(&prefix) {
            return;
        }
        let point = self.points.entry(prefix).or_default();
        let mut seen = None;
        for (exchange, step) in earlier.iter().rev().take(BACK_MAX * 4) {
            // Of a loop its last round counts.
            if seen.is_some_and(|seen| step.place >= seen) {
                continue;
            }
            seen = Some(step.place);
            // In a transaction the server refuses what was sent behind a failed statement.
            if exchange.answer.has_failed() && exchange.in_transaction {
                continue;
            }
            let classes = entry(&mut point.earlier, step.place, BACK_MAX);
            let Some(classes) = classes else { return };
            let class = class_in(classes, exchange.answer.class);
            let Some(nexts) = entry(classes, class, CLASSES_MAX) else { continue };
            if let Some(count) = entry(nexts, next, NEXTS_MAX) {
                *count += 1;
            }
        }
    }

    /// What is known of an exchange `b` and one before it.
    pub(crate) fn link(&self, a: (TextId, Step), b: (TextId, Step)) -> Link {
        let statement = self.statements.get(&(b.1.prefix, b.0));
        if b.1.round > 0 && a.1.place >= b.1.loop_begin && a.1.round < b.1.round {
            return statement.map_or(Link::Unknown, |it| it.rounds.link());
        }
        if statement.is_some_and(|it| it.takes_from(a.1.place)) {
            return Link::Strong;
        }
        // What stands behind a loop follows its last round alone: that is no experiment with the
        // results of rounds, if one of them can have ended the loop.
        let of_loop = self.statements.get(&(a.1.prefix, a.0)).filter(|it| it.rounds.is_loop());
        if of_loop.is_some_and(|it| !it.rounds.is_counted()) {
            return Link::Unknown;
        }
        let Some(point) = self.points.get(&b.1.prefix) else { return Link::Unknown };
        match point.followed(a.1.place, b.0) {
            Link::Independent { .. } if !statement.is_some_and(|it| it.is_given(a.1.place)) => {
                Link::Unknown
            }
            link => link,
        }
    }
}

/// A class, or that of any single row where this many values were seen already.
fn class_in<V>(classes: &[(Class, V)], class: Class) -> Class {
    let is_scalar = |class: &Class| matches!(class, Class::Scalar(_));
    let scalars = classes.iter().filter(|it| is_scalar(&it.0)).count();
    let is_known = classes.iter().any(|it| it.0 == class);
    if is_scalar(&class) && !is_known && scalars >= SCALARS_MAX { Class::One } else { class }
}

impl Point {
    /// What followed the results at a place, held against this text.
    fn followed(&self, place: u16, next: TextId) -> Link {
        let Some((_, classes)) = self.earlier.iter().find(|it| it.0 == place) else {
            return Link::Unknown;
        };
        let often: Vec<_> = classes.iter().filter(|it| sum(&it.1) >= OF_CLASS_MIN).collect();
        if classes.iter().all(|it| it.1.iter().all(|it| it.0 == next)) {
            return experiment(classes, next);
        }
        // It varies with the class where one thing follows each class, almost always.
        let main = |nexts: &[(TextId, u32)]| {
            let main = nexts.iter().max_by_key(|it| it.1).copied();
            main.filter(|it| it.1 * 20 >= sum(nexts) * 19).map(|it| it.0)
        };
        let mains: Option<Vec<_>> = often.iter().map(|it| main(&it.1)).collect();
        match mains {
            Some(mains) if mains.len() >= 2 && mains.iter().any(|it| *it != mains[0]) => {
                Link::Control
            }
            // Where another result decides alone, this one doesn't.
            _ if self.earlier.iter().any(|it| it.0 != place && decides(&it.1)) => {
                experiment(classes, next)
            }
            _ => Link::Unknown,
        }
    }
}

/// Independence, where this text followed often enough and results of enough classes.
fn experiment(classes: &Classes, next: TextId) -> Link {
    let of = |nexts: &Nexts| nexts.iter().find(|it| it.0 == next).map_or(0, |it| it.1);
    let n = classes.iter().map(|it| of(&it.1)).sum();
    let k = classes.iter().filter(|it| of(&it.1) >= OF_CLASS_MIN).count() as u32;
    let is_enough = n >= UNITS_MIN && k >= CLASSES_MIN && classes.len() < CLASSES_MAX;
    if is_enough { Link::Independent { n, k } } else { Link::Unknown }
}

/// Whether one thing follows each class, and not the same for all.
fn decides(classes: &Classes) -> bool {
    let is_one = |it: &(Class, Nexts)| it.1.len() == 1 && sum(&it.1) >= OF_CLASS_MIN;
    let first = classes.first().and_then(|it| it.1.first()).map(|it| it.0);
    classes.iter().all(is_one) && classes.iter().any(|it| Some(it.1[0].0) != first)
}

fn sum(nexts: &[(TextId, u32)]) -> u32 {
    nexts.iter().map(|it| it.1).sum()
}

impl Statement {
    /// Where the values of its parameters came from.
    fn took(
        &mut self,
        values: &Values,
        known: &HashMap<Value, usize>,
        earlier: &[(&Exchange, Step)],
        exchange: &Exchange,
    ) {
        let len = self.inputs.len().max(exchange.inputs.len());
        self.inputs.resize_with(len, Default::default);
        for (input, parameter) in exchange.inputs.iter().zip(&mut self.inputs) {
            parameter.took(values, known, earlier, input);
        }
    }

    fn takes_from(&self, place: u16) -> bool {
        self.inputs.iter().any(|it| it.takes_from(place))
    }

    fn is_given(&self, place: u16) -> bool {
        self.inputs.iter().all(|it| it.is_given(place))
    }
}

/// The value of a key in a short list, which is added if there is room.
fn entry<K: PartialEq, V: Default>(list: &mut Vec<(K, V)>, key: K, max: usize) -> Option<&mut V> {
    if let Some(at) = list.iter().position(|it| it.0 == key) {
        return Some(&mut list[at].1);
    }
    if list.len() >= max {
        return None;
    }
    list.push((key, V::default()));
    list.last_mut().map(|it| &mut it.1)
}
