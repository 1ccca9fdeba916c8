//! Where the values of a statement's parameters had been seen before.

use std::collections::HashMap;

use super::entry;
use crate::exchange::{Exchange, VALUES_MAX};
use crate::steps::Step;
use crate::value::{Value, Values};

/// Bits of evidence that make a link: of one equal value, or of all that a column had.
const BITS_STRONG: f64 = 20.0;
/// Units in which a column was the source of a parameter that make the two linked.
const HITS_MIN: u32 = 3;
/// Misses that rule a column out where another one explains all values.
const MISSES_MIN: u32 = 3;
const SOURCES_MAX: usize = 16;

/// What was seen of one parameter of a statement at one place.
#[derive(Debug, Default)]
pub(super) struct Parameter {
    first: Option<Value>,
    varies: bool,
    /// Units in which it was in an earlier request, and those in which nothing had it before.
    known: u32,
    new: u32,
    /// All units.
    n: u32,
    sources: Vec<Source>,
    /// For each earlier place, how its rows go with the values of the parameter.
    echoes: Vec<(u16, Echo)>,
}

/// Units of one earlier place.
#[derive(Debug, Default)]
struct Echo {
    /// It had rows.
    all: u32,
    /// And one of them repeated a value of the parameter.
    repeated: u32,
    /// It had none, and an earlier request had the value: the program did not take it from rows.
    without: u32,
}

/// A column whose values a parameter had.
#[derive(Debug)]
struct Source {
    place: u16,
    column: u16,
    /// Units in which it was the first to have the value, and those in which it had it later.
    hits: u32,
    repeats: u32,
    /// Different values of those, at most a few.
    values: Vec<Value>,
    /// Hits by a value that says much by itself, and what all of them say.
    telling: u32,
    bits: f64,
    /// Units in which the place had a result and none of it was the parameter's value.
    misses: u32,
}

impl Parameter {
    pub(super) fn took(
        &mut self,
        values: &Values,
        known: &HashMap<Value, usize>,
        earlier: &[(&Exchange, Step)],
        input: &[Value],
    ) {
        self.n += 1;
        let Some(value) = input.first() else {
            self.known += 1;
            return;
        };
        self.varies |= *self.first.get_or_insert(*value) != *value;
        // Of each value the first result that had it counts, if no request had it before that.
        let mut taken: Vec<Value> = Vec::new();
        for (at, (exchange, step)) in earlier.iter().enumerate() {
            if exchange.answer.rows == 0 {
                let was_asked =
                    input.iter().all(|it| known.get(it).is_some_and(|first| *first <= at));
                if let Some(echo) = entry(&mut self.echoes, step.place, SOURCES_MAX) {
                    echo.without += u32::from(was_asked);
                }
                continue;
            }
            let answer = &exchange.answer.values;
            let is_new = |value: &Value| known.get(value).is_none_or(|first| *first > at);
            let (mut columns, mut found) = (Vec::new(), Vec::new());
            for (column, value) in answer.iter().filter(|it| input.contains(&it.1)) {
                if is_new(value) && !columns.contains(column) {
                    columns.push(*column);
                    found.push(*value);
                    let is_first = !taken.contains(value);
                    let of_column = answer.iter().filter(|it| it.0 == *column).count();
                    let bits = values.bits(*value) - (of_column as f64).log2();
                    self.hit((step.place, *column), *value, bits.max(0.0), is_first);
                }
            }
            taken.extend(found);
            if let Some(echo) = entry(&mut self.echoes, step.place, SOURCES_MAX) {
                echo.all += 1;
                echo.repeated += u32::from(answer.iter().any(|(_, value)| input.contains(value)));
            }
            // Of a long result some values were not kept.
            if answer.len() < VALUES_MAX {
                // A request that had the value before says nothing of the column, either way.
                let has = |column| answer.iter().any(|it| it.0 == column && input.contains(&it.1));
                let missed = |it: &&mut Source| it.place == step.place && !has(it.column);
                self.sources.iter_mut().filter(missed).for_each(|it| it.misses += 1);
            }
        }
        if taken.is_empty() {
            match input.iter().all(|value| known.contains_key(value)) {
                true => self.known += 1,
                false => self.new += 1,
            }
        }
    }

    fn hit(&mut self, (place, column): (u16, u16), value: Value, bits: f64, is_first: bool) {
        let found = self.sources.iter().position(|it| (it.place, it.column) == (place, column));
        let at = match found {
            Some(at) => at,
            None if self.sources.len() < SOURCES_MAX => {
                self.sources.push(Source {
                    place,
                    column,
                    hits: 0,
                    repeats: 0,
                    values: Vec::new(),
                    telling: 0,
                    bits: 0.0,
                    misses: 0,
                });
                self.sources.len() - 1
            }
            None => return,
        };
        let source = &mut self.sources[at];
        if !is_first {
            source.repeats += 1;
            return;
        }
        source.hits += 1;
        source.bits += bits;
        if source.values.len() < 4 && !source.values.contains(&value) {
            source.values.push(value);
        }
        source.telling += u32::from(bits >= BITS_STRONG);
    }

    /// Whether a result at this place is the source.
    pub(super) fn takes_from(&self, place: u16) -> bool {
        self.sources.iter().any(|it| it.place == place && it.is_strong())
    }

    /// Whether its values were there without the result at this place, in each unit: it is a
    /// constant, was in an earlier request, or comes from another result. What the result almost
    /// always repeats may have been taken from there, unless it was there without rows as well.
    pub(super) fn is_given(&self, place: u16) -> bool {
        if !self.varies {
            return true;
        }
        let mut of_place = self.echoes.iter().filter(|it| it.0 == place);
        let repeats =
            of_place.any(|(_, it)| it.repeated * 10 >= it.all * 9 && it.without < MISSES_MIN);
        if self.new > 0 || repeats {
            return false;
        }
        let explained = |it: &&Source| it.place != place && it.explains(self.n - self.known);
        let mut here = self.sources.iter().filter(|it| it.place == place);
        let is_explained = self.sources.iter().any(|it| explained(&it));
        // A column that had the value now and then had it by chance, if another one always had it.
        let by_chance = here.all(|it| is_explained && it.misses >= MISSES_MIN);
        by_chance && (is_explained || self.known == self.n)
    }
}

impl Source {
    fn is_strong(&self) -> bool {
        let maps = self.hits >= HITS_MIN && self.values.len() >= 2 && self.misses == 0;
        self.telling > 0 || (maps && self.bits >= BITS_STRONG)
    }

    /// Whether it had the value in each of so many units.
    fn explains(&self, units: u32) -> bool {
        self.is_strong() && self.misses == 0 && self.hits + self.repeats >= units
    }
}
