//! Statements that ran once for each row of an earlier result: N+1.
//!
//! Whatever stands between the rounds, each took one value of a column that another round took
//! another value of. A statement that takes several values of the column is a batch, and not meant.
//! Values may be equal by chance, so it is held against the rows that the same result had in the
//! unit before.

use std::collections::HashMap;

use crate::exchange::{Exchange, TextId};
use crate::value::{Value, Values};

/// For each exchange of a unit the statement of whose rows it was a round, and whether it was the
/// first.
pub(crate) type Rounds = Vec<Option<(TextId, bool)>>;

/// What was seen of all units.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// By the text of the result, and of the rounds.
    seen: HashMap<(TextId, TextId), Seen>,
    /// The results of which a text was seen to be the rounds.
    sources: HashMap<TextId, Vec<TextId>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Units with rounds, and those with one for each row.
    units: u32,
    exact: u32,
    /// Uses of the text behind the result, and those that were rounds.
    uses: u64,
    rounds: u64,
    /// Rounds whose value was in the result of the unit before as well.
    by_chance: u64,
    /// The most rounds, one for each row.
    longest: u32,
    bits: f64,
    /// The column's values in the last unit.
    last: Vec<Value>,
}

/// A column of one result of a unit, and what ran with its values.
#[derive(Debug)]
struct Group {
    source: usize,
    column: u16,
    text: TextId,
    /// The rounds and their values.
    rounds: Vec<(usize, Value)>,
}

const SEEN_MAX: usize = 10_000;
const SOURCES_MAX: usize = 8;
/// Columns that are kept for each value.
const COLUMNS_MAX: usize = 4;
/// Values of the column of rounds through a statement between.
const THROUGH: u16 = u16::MAX;
/// What links rounds by their values, or by one for each row.
const BITS_MIN: f64 = 20.0;
const ROWS_MIN: u32 = 3;

impl Rows {
    /// Looks at the exchanges of a unit.
    pub(crate) fn add(&mut self, values: &Values, unit: &[&Exchange]) -> Rounds {
        let mut rounds: Rounds = vec![None; unit.len()];
        let mut texts: HashMap<TextId, u32> = HashMap::new();
        unit.iter().for_each(|it| *texts.entry(it.text).or_default() += 1);
        if texts.values().all(|count| *count < 2) {
            return rounds;
        }
        let mut sources = Sources::of(unit);
        let direct = sources.groups(unit, &rounds, |count| *count >= 2);
        self.take(values, unit, direct, &mut rounds);
        // A statement that takes a value of a round's result is a round as well.
        sources.through(unit, &rounds);
        let through = sources.groups(unit, &rounds, |_| true);
        self.take(values, unit, through, &mut rounds);
        self.note_misses(unit, &rounds, &texts);
        rounds
    }

    /// Of several groups that an exchange is in, the largest gets it.
    fn take(
        &mut self,
        values: &Values,
        unit: &[&Exchange],
        mut groups: Vec<Group>,
        rounds: &mut Rounds,
    ) {
        groups.sort_by_key(|it| (std::cmp::Reverse(distinct(&it.rounds)), it.source, it.column));
        for mut group in groups {
            group.rounds.retain(|it| rounds[it.0].is_none());
            if distinct(&group.rounds) < 2 {
                continue;
            }
            let source = unit[group.source].text;
            for (at, (round, _)) in group.rounds.iter().enumerate() {
                rounds[*round] = Some((source, at == 0));
            }
            self.note(values, unit, &group);
        }
    }

    fn note(&mut self, values: &Values, unit: &[&Exchange], group: &Group) {
        let key = (unit[group.source].text, group.text);
        if self.seen.len() >= SEEN_MAX && !self.seen.contains_key(&key) {
            return;
        }
        let sources = self.sources.entry(group.text).or_default();
        if !sources.contains(&key.0) && sources.len() < SOURCES_MAX {
            sources.push(key.0);
        }
        let seen = self.seen.entry(key).or_default();
        let mut column: Vec<Value> = unit[group.source]
            .answer
            .values
            .iter()
            .filter(|it| it.0 == group.column)
            .map(|it| it.1)
            .collect();
        column.sort_unstable();
        column.dedup();
        let uses = unit[group.source + 1..].iter().filter(|it| it.text == group.text).count();
        let rounds = distinct(&group.rounds);
        let is_exact = rounds == column.len() && uses == group.rounds.len();
        seen.units += 1;
        seen.uses += uses as u64;
        seen.rounds += group.rounds.len() as u64;
        seen.exact += u32::from(is_exact);
        if is_exact {
            seen.longest = seen.longest.max(rounds as u32);
        }
        let spread = (column.len().max(1) as f64).log2();
        for (_, value) in &group.rounds {
            seen.bits += (values.bits(*value) - spread).max(0.0);
            seen.by_chance += u64::from(seen.last.binary_search(value).is_ok());
        }
        seen.last = column;
    }

    /// Uses behind a result of which they were the rounds in other units.
    fn note_misses(&mut self, unit: &[&Exchange], rounds: &Rounds, texts: &HashMap<TextId, u32>) {
        for text in texts.keys() {
            for source in self.sources.get(text).into_iter().flatten() {
                let mut found = unit.iter().zip(rounds);
                let is_round = found
                    .any(|(it, round)| it.text == *text && round.is_some_and(|it| it.0 == *source));
                let Some(at) = unit.iter().position(|it| it.text == *source) else { continue };
                let uses = unit[at + 1..].iter().filter(|it| it.text == *text).count();
                if !is_round
                    && uses > 1
                    && let Some(seen) = self.seen.get_mut(&(*source, *text))
                {
                    seen.uses += uses as u64;
                }
            }
        }
    }

    /// Whether a text runs once for each row of a result: not by chance, and not now and then.
    pub(crate) fn is_confirmed(&self, source: TextId, text: TextId) -> bool {
        let Some(seen) = self.seen.get(&(source, text)) else { return false };
        let is_usual = seen.rounds * 2 >= seen.uses;
        let is_exact = seen.exact * 5 >= seen.units * 4;
        let is_chance = seen.by_chance * 2 > seen.rounds;
        let says = seen.bits >= BITS_MIN || (is_exact && seen.longest >= ROWS_MIN);
        is_usual && says && (is_exact || !is_chance)
    }
}

/// Where the values of a unit's results stand.
struct Sources {
    columns: HashMap<Value, Vec<(usize, u16)>>,
    requested: HashMap<Value, usize>,
}

impl Sources {
    fn of(unit: &[&Exchange]) -> Sources {
        let (mut columns, mut requested) = (HashMap::<_, Vec<_>>::new(), HashMap::new());
        for (at, exchange) in unit.iter().enumerate() {
            for (column, value) in &exchange.answer.values {
                let of = columns.entry(*value).or_default();
                if of.len() < COLUMNS_MAX && !of.contains(&(at, *column)) {
                    of.push((at, *column));
                }
            }
            for value in exchange.inputs.iter().flatten() {
                requested.entry(*value).or_insert(at);
            }
        }
        Sources { columns, requested }
    }

    /// Results of rounds count as a column of the result that the rounds are of.
    fn through(&mut self, unit: &[&Exchange], rounds: &Rounds) {
        self.columns.clear();
        let first = |text: TextId| unit.iter().position(|it| it.text == text);
        for (exchange, round) in unit.iter().zip(rounds) {
            let Some(source) = round.and_then(|it| first(it.0)) else { continue };
            for (_, value) in &exchange.answer.values {
                let of = self.columns.entry(*value).or_default();
                if of.is_empty() {
                    of.push((source, THROUGH));
                }
            }
        }
    }

    fn groups(
        &self,
        unit: &[&Exchange],
        rounds: &Rounds,
        is_wide: impl Fn(&usize) -> bool,
    ) -> Vec<Group> {
        let mut widths: HashMap<(usize, u16), usize> = HashMap::new();
        self.columns.values().flatten().for_each(|it| *widths.entry(*it).or_default() += 1);
        let mut groups: HashMap<(usize, u16, TextId), Vec<(usize, Value)>> = HashMap::new();
        for (at, exchange) in unit.iter().enumerate().filter(|it| rounds[it.0].is_none()) {
            let mut taken: HashMap<(usize, u16), Vec<Value>> = HashMap::new();
            for value in exchange.inputs.iter().flatten() {
                for column in self.columns.get(value).into_iter().flatten() {
                    let is_new = self.requested.get(value).is_none_or(|first| *first > column.0);
                    let of = taken.entry(*column).or_default();
                    if column.0 < at && is_new && !of.contains(value) {
                        of.push(*value);
                    }
                }
            }
            for ((source, column), of) in taken {
                let is_source = widths.get(&(source, column)).is_some_and(&is_wide);
                if let (true, [value]) = (is_source, &of[..]) {
                    groups.entry((source, column, exchange.text)).or_default().push((at, *value));
                }
            }
        }
        let group = |((source, column, text), rounds)| Group { source, column, text, rounds };
        groups.into_iter().map(group).filter(|it| distinct(&it.rounds) >= 2).collect()
    }
}

fn distinct(rounds: &[(usize, Value)]) -> usize {
    let mut values: Vec<Value> = rounds.iter().map(|it| it.1).collect();
    values.sort_unstable();
    values.dedup();
    values.len()
}
