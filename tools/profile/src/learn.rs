//! What was seen of each place in each shape of unit: what followed which results, and where the
//! values of its parameters had been seen before.
//!
//! The experiment is natural: where a statement followed whatever the one before it returned, and
//! took nothing from it, it need not have waited. It takes many units, and results of several
//! classes, before that is said.

use std::collections::HashMap;

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

/// Bits of evidence that make one equal value a link.
const BITS_STRONG: f64 = 20.0;
/// Units in which a column was the source of a parameter that make the two linked.
const HITS_MIN: u32 = 3;

/// The steps back for which it is learned what followed.
const BACK_MAX: usize = 16;
const POINTS_MAX: usize = 20_000;
const CLASSES_MAX: usize = 16;
/// Values of small results that are classes of their own.
const SCALARS_MAX: usize = 8;
const NEXTS_MAX: usize = 8;
const SOURCES_MAX: usize = 16;

/// What follows a unit's last statement.
const END: TextId = TextId(u32::MAX);

/// All that was learned.
#[derive(Debug, Default)]
pub(crate) struct Learner {
    /// By what stands in front.
    points: HashMap<u64, Point>,
    /// By what stands in front, and the text of the statement.
    parameters: HashMap<(u64, TextId), Statement>,
    loops: HashMap<(u64, TextId), Rounds>,
}

/// What followed, and how often.
type Nexts = Vec<(TextId, u32)>;

/// What followed one prefix.
#[derive(Debug, Default)]
struct Point {
    /// For each earlier place the classes of its results, and what followed them.
    earlier: Vec<(u16, Vec<(Class, Nexts)>)>,
}

/// What was seen of the parameters of a statement at one place.
#[derive(Debug, Default)]
struct Statement {
    n: u32,
    inputs: Vec<Parameter>,
}

#[derive(Debug, Default)]
struct Parameter {
    first: Option<Value>,
    varies: bool,
    /// Units in which no earlier result had it: it was constant, or in an earlier request, or new.
    known: u32,
    new: u32,
    sources: Vec<Source>,
    /// For each earlier place the units in which it had rows, and those in which they repeated a
    /// value of the parameter that an earlier request had.
    echoes: Vec<(u16, (u32, u32))>,
}

/// A column whose values a parameter had.
#[derive(Debug)]
struct Source {
    place: u16,
    column: u16,
    hits: u32,
    /// Different values of those, at most a few.
    values: Vec<Value>,
    /// Hits by a value that says much by itself.
    telling: u32,
    /// Units in which the place had a result and none of it was the parameter's value.
    misses: u32,
}

/// What was seen of the rounds of a loop.
#[derive(Debug, Default)]
struct Rounds {
    /// Loops that had as many rounds as an earlier result had rows, by its place.
    drivers: Vec<(u16, u32)>,
    loops: u32,
    /// Pairs of rounds, by the class of the first one's result.
    classes: Vec<(Class, u32)>,
    /// Parameters that took a value from the round before.
    linked: u32,
}

impl Learner {
    /// Learns from a unit, of which these are the exchanges that are no part of the protocol.
    pub(crate) fn add(&mut self, values: &Values, unit: &[(&Exchange, Step)], whole: u64) {
        let mut known = HashMap::new();
        for (at, (exchange, step)) in unit.iter().enumerate() {
            let earlier = &unit[..at];
            if step.round == 0 {
                self.followed(step.prefix, earlier, exchange.text);
                self.took(values, &known, earlier, exchange, *step);
            } else {
                self.went_on(values, &known, earlier, exchange, *step);
            }
            for value in exchange.inputs.iter().flatten() {
                known.entry(*value).or_insert(at);
            }
        }
        self.followed(whole, unit, END);
        self.rounds(unit);
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
            let classes = entry(&mut point.earlier, step.place, BACK_MAX);
            let Some(classes) = classes else { return };
            let class = class_in(classes, exchange.answer.class);
            let Some(nexts) = entry(classes, class, CLASSES_MAX) else { continue };
            if let Some(count) = entry(nexts, next, NEXTS_MAX) {
                *count += 1;
            }
        }
    }

    /// Where the values of its parameters came from.
    fn took(
        &mut self,
        values: &Values,
        known: &HashMap<Value, usize>,
        earlier: &[(&Exchange, Step)],
        exchange: &Exchange,
        step: Step,
    ) {
        let key = (step.prefix, exchange.text);
        if self.parameters.len() >= POINTS_MAX && !self.parameters.contains_key(&key) {
            return;
        }
        let statement = self.parameters.entry(key).or_default();
        statement.n += 1;
        statement
            .inputs
            .resize_with(statement.inputs.len().max(exchange.inputs.len()), Default::default);
        for (input, parameter) in exchange.inputs.iter().zip(&mut statement.inputs) {
            let Some(value) = input.first() else {
                parameter.known += 1;
                continue;
            };
            parameter.varies |= *parameter.first.get_or_insert(*value) != *value;
            parameter.took(values, known, earlier, input);
        }
    }

    fn went_on(
        &mut self,
        _: &Values,
        known: &HashMap<Value, usize>,
        earlier: &[(&Exchange, Step)],
        exchange: &Exchange,
        step: Step,
    ) {
        let key = (step.prefix, exchange.text);
        let rounds = self.loops.entry(key).or_default();
        let before = earlier.iter().rev().take_while(|(_, it)| it.place >= step.loop_begin);
        let before: Vec<_> = before.filter(|(_, it)| it.round + 1 == step.round).collect();
        if let Some((before, _)) = before.first()
            && let class = class_in(&rounds.classes, before.answer.class)
            && let Some(count) = entry(&mut rounds.classes, class, CLASSES_MAX)
        {
            *count += 1;
        }
        let takes = |value: &Value| {
            !known.contains_key(value)
                && before.iter().any(|(it, _)| it.answer.values.iter().any(|(_, of)| of == value))
        };
        let driven = |value: &Value| {
            let first = |it: &&(&Exchange, Step)| it.1.place < step.loop_begin;
            let mut earlier = earlier.iter().filter(first);
            earlier.any(|(it, _)| it.answer.values.iter().any(|(_, of)| of == value))
        };
        if exchange.inputs.iter().flatten().any(|value| takes(value) && !driven(value)) {
            rounds.linked += 1;
        }
    }

    /// Whether the rounds of loops are as many as an earlier result had rows.
    fn rounds(&mut self, unit: &[(&Exchange, Step)]) {
        for (at, (exchange, step)) in unit.iter().enumerate() {
            let is_last =
                step.loop_len > 0 && !unit[at + 1..].iter().any(|(_, it)| it.place == step.place);
            if !is_last {
                continue;
            }
            let rounds = self.loops.entry((step.prefix, exchange.text)).or_default();
            rounds.loops += 1;
            let mut seen = None;
            for (earlier, of) in unit[..at].iter().rev().filter(|it| it.1.place < step.loop_begin) {
                if seen.is_some_and(|seen| of.place >= seen) {
                    continue;
                }
                seen = Some(of.place);
                if earlier.answer.rows == u64::from(step.round) + 1
                    && let Some(count) = entry(&mut rounds.drivers, of.place, BACK_MAX)
                {
                    *count += 1;
                }
            }
        }
    }

    /// What is known of an exchange `b` and one before it.
    pub(crate) fn link(&self, a: (TextId, Step), b: (TextId, Step)) -> Link {
        if b.1.round > 0 && a.1.place >= b.1.loop_begin && a.1.round < b.1.round {
            return self.between_rounds(b);
        }
        let key = (b.1.prefix, b.0);
        let statement = self.parameters.get(&key);
        if statement.is_some_and(|it| it.takes_from(a.1.place)) {
            return Link::Strong;
        }
        let Some(point) = self.points.get(&b.1.prefix) else { return Link::Unknown };
        let Some((_, classes)) = point.earlier.iter().find(|it| it.0 == a.1.place) else {
            return Link::Unknown;
        };
        let followed = followed(classes, b.0);
        match followed {
            Link::Independent { .. } if !statement.is_some_and(|it| it.is_given(a.1.place)) => {
                Link::Unknown
            }
            link => link,
        }
    }

    fn between_rounds(&self, b: (TextId, Step)) -> Link {
        let Some(rounds) = self.loops.get(&(b.1.prefix, b.0)) else { return Link::Unknown };
        if rounds.linked >= HITS_MIN {
            return Link::Strong;
        }
        let is_driven = rounds.drivers.iter().any(|(_, count)| *count == rounds.loops);
        let n: u32 = rounds.classes.iter().map(|it| it.1).sum();
        let k = rounds.classes.iter().filter(|it| it.1 >= OF_CLASS_MIN).count() as u32;
        if is_driven && rounds.linked == 0 && n >= UNITS_MIN && k >= CLASSES_MIN {
            return Link::Independent { n, k };
        }
        Link::Unknown
    }

    /// Whether a loop runs once for each row of an earlier result, and takes a value from each.
    pub(crate) fn driver_of(&self, b: (TextId, Step)) -> Option<u16> {
        let rounds = self.loops.get(&(b.1.prefix, b.0))?;
        let statement = self.parameters.get(&(b.1.prefix, b.0))?;
        let drivers = rounds.drivers.iter().filter(|it| it.1 * 20 >= rounds.loops * 19);
        drivers.map(|it| it.0).find(|place| statement.has_values_of(*place))
    }
}

/// A class, or that of any single row where this many values were seen already.
fn class_in<V>(classes: &[(Class, V)], class: Class) -> Class {
    let is_scalar = |class: &Class| matches!(class, Class::Scalar(_));
    let scalars = classes.iter().filter(|it| is_scalar(&it.0)).count();
    let is_known = classes.iter().any(|it| it.0 == class);
    if is_scalar(&class) && !is_known && scalars >= SCALARS_MAX { Class::One } else { class }
}

/// What followed the classes of one result, held against this text.
fn followed(classes: &[(Class, Nexts)], next: TextId) -> Link {
    let of = |nexts: &[(TextId, u32)]| -> u32 { nexts.iter().map(|it| it.1).sum() };
    let n: u32 = classes.iter().map(|(_, nexts)| of(nexts)).sum();
    let always = |nexts: &[(TextId, u32)]| nexts.iter().all(|it| it.0 == next);
    let often: Vec<_> = classes.iter().filter(|it| of(&it.1) >= OF_CLASS_MIN).collect();
    if classes.iter().all(|it| always(&it.1)) {
        let k = often.len() as u32;
        let is_enough = n >= UNITS_MIN && k >= CLASSES_MIN && classes.len() < CLASSES_MAX;
        return if is_enough { Link::Independent { n, k } } else { Link::Unknown };
    }
    // It varies with the class where one thing follows each class, almost always.
    let main = |nexts: &[(TextId, u32)]| {
        let main = nexts.iter().max_by_key(|it| it.1).copied();
        main.filter(|it| it.1 * 20 >= of(nexts) * 19).map(|it| it.0)
    };
    let mains: Option<Vec<_>> = often.iter().map(|it| main(&it.1)).collect();
    match mains {
        Some(mains) if mains.len() >= 2 && mains.iter().any(|it| *it != mains[0]) => Link::Control,
        _ => Link::Unknown,
    }
}

impl Parameter {
    fn took(
        &mut self,
        values: &Values,
        known: &HashMap<Value, usize>,
        earlier: &[(&Exchange, Step)],
        input: &[Value],
    ) {
        let mut has_source = false;
        for (at, (exchange, step)) in earlier.iter().enumerate() {
            let is_new = |value: &Value| known.get(value).is_none_or(|first| *first > at);
            let mut columns = Vec::new();
            for (column, value) in &exchange.answer.values {
                if input.contains(value) && is_new(value) && !columns.contains(column) {
                    columns.push(*column);
                    has_source = true;
                    self.hit(step.place, *column, *value, values.bits(*value));
                }
            }
            if exchange.answer.rows > 0 {
                if let Some((all, repeated)) = entry(&mut self.echoes, step.place, SOURCES_MAX) {
                    *all += 1;
                    let values = &exchange.answer.values;
                    *repeated += u32::from(values.iter().any(|(_, value)| input.contains(value)));
                }
                let missed =
                    |it: &&mut Source| it.place == step.place && !columns.contains(&it.column);
                self.sources.iter_mut().filter(missed).for_each(|it| it.misses += 1);
            }
        }
        if !has_source {
            match input.iter().all(|value| known.contains_key(value)) {
                true => self.known += 1,
                false => self.new += 1,
            }
        }
    }

    fn hit(&mut self, place: u16, column: u16, value: Value, bits: f64) {
        let found = self.sources.iter().position(|it| (it.place, it.column) == (place, column));
        let at = match found {
            Some(at) => at,
            None if self.sources.len() < SOURCES_MAX => {
                let (values, telling) = (Vec::new(), 0);
                self.sources.push(Source { place, column, hits: 0, values, telling, misses: 0 });
                self.sources.len() - 1
            }
            None => return,
        };
        let source = &mut self.sources[at];
        source.hits += 1;
        if source.values.len() < 4 && !source.values.contains(&value) {
            source.values.push(value);
        }
        source.telling += u32::from(bits >= BITS_STRONG);
    }
}

impl Statement {
    fn takes_from(&self, place: u16) -> bool {
        let mut sources = self.inputs.iter().flat_map(|it| &it.sources);
        sources.any(|it| {
            it.place == place
                && (it.telling > 0
                    || (it.hits >= HITS_MIN && it.values.len() >= 2 && it.misses == 0))
        })
    }

    fn has_values_of(&self, place: u16) -> bool {
        self.inputs.iter().flat_map(|it| &it.sources).any(|it| it.place == place && it.hits > 0)
    }

    /// Whether each parameter is a constant, or was in an earlier request, in each unit. What the
    /// result at this place almost always repeats may have been taken from there.
    fn is_given(&self, place: u16) -> bool {
        let repeats = |it: &Parameter| {
            let mut of_place = it.echoes.iter().filter(|it| it.0 == place);
            of_place.any(|(_, (all, repeated))| repeated * 10 >= all * 9)
        };
        let is_given = |it: &Parameter| it.new == 0 && it.sources.is_empty() && !repeats(it);
        self.inputs.iter().all(|it| !it.varies || is_given(it))
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
