//! Units that do the same, together.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::exchange::{Exchange, Kind, TextId, Texts};
use crate::learn::{Learner, Link};
use crate::least::{self, Item, Label, Mode};
use crate::piece::{Legs, Nanos};
use crate::rows::Rows;
use crate::steps::{Step, mixed, steps};
use crate::unit::{Boundary, Trip, Unit};
use crate::value::Values;

/// A unit that was kept as an example.
#[derive(Clone, Debug)]
pub(crate) struct Example {
    pub(crate) items: Vec<Item>,
    pub(crate) trips: Vec<Trip>,
    /// The least round trip between the program and where its bytes pass.
    pub(crate) client_leg: Nanos,
    /// Units that it stands for, and their trips.
    pub(crate) units: u64,
    pub(crate) units_trips: u64,
}

/// Units with the same statements in the same order, however often their loops ran.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    pub(crate) count: u64,
    pub(crate) is_redis: bool,
    pub(crate) trips: u64,
    /// Of one unit.
    pub(crate) trips_max: u64,
    pub(crate) exchanges: u64,
    /// Sums of times: of the network, of the server, and of the program between two trips.
    pub(crate) network: Nanos,
    pub(crate) server: Nanos,
    pub(crate) program: Nanos,
    /// Of that, while a transaction was open.
    pub(crate) idle_in_transaction: Nanos,
    /// Reads that had the text and the parameters of one before them, with no write between.
    pub(crate) duplicates: BTreeMap<TextId, u64>,
    /// Uses of statements without a name, which were parsed.
    pub(crate) parsed: BTreeMap<TextId, u64>,
    pub(crate) boundaries: BTreeMap<Boundary, u64>,
    pub(crate) endpoint: Option<Arc<str>>,
    /// By text; of those beyond `TIMES_MAX`, and of what could not be read, together.
    pub(crate) times: BTreeMap<Option<TextId>, Times>,
    /// One for each length, in exchanges and trips: loops make a shape's units differ in it. Units of
    /// further lengths belong to the nearest.
    pub(crate) examples: Vec<Example>,
}

/// Where the time of a statement went, in all units of a shape.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) trips: u64,
    pub(crate) network: Nanos,
    pub(crate) server: Nanos,
    pub(crate) program: Nanos,
}

/// All shapes of a run.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    pub(crate) all: HashMap<u64, Shape>,
    pub(crate) rows: Rows,
    /// Exchanges in examples.
    kept: usize,
}

const SHAPES_MAX: usize = 4_000;
const EXAMPLES_MAX: usize = 32;
/// Exchanges of all examples: 80 MB.
const KEPT_MAX: usize = 500_000;
/// Texts of a shape of which the time is kept.
const TIMES_MAX: usize = 64;
/// Units that belong to no shape of their own.
const OTHER: u64 = 0;

impl Shapes {
    /// Learns from a unit, and returns the key of its shape with what is kept of examples.
    pub(crate) fn add(
        &mut self,
        unit: &Unit,
        values: &Values,
        learner: &mut Learner,
        legs: Legs,
    ) -> (u64, Example) {
        let work: Vec<&Exchange> = unit.exchanges.iter().filter(|it| it.kind.is_step()).collect();
        let texts: Vec<TextId> = work.iter().map(|it| it.text).collect();
        let (steps, whole) = steps(&texts);
        let of_work: Vec<_> = work.iter().copied().zip(steps.iter().copied()).collect();
        learner.add(values, &of_work, whole);
        let rounds = self.rows.add(values, &work);

        let mut of_work = steps.into_iter().zip(rounds);
        let mut items = Vec::with_capacity(unit.exchanges.len());
        for exchange in &unit.exchanges {
            let of = if exchange.kind.is_step() { of_work.next() } else { None };
            let row_of = of.and_then(|it| it.1);
            items.push(Item { row_of, ..Item::of(exchange, of.map(|it| it.0)) });
        }
        mark_repeats(&unit.exchanges, &mut items);
        // Units that differ in what the protocol costs them are different shapes.
        let protocol = items.iter().filter(|it| it.kind.is_protocol());
        let key = protocol.fold(whole, |key, it| mixed(key, TextId(it.kind as u32 + 1_000_000)));
        // And where there is nothing else, by what they say.
        let is_bare = items.iter().all(|it| it.kind.is_protocol() && it.step.is_none());
        let settings = items.iter().filter(|it| is_bare && it.kind == Kind::Session);
        let key = settings.fold(key, |key, it| mixed(key, it.text));
        let is_new = !self.all.contains_key(&key);
        let key = if is_new && self.all.len() >= SHAPES_MAX { OTHER } else { key };
        let shape = self.all.entry(key).or_default();
        shape.note(unit, legs, &items);

        let example = Example {
            items,
            trips: unit.trips.clone(),
            client_leg: legs.client.unwrap_or(0),
            units: 1,
            units_trips: unit.trips.len() as u64,
        };
        let room = KEPT_MAX.saturating_sub(self.kept);
        if shape.stands_for(&example, room) {
            self.kept += example.items.len();
        }
        (key, example)
    }
}

impl Shape {
    /// Counts a unit with the example that stands for it. Returns whether it became one itself, for
    /// which there is room for so many exchanges.
    fn stands_for(&mut self, unit: &Example, room: usize) -> bool {
        let len = |it: &Example| (it.items.len(), it.trips.len());
        let away = |it: &Example| {
            let (exchanges, trips) = len(it);
            exchanges.abs_diff(unit.items.len()) + trips.abs_diff(unit.trips.len())
        };
        let is_known = self.examples.iter().any(|it| len(it) == len(unit));
        if !is_known && self.examples.len() < EXAMPLES_MAX && unit.items.len() <= room {
            self.examples.push(unit.clone());
            return true;
        }
        if let Some(nearest) = self.examples.iter_mut().min_by_key(|it| away(it)) {
            nearest.units += 1;
            nearest.units_trips += unit.units_trips;
        }
        false
    }

    fn note(&mut self, unit: &Unit, legs: Legs, items: &[Item]) {
        let (client, server) = (legs.client.unwrap_or(0), legs.server.unwrap_or(0));
        self.count += 1;
        self.is_redis = unit.is_redis;
        self.trips += unit.trips.len() as u64;
        self.trips_max = self.trips_max.max(unit.trips.len() as u64);
        self.exchanges += unit.exchanges.len() as u64;
        *self.boundaries.entry(unit.boundary).or_default() += 1;
        for trip in &unit.trips {
            let whole = trip.end - trip.begin;
            self.network += whole.min(server);
            self.server += whole.saturating_sub(server);
        }
        let mut at = 0;
        for pair in unit.trips.windows(2) {
            let gap = pair[1].begin.saturating_sub(pair[0].end);
            self.network += gap.min(client);
            self.program += gap.saturating_sub(client);
            at += pair[0].exchanges as usize;
            if at
                .checked_sub(1)
                .and_then(|at| unit.exchanges.get(at))
                .is_some_and(|it| it.in_transaction)
            {
                self.idle_in_transaction += gap;
            }
        }
        if self.endpoint.is_none() {
            self.endpoint = unit.exchanges.iter().find_map(|it| it.endpoint.clone());
        }
        self.note_times(unit, client, server);
        self.note_statements(unit, items);
    }

    /// A server answers in order: each statement has the time since the answer before it.
    fn note_times(&mut self, unit: &Unit, client: Nanos, server: Nanos) {
        let (mut exchanges, mut before) = (unit.exchanges.iter(), None);
        for trip in &unit.trips {
            let gap = before.map_or(0, |end| trip.begin.saturating_sub(end));
            let network = (trip.end - trip.begin).min(server);
            before = Some(trip.end);
            let mut of_trip: Vec<_> = exchanges
                .by_ref()
                .take(trip.exchanges as usize)
                .map(|it| (Some(it.text), it.end))
                .collect();
            match of_trip.last_mut() {
                Some(last) => last.1 = trip.end,
                None => of_trip.push((None, trip.end)),
            }
            let mut at = trip.begin + network;
            for (n, (text, end)) in of_trip.into_iter().enumerate() {
                let is_kept = self.times.len() < TIMES_MAX || self.times.contains_key(&text);
                let times = self.times.entry(text.filter(|_| is_kept)).or_default();
                times.count += 1;
                if n == 0 {
                    times.trips += 1;
                    times.network += network + gap.min(client);
                    times.program += gap.saturating_sub(client);
                }
                times.server += end.saturating_sub(at);
                at = at.max(end);
            }
        }
    }

    fn note_statements(&mut self, unit: &Unit, items: &[Item]) {
        for (exchange, item) in unit.exchanges.iter().zip(items) {
            if exchange.parses && !exchange.is_named && !exchange.kind.is_protocol() {
                *self.parsed.entry(exchange.text).or_default() += 1;
            }
            if item.is_repeat {
                *self.duplicates.entry(exchange.text).or_default() += 1;
            }
        }
    }

    /// The mean of trips over all units, with what is taken as proved.
    pub(crate) fn least(&self, learner: &Learner, mode: Mode) -> f64 {
        let of = |example: &Example| {
            let trips = least::trips(example.items.len(), |a, b| {
                least::waits(example.label(learner, self.is_redis, a, b), mode)
            });
            let least = trips.last().map_or(0, |last| last + 1);
            // Trips of which nothing could be read stay, and no way needs more than there were.
            let unread = example.trips.iter().filter(|it| it.exchanges == 0).count() as u32;
            f64::from((least + unread).min(example.trips.len() as u32))
        };
        let sum: f64 = self.examples.iter().map(|it| of(it) * it.weight()).sum();
        sum / self.count.max(1) as f64
    }

    pub(crate) fn name(&self, texts: &Texts) -> String {
        if let Some(endpoint) = &self.endpoint {
            return endpoint.to_string();
        }
        let Some(example) = self.examples.first() else { return "(no statements)".to_owned() };
        let first = example.items.iter().find(|it| !it.kind.is_protocol());
        let first = first.or(example.items.first());
        first.map_or_else(|| "(unread)".to_owned(), |it| texts.get(it.text).text.to_string())
    }
}

/// Marks reads that had the text, the inputs and the class of result of one before them, with no
/// write between, and exchanges with the inputs of the one of their text before them.
fn mark_repeats(exchanges: &[Exchange], items: &mut [Item]) {
    let mut read: Vec<&Exchange> = Vec::new();
    let mut last: HashMap<TextId, &Exchange> = HashMap::new();
    for (exchange, item) in exchanges.iter().zip(items) {
        let before = last.insert(exchange.text, exchange);
        item.is_again = before.is_some_and(|it| it.inputs == exchange.inputs);
        match exchange.kind {
            Kind::Read => {
                let same = |it: &&Exchange| {
                    it.text == exchange.text
                        && it.inputs == exchange.inputs
                        && it.answer.class == exchange.answer.class
                };
                item.is_repeat = read.iter().any(same);
                if !item.is_repeat {
                    read.push(exchange);
                }
            }
            Kind::Write | Kind::Copy | Kind::Rollback => read.clear(),
            _ => {}
        }
    }
}

impl Example {
    /// How many of itself its units come to, by their trips.
    pub(crate) fn weight(&self) -> f64 {
        match self.trips.len() {
            0 => self.units as f64,
            trips => self.units_trips as f64 / trips as f64,
        }
    }

    /// The trip of each item.
    pub(crate) fn trips_now(&self) -> Vec<usize> {
        let of = |it: &Item| self.trips.partition_point(|trip| trip.begin <= it.begin);
        self.items.iter().map(|it| of(it).saturating_sub(1)).collect()
    }

    /// What stands between two of its exchanges.
    pub(crate) fn label(&self, learner: &Learner, is_redis: bool, a: usize, b: usize) -> Label {
        let (a, b) = (&self.items[a], &self.items[b]);
        let is_early = b.begin < a.end + self.client_leg;
        least::label(a, b, is_redis, is_early, || match (a.step, b.step) {
            (Some(from), Some(to)) => learner.link((a.text, from), (b.text, to)),
            _ => Link::Unknown,
        })
    }

    pub(crate) fn step(&self, at: usize) -> Option<(TextId, Step)> {
        let item = self.items.get(at)?;
        Some((item.text, item.step?))
    }
}
