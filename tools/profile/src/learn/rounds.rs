//! What was seen of the rounds of a loop.

use std::collections::HashMap;

use super::{BACK_MAX, CLASSES_MAX, CLASSES_MIN, Link, OF_CLASS_MIN, UNITS_MIN, class_in, entry};
use crate::exchange::{Class, Exchange};
use crate::steps::Step;
use crate::value::Value;

/// Rounds whose values are held against those of the same round in other units.
const CONSTANTS_MAX: usize = 16;
/// Rounds that took a value from the one before, and make the rounds linked.
const LINKED_MIN: u32 = 3;

/// What was seen of a statement that runs in rounds.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// Units in which it ran, and those in which an earlier result had as many rows as it had
    /// rounds, by the place of that.
    units: u32,
    drivers: Vec<(u16, u32)>,
    /// The rounds of all units, if they are the same.
    rounds: Option<u32>,
    varies: bool,
    /// Pairs of rounds, by the class of the first one's result.
    classes: Vec<(Class, u32)>,
    /// Classes of last rounds' results.
    ends: Vec<(Class, u32)>,
    /// The values of the first unit's rounds.
    first: Vec<Vec<Value>>,
    /// Rounds with a value from the round before, and those with one that was seen nowhere before.
    linked: u32,
    new: u32,
    /// Rounds, and those with a value that the round before returned though it was known.
    all: u32,
    repeats: u32,
}

impl Rounds {
    /// Looks at a round behind the first.
    pub(super) fn went_on(
        &mut self,
        known: &HashMap<Value, usize>,
        earlier: &[(&Exchange, Step)],
        exchange: &Exchange,
        step: Step,
    ) {
        let of_loop = earlier.iter().rev().take_while(|(_, it)| it.place >= step.loop_begin);
        let before: Vec<_> = of_loop.filter(|(_, it)| it.round + 1 == step.round).collect();
        if let Some((before, _)) = before.first()
            && let class = class_in(&self.classes, before.answer.class)
            && let Some(count) = entry(&mut self.classes, class, CLASSES_MAX)
        {
            *count += 1;
        }
        let has = |it: &Exchange, value: &Value| it.answer.values.iter().any(|of| of.1 == *value);
        let in_front: Vec<_> = earlier.iter().filter(|it| it.1.place < step.loop_begin).collect();
        let mut is_linked = false;
        let mut is_new = false;
        let mut repeats = false;
        for value in exchange.inputs.iter().flatten() {
            repeats |= before.iter().any(|(it, _)| has(it, value));
            if known.contains_key(value) || in_front.iter().any(|(it, _)| has(it, value)) {
                continue;
            }
            if before.iter().any(|(it, _)| has(it, value)) {
                is_linked = true;
            } else {
                is_new |= !self.is_constant(step.round, *value);
            }
        }
        self.keep(step.round, exchange);
        self.all += 1;
        self.repeats += u32::from(repeats);
        self.linked += u32::from(is_linked);
        self.new += u32::from(is_new);
    }

    fn is_constant(&self, round: u32, value: Value) -> bool {
        match self.first.get(round as usize - 1) {
            Some(first) => first.contains(&value),
            None => self.units == 0 && (round as usize) <= CONSTANTS_MAX,
        }
    }

    fn keep(&mut self, round: u32, exchange: &Exchange) {
        let is_next = self.first.len() + 1 == round as usize && self.first.len() < CONSTANTS_MAX;
        if self.units == 0 && is_next {
            self.first.push(exchange.inputs.iter().flatten().copied().collect());
        }
    }

    /// A unit is over in which it ran in so many rounds, of which this was the last, behind these.
    pub(super) fn ended(&mut self, last: &Exchange, earlier: &[(&Exchange, Step)], step: Step) {
        let rounds = step.round + 1;
        self.units += 1;
        if let Some(count) = entry(&mut self.ends, coarse(last.answer.class), CLASSES_MAX) {
            *count += 1;
        }
        self.varies |= *self.rounds.get_or_insert(rounds) != rounds;
        let begin = if step.loop_len > 0 { step.loop_begin } else { step.place };
        let mut seen = None;
        for (exchange, of) in earlier.iter().rev().filter(|it| it.1.place < begin) {
            if seen.is_some_and(|seen| of.place >= seen) {
                continue;
            }
            seen = Some(of.place);
            if exchange.answer.rows == u64::from(rounds)
                && let Some(count) = entry(&mut self.drivers, of.place, BACK_MAX)
            {
                *count += 1;
            }
        }
    }

    /// What stands between one round and the next.
    pub(super) fn link(&self) -> Link {
        if self.linked >= LINKED_MIN {
            return Link::Strong;
        }
        let n: u32 = self.classes.iter().map(|it| it.1).sum();
        let k = self.classes.iter().filter(|it| it.1 >= OF_CLASS_MIN).count() as u32;
        let repeats = self.repeats * 10 >= self.all * 9;
        let is_given = self.linked == 0 && self.new == 0 && !repeats;
        if self.is_counted() && is_given && n >= UNITS_MIN && k >= CLASSES_MIN {
            return Link::Independent { n, k };
        }
        Link::Unknown
    }

    /// Whether it ran more than once in a unit.
    pub(super) fn is_loop(&self) -> bool {
        self.varies || self.rounds.is_some_and(|it| it > 1)
    }

    /// Whether the number of rounds is known in front of the first, so that no round's result decides
    /// whether there is a next one.
    pub(super) fn is_counted(&self) -> bool {
        let is_driven = self.drivers.iter().any(|(_, count)| *count == self.units);
        is_driven || (!self.varies && !self.ends_by_class())
    }

    /// Whether last rounds have results of a class that others don't have.
    fn ends_by_class(&self) -> bool {
        let goes_on = |class: Class| self.classes.iter().any(|it| coarse(it.0) == class);
        self.ends.iter().any(|it| it.1 >= OF_CLASS_MIN && !goes_on(it.0))
    }
}

/// A class without its value.
fn coarse(class: Class) -> Class {
    if let Class::Scalar(_) = class { Class::One } else { class }
}
