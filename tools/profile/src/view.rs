//! Where time went and when, as a [`Profile`](crate::Profile) shows it.

use std::collections::{BTreeMap, HashMap};

use crate::exchange::Texts;
use crate::learn::{Learner, Link};
use crate::piece::Nanos;
use crate::profile::{Lane, LaneStatement, LaneTrip, LaneUnit, StatementTime, Time, Timeline};
use crate::shape::{Example, Shape, Times};
use crate::timeline::{Kept, Timelines, Window};

/// What it is shown with.
pub(crate) struct View<'a> {
    pub(crate) texts: &'a Texts,
    pub(crate) learner: &'a Learner,
    /// When the run began.
    pub(crate) begin: Nanos,
}

/// Places before a statement that its values are looked for in.
const PLACES_MAX: usize = 32;

impl View<'_> {
    /// `hidden` is what a trip took on the network beyond what its connection had measured.
    pub(crate) fn by_statement(&self, shape: &Shape, hidden: Nanos) -> Vec<StatementTime> {
        let text = |id| self.texts.get(id).text.to_string();
        let of = |(id, it): (&Option<_>, &Times)| {
            let hidden = (hidden * it.trips).min(it.server);
            StatementTime {
                text: id.map_or_else(|| "(others)".to_owned(), text),
                count: it.count,
                trips: it.trips,
                time: Time {
                    network_ms: ms(it.network + hidden),
                    server_ms: ms(it.server - hidden),
                    program_ms: ms(it.program),
                },
            }
        };
        shape.times.iter().map(of).collect()
    }

    /// Earlier statements of an example that one of it takes values from: of a loop, its last
    /// round.
    pub(crate) fn values_of(&self, example: &Example, at: usize) -> Vec<u32> {
        let Some(to) = example.step(at) else { return Vec::new() };
        let (mut places, mut of) = (Vec::new(), Vec::new());
        for before in (0..at).rev() {
            let Some(from) = example.step(before) else { continue };
            if places.contains(&from.1.place) {
                continue;
            }
            if places.len() == PLACES_MAX {
                break;
            }
            places.push(from.1.place);
            if self.learner.link(from, to) == Link::Strong {
                of.push(before as u32);
            }
        }
        of.reverse();
        of
    }

    /// `shapes` has the numbers of shapes by their keys.
    pub(crate) fn timelines(&self, kept: &Timelines, shapes: &HashMap<u64, u32>) -> Vec<Timeline> {
        [("first", &kept.first), ("busiest", &kept.busiest)]
            .into_iter()
            .filter(|(_, window)| !window.kept.is_empty())
            .map(|(what, window)| self.timeline(what, window, shapes))
            .collect()
    }

    fn timeline(&self, what: &str, window: &Window, shapes: &HashMap<u64, u32>) -> Timeline {
        let (mut texts, mut lanes) = (Numbers::default(), BTreeMap::<u64, Lane>::new());
        for unit in &window.kept {
            let lane = lanes.entry(unit.connection).or_default();
            (lane.connection, lane.is_redis) = (unit.connection, unit.is_redis);
            let shape = shapes.get(&unit.shape).copied();
            lane.units.push(self.unit(unit, shape, &mut texts));
        }
        let trips = window.kept.iter().flat_map(|it| &it.example.trips);
        let (begin, end) =
            trips.fold((Nanos::MAX, 0), |(begin, end), it| (begin.min(it.begin), end.max(it.end)));
        Timeline {
            what: what.to_owned(),
            begin_ms: self.ms(begin),
            end_ms: self.ms(end),
            units_left_out: window.left_out,
            texts: texts.all,
            lanes: lanes.into_values().collect(),
        }
    }

    fn unit(&self, unit: &Kept, shape: Option<u32>, texts: &mut Numbers) -> LaneUnit {
        let trips = unit.example.trips.iter().map(|it| LaneTrip {
            begin_ms: self.ms(it.begin),
            end_ms: self.ms(it.end),
            network_ms: ms((it.end - it.begin).min(unit.network)),
        });
        let statements = unit.example.items.iter().map(|it| LaneStatement {
            text: texts.of(&self.texts.get(it.text).text),
            begin_ms: self.ms(it.begin),
            end_ms: self.ms(it.end),
            rows: it.rows,
            has_failed: it.has_failed,
        });
        let links = (0..unit.example.items.len()).flat_map(|to| {
            let of = self.values_of(&unit.example, to);
            of.into_iter().map(move |from| (from, to as u32))
        });
        LaneUnit {
            shape,
            trips: trips.collect(),
            statements: statements.collect(),
            links: links.collect(),
        }
    }

    fn ms(&self, at: Nanos) -> f64 {
        ms(at.saturating_sub(self.begin))
    }
}

/// Texts by their numbers.
#[derive(Default)]
struct Numbers {
    known: HashMap<String, u32>,
    all: Vec<String>,
}

impl Numbers {
    fn of(&mut self, text: &str) -> u32 {
        if let Some(number) = self.known.get(text) {
            return *number;
        }
        let number = self.all.len() as u32;
        self.all.push(text.to_owned());
        self.known.insert(text.to_owned(), number);
        number
    }
}

/// Nanoseconds as milliseconds.
pub(crate) fn ms(nanos: Nanos) -> f64 {
    nanos as f64 / 1e6
}
