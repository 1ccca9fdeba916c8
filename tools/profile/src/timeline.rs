//! Units with their times, of two parts of the run: how it began, and its busiest second.

use std::collections::{BTreeMap, BTreeSet};

use crate::piece::Nanos;
use crate::shape::Example;

/// A unit as it was.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) connection: u64,
    pub(crate) is_redis: bool,
    /// The key of its shape.
    pub(crate) shape: u64,
    /// What a trip takes on the network at least.
    pub(crate) network: Nanos,
    pub(crate) example: Example,
}

/// The parts that are kept.
#[derive(Debug, Default)]
pub(crate) struct Timelines {
    pub(crate) first: Window,
    /// The part behind the first one that had most trips of those that are over.
    pub(crate) busiest: Window,
    /// By their second. Units come when they have ended, so some are open at a time.
    open: BTreeMap<u64, Window>,
    is_first_over: bool,
}

/// Units of one part.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) kept: Vec<Kept>,
    /// Units that had no room.
    pub(crate) left_out: u64,
    connections: BTreeSet<u64>,
    /// Trips and statements that are kept.
    weight: usize,
    trips: usize,
}

const SECOND: Nanos = 1_000_000_000;
/// The longest first part.
const FIRST_MAX: Nanos = 10 * SECOND;
const OPEN_MAX: usize = 3;
/// Trips and statements of a part: five parts together have 0.5 MB.
const WEIGHT_MAX: usize = 1_000;
const CONNECTIONS_MAX: usize = 48;
/// Statements of a unit.
const STATEMENTS_MAX: usize = 200;

impl Timelines {
    pub(crate) fn add(&mut self, mut unit: Kept) {
        let Some(begin) = unit.begin() else { return };
        let trips = unit.example.trips.len();
        cut(&mut unit.example);
        if !self.is_first_over {
            let began = self.first.kept.first().and_then(Kept::begin).unwrap_or(begin);
            self.is_first_over = begin.saturating_sub(began) > FIRST_MAX
                || self.first.weight + unit.weight() > WEIGHT_MAX && !self.first.kept.is_empty();
        }
        if !self.is_first_over {
            return self.first.add(unit, trips);
        }
        self.open.entry(begin / SECOND).or_default().add(unit, trips);
        if self.open.len() > OPEN_MAX {
            self.close_oldest();
        }
    }

    fn close_oldest(&mut self) {
        if let Some((_, window)) = self.open.pop_first()
            && window.trips > self.busiest.trips
        {
            self.busiest = window;
        }
    }

    /// The run is over.
    pub(crate) fn close(&mut self) {
        while !self.open.is_empty() {
            self.close_oldest();
        }
    }
}

impl Window {
    fn add(&mut self, unit: Kept, trips: usize) {
        self.trips += trips;
        let weight = unit.weight();
        let is_known = self.connections.contains(&unit.connection);
        let has_room = self.weight + weight <= WEIGHT_MAX || self.kept.is_empty();
        if !has_room || (!is_known && self.connections.len() >= CONNECTIONS_MAX) {
            self.left_out += 1;
            return;
        }
        self.connections.insert(unit.connection);
        self.weight += weight;
        self.kept.push(unit);
    }
}

impl Kept {
    fn begin(&self) -> Option<Nanos> {
        self.example.trips.first().map(|it| it.begin)
    }

    fn weight(&self) -> usize {
        self.example.trips.len() + self.example.items.len()
    }
}

/// The first statements of a unit, and their trips.
fn cut(example: &mut Example) {
    example.items.truncate(STATEMENTS_MAX);
    example.trips.truncate(STATEMENTS_MAX);
    if example.items.len() == STATEMENTS_MAX
        && let Some(end) = example.items.iter().map(|it| it.end).max()
    {
        example.trips.retain(|it| it.begin < end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Trip;

    fn unit(connection: u64, begin: Nanos, trips: usize) -> Kept {
        let trip = Trip { begin, end: begin + 1000, up: 1, down: 1, exchanges: 0 };
        let example = Example {
            items: Vec::new(),
            trips: vec![trip; trips],
            client_leg: 0,
            units: 1,
            units_trips: trips as u64,
        };
        Kept { connection, is_redis: false, shape: 1, network: 1000, example }
    }

    #[test]
    fn the_beginning_and_the_busiest_second_behind_it_are_kept() {
        let mut timelines = Timelines::default();
        for second in 0..60 {
            for n in 0..if second == 42 { 30 } else { 3 } {
                timelines.add(unit(n, second * SECOND + n, 2));
            }
        }
        timelines.close();
        assert_eq!(timelines.first.kept.len(), 31, "those of ten seconds");
        assert_eq!(timelines.busiest.kept.len(), 30);
        assert_eq!(timelines.busiest.kept[0].begin(), Some(42 * SECOND));
    }

    #[test]
    fn a_part_has_a_bounded_number_of_units_and_connections() {
        let mut timelines = Timelines::default();
        for n in 0..1_000_000 {
            timelines.add(unit(n % 1000, n * 1000, 1));
        }
        timelines.close();
        for it in [&timelines.first, &timelines.busiest] {
            assert!(it.kept.len() <= WEIGHT_MAX && it.connections.len() <= CONNECTIONS_MAX);
            assert!(it.left_out > 0);
        }
        assert!(timelines.open.is_empty());
    }
}
