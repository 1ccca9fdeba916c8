//! Which round trips a program could save.
//!
//! [`Profiler`] is fed the bytes of both directions of any number of connections, each with the
//! time at which it passed, by a proxy or from a capture. It has no I/O and no clock. It reads
//! PostgreSQL's and Redis' protocols, counts trips, tells units of work apart, and says of
//! statements that waited for one another whether they had to. [`Profiler::finish`] returns a
//! [`Profile`].
//!
//! Of values nothing is kept but hashes under a key that dies with the run, of texts nothing but
//! what is left without literals, and of logins nothing at all. Memory is bounded.
//!
//! The data travels so:
//!
//! - `wire` makes exchanges (a request and its answer) of bytes.
//! - `unit` makes trips and units of exchanges.
//! - `steps` finds loops in a unit; `learn` notes what followed what, and where values came from.
//! - `shape` keeps units that do the same together, with some examples.
//! - `timeline` keeps units with their times, of two parts of the run; `view` shows them.
//! - `least` counts the trips that would do; `finding` says what could be saved, and how.
//! - [`report`] writes it all as a page for people, and as files for other tools.

pub mod capture;
mod exchange;
mod finding;
mod learn;
mod least;
mod piece;
mod profile;
pub mod report;
mod round;
mod rows;
mod shape;
mod steps;
mod timeline;
mod unit;
mod value;
mod view;
mod wire;

use std::collections::HashMap;

use exchange::{Kind, Shared};
use finding::{Known, Measured, measured};
use learn::{Learner, Link};
use least::{Label, Mode};
pub use piece::{Legs, Nanos, Piece, Side};
pub use profile::{
    Finding, KINDS, Lane, LaneStatement, LaneTrip, LaneUnit, Note, Profile, Shape, Statement,
    StatementTime, Time, Timeline, Trips, VERSION,
};
use round::Round;
use shape::{Example, Shapes};
use timeline::{Kept, Timelines};
pub use unit::Boundary;
use unit::{Conversation, Gaps, Unit};
use view::{View, ms};
pub use wire::Opaque;

/// The analysis of one run.
#[derive(Debug)]
pub struct Profiler {
    shared: Shared,
    open: HashMap<u64, Conversation>,
    gaps: Gaps,
    learner: Learner,
    shapes: Shapes,
    timelines: Timelines,
    counts: Counts,
    /// When the moment was that times are told from, in nanoseconds since 1970.
    zero: Nanos,
    /// What times count from here.
    begin: Option<Nanos>,
    first: Nanos,
    end: Nanos,
    /// The round trips of PostgreSQL's connections, and of Redis'.
    rounds: [Round; 2],
    /// The least of all connections.
    measured: Legs,
}

#[derive(Debug, Default)]
struct Counts {
    connections: u64,
    trips: u64,
    logins: u64,
    units: u64,
    exchanges: u64,
    lossy: u64,
    opaque: std::collections::BTreeMap<Opaque, u64>,
}

/// A minute, and a hundred days.
const BEFORE: Nanos = 60_000_000_000;
const TIME_MAX: Nanos = 1 << 53;

/// Shapes and findings of a profile, and statements of an example and of all examples.
const SHAPES_MAX: usize = 1_000;
const FINDINGS_MAX: usize = 1_000;
const STATEMENTS_MAX: usize = 200;
const STATEMENTS_ALL_MAX: usize = 20_000;

impl Default for Profiler {
    fn default() -> Profiler {
        Profiler::new()
    }
}

impl Profiler {
    /// An analysis with a key of its own for values.
    #[must_use]
    pub fn new() -> Profiler {
        Profiler {
            shared: Shared::new(),
            open: HashMap::new(),
            gaps: Gaps::default(),
            learner: Learner::default(),
            shapes: Shapes::default(),
            timelines: Timelines::default(),
            counts: Counts::default(),
            zero: 0,
            begin: None,
            first: Nanos::MAX,
            end: 0,
            rounds: Default::default(),
            measured: Legs::default(),
        }
    }

    /// When the moment was that times count from, in nanoseconds since 1970. A source whose times
    /// are such already need not say it.
    pub fn zero_is(&mut self, unix: Nanos) {
        self.zero = unix;
    }

    /// Round trips of the network, by the handshake of a connection or the system's own
    /// measurement. They may be told again, and the least count.
    pub fn rtt(&mut self, connection: u64, legs: Legs) {
        self.measured = self.measured.least(legs);
        let conversation = self.conversation(connection);
        conversation.legs = conversation.legs.least(legs);
    }

    /// Bytes that have passed.
    pub fn piece(&mut self, piece: Piece<'_>) {
        let at = self.since_begin(piece.at);
        self.end = self.end.max(at);
        self.conversation(piece.connection);
        let Some(conversation) = self.open.get_mut(&piece.connection) else { return };
        let read = (at, piece.from, piece.bytes);
        let unit = conversation.read(&mut self.shared, &mut self.gaps, read);
        if let Some(unit) = unit {
            self.unit(piece.connection, &unit);
        }
    }

    /// Texts are shown as they were sent, with their literals. By default they are shown without.
    pub fn show_values(&mut self, shows: bool) {
        self.shared.shows_values = shows;
    }

    /// A connection was open before anything was seen of it, so its first bytes may be any.
    pub fn midway(&mut self, connection: u64) {
        self.conversation(connection).decoder.begin_midway();
    }

    /// Bytes of a connection are missing: what follows can't be read until nothing can be in
    /// flight. What could not be read is told by [`Profile::opaque`].
    pub fn missing(&mut self, connection: u64) {
        self.counts.lossy += 1;
        self.conversation(connection).decoder.lose();
    }

    /// A connection is over.
    pub fn closed(&mut self, connection: u64) {
        let Some(mut conversation) = self.open.remove(&connection) else { return };
        for unit in conversation.close(&mut self.shared, &mut self.gaps) {
            self.unit(connection, &unit);
        }
        self.count(&conversation);
    }

    /// Times count from a while before the first, since another connection may have begun earlier.
    /// No sum of them overflows, whatever a capture says.
    fn since_begin(&mut self, at: Nanos) -> Nanos {
        let begin = *self.begin.get_or_insert(at.saturating_sub(BEFORE));
        let since = at.saturating_sub(begin).min(TIME_MAX);
        self.first = self.first.min(since);
        since
    }

    /// When the first piece passed, in nanoseconds since 1970.
    fn began(&self) -> u64 {
        let since = if self.first == Nanos::MAX { 0 } else { self.first };
        self.zero.saturating_add(self.begin.unwrap_or(0)).saturating_add(since)
    }

    fn count(&mut self, conversation: &Conversation) {
        if conversation.is_cancel {
            return;
        }
        self.counts.connections += 1;
        self.counts.trips += conversation.trips;
        self.counts.logins += conversation.logins;
        if let Some(why) = conversation.opaque() {
            *self.counts.opaque.entry(why).or_default() += 1;
        }
    }

    fn conversation(&mut self, connection: u64) -> &mut Conversation {
        self.open.entry(connection).or_insert_with(Conversation::new)
    }

    fn unit(&mut self, connection: u64, unit: &Unit) {
        self.counts.units += 1;
        self.counts.exchanges += unit.exchanges.len() as u64;
        let legs = unit.legs.or(self.measured);
        self.rounds[usize::from(unit.is_redis)].add(unit, legs);
        let (shape, example) = self.shapes.add(unit, &self.shared.values, &mut self.learner, legs);
        let (is_redis, network) = (unit.is_redis, legs.server.unwrap_or(0));
        self.timelines.add(Kept { connection, is_redis, shape, network, example });
    }

    /// How many trips all connections have made so far, those that are open included.
    #[must_use]
    pub fn trips(&self) -> u64 {
        self.counts.trips + self.open.values().map(|it| it.trips).sum::<u64>()
    }

    /// What was found. Connections that are open count as closed.
    #[must_use]
    pub fn finish(mut self) -> Profile {
        let open: Vec<u64> = self.open.keys().copied().collect();
        open.into_iter().for_each(|connection| self.closed(connection));
        self.timelines.close();
        self.snapshot(usize::MAX)
    }

    /// What was found so far in the shapes with most trips, so many of them. Units that have not
    /// ended are not in it.
    #[must_use]
    pub fn snapshot(&self, shapes_max: usize) -> Profile {
        let known = Known {
            texts: &self.shared.texts,
            learner: &self.learner,
            rows: &self.shapes.rows,
            rounds: &self.rounds,
        };
        // Where there are both, that of the protocol with more trips.
        let round = self.rounds.iter().max_by_key(|it| it.trips).filter(|it| it.trips > 0);
        let range = round.and_then(Round::range);
        let mut shapes: Vec<_> = self.shapes.all.iter().filter(|it| it.1.count > 0).collect();
        shapes.sort_by_key(|(key, it)| (std::cmp::Reverse((it.trips, it.count)), **key));
        let measured: Vec<_> = shapes
            .iter()
            .take(shapes_max)
            .zip(0..)
            .map(|((_, shape), id)| Measured { id, shape, trips: measured(shape, &self.learner) })
            .collect();
        let mut findings = known.findings(&measured, self.counts.logins, self.counts.units);
        let findings_left_out = findings.len().saturating_sub(FINDINGS_MAX) as u64;
        findings.truncate(FINDINGS_MAX);
        let shown = &measured[..measured.len().min(SHAPES_MAX)];
        let numbers = shapes.iter().zip(shown).map(|(it, of)| (*it.0, of.id)).collect();
        let view = View { texts: &self.shared.texts, learner: &self.learner, begin: self.first };
        let mut room = STATEMENTS_ALL_MAX;
        Profile {
            version: VERSION,
            began_unix_ns: self.began(),
            seconds: self.end.saturating_sub(self.first) as f64 / 1e9,
            connections: self.counts.connections + self.open.len() as u64,
            units: self.counts.units,
            exchanges: self.counts.exchanges,
            opaque: self.counts.opaque.iter().map(|(why, n)| (word(*why), *n)).collect(),
            lossy: self.counts.lossy,
            incomplete: None,
            rtt_ms: round.and_then(Round::estimate).map(ms),
            rtt_range_ms: range.map(|range| range.map(ms)),
            rtt_source: round.map_or("", Round::source).to_owned(),
            trips: sum(&measured, self.trips()),
            notes: self.notes(&measured, round),
            unknown: self.unknown(measured.iter()),
            time: self.time(measured.iter().map(|it| it.shape)),
            shapes_left_out: (measured.len() - shown.len()) as u64,
            shapes: shown.iter().map(|it| self.shape(it, &view, &mut room)).collect(),
            findings,
            findings_left_out,
            timelines: view.timelines(&self.timelines, &numbers),
        }
    }

    /// The share of unknown among pairs of statements one after another that waited.
    fn unknown<'a>(&self, shapes: impl Iterator<Item = &'a Measured<'a>>) -> f64 {
        let (mut unknown, mut all) = (0.0, 0.0);
        for it in shapes {
            for example in &it.shape.examples {
                let weight = example.weight();
                for b in 1..example.items.len() {
                    match example.label(&self.learner, it.shape.is_redis, b - 1, b) {
                        Label::Overlapped => continue,
                        Label::Data(Link::Unknown) => unknown += weight,
                        _ => {}
                    }
                    all += weight;
                }
            }
        }
        if all > 0.0 { unknown / all } else { 0.0 }
    }

    /// What can't be known.
    fn notes(&self, shapes: &[Measured<'_>], round: Option<&Round>) -> Vec<Note> {
        let mut notes = Vec::new();
        let mut note =
            |about: &str, text: String| notes.push(Note { about: about.to_owned(), text });
        let of_pool = |it: &Measured<'_>| it.shape.boundaries.get(&Boundary::Pool).copied();
        let pooled: u64 = shapes.iter().filter_map(of_pool).sum();
        if pooled > 0 {
            note(
                "units",
                format!(
                    "A pool hands connections from one user to the next ({pooled} times here). \
                    What one request of a program does on several connections is several units."
                ),
            );
        }
        if shapes.iter().any(|it| it.shape.is_redis) {
            let unknown = self.unknown(shapes.iter().filter(|it| it.shape.is_redis));
            note(
                "unknown",
                format!(
                    "Results of Redis are often small, and small values link weakly: {:.0} % of \
                    its pairs of commands are unknown.",
                    unknown * 100.0
                ),
            );
        }
        let proven = shapes.iter().any(|it| it.trips.proven + 0.01 < it.trips.wire);
        if proven {
            note(
                "proven",
                "A branch that was never taken is not seen: what is called independent followed \
                whatever came back, as often as its evidence says."
                    .to_owned(),
            );
        }
        if let Some((round, [least, most])) = round.and_then(|it| Some((it, it.range()?)))
            && round.source() != "handshake"
        {
            note(
                "round trip",
                format!(
                    "The round trip is between {:.3} and {:.3} ms: nobody measured all of the way \
                    to the server, and the shortest trip bounds it.",
                    ms(least),
                    ms(most)
                ),
            );
        }
        notes
    }

    fn time<'a>(&self, shapes: impl Iterator<Item = &'a shape::Shape>) -> Time {
        let mut time = Time::default();
        for shape in shapes {
            let hidden = self.rounds[usize::from(shape.is_redis)].hidden();
            let hidden = (hidden * shape.trips).min(shape.server);
            time.network_ms += ms(shape.network + hidden);
            time.server_ms += ms(shape.server - hidden);
            time.program_ms += ms(shape.program);
        }
        time
    }

    /// `room` is that for statements of examples.
    fn shape(&self, it: &Measured<'_>, view: &View<'_>, room: &mut usize) -> Shape {
        let boundaries = it.shape.boundaries.iter();
        let example = it.shape.examples.first();
        let all = example.map_or(0, |it| it.items.len());
        let shown = all.min(STATEMENTS_MAX).min(*room);
        *room -= shown;
        let hidden = self.rounds[usize::from(it.shape.is_redis)].hidden();
        Shape {
            id: it.id,
            name: it.shape.name(&self.shared.texts),
            count: it.shape.count,
            is_redis: it.shape.is_redis,
            trips: it.trips,
            trips_max: it.shape.trips_max,
            time: self.time(std::iter::once(it.shape)),
            boundaries: boundaries.map(|(it, n)| (format!("{it:?}").to_lowercase(), *n)).collect(),
            by_statement: view.by_statement(it.shape, hidden),
            example: example
                .map_or_else(Vec::new, |of| self.statements(view, of, it.shape.is_redis, shown)),
            example_left_out: (all - shown) as u64,
        }
    }

    fn statements(
        &self,
        view: &View<'_>,
        example: &Example,
        is_redis: bool,
        shown: usize,
    ) -> Vec<Statement> {
        let label = |a, b| example.label(&self.learner, is_redis, a, b);
        let trips = |mode| least::trips(shown, |a, b| least::waits(label(a, b), mode));
        let (proven, floor) = (trips(Mode::Proven), trips(Mode::Floor));
        let begin = example.trips.first().map_or(0, |it| it.begin);
        let ms = |at: Nanos| at.saturating_sub(begin) as f64 / 1e6;
        let now = example.trips_now();
        let mut statements = Vec::with_capacity(shown);
        for (at, item) in example.items.iter().take(shown).enumerate() {
            let label = at.checked_sub(1).map(|before| label(before, at));
            let evidence = match label {
                Some(Label::Data(Link::Independent { n, k })) => Some((n, k)),
                _ => None,
            };
            statements.push(Statement {
                text: self.shared.texts.get(item.text).text.to_string(),
                kind: kind(item.kind).to_owned(),
                begin_ms: ms(item.begin),
                end_ms: ms(item.end),
                rows: item.rows,
                label: label.map_or("", said).to_owned(),
                evidence,
                trip: [now[at] as u32, proven[at], floor[at]],
                values_of: view.values_of(example, at),
            });
        }
        statements
    }
}

fn sum(shapes: &[Measured<'_>], trips: u64) -> Trips {
    let sum = |of: fn(&Trips) -> f64| -> f64 {
        shapes.iter().map(|it| of(&it.trips) * it.shape.count as f64).sum()
    };
    Trips {
        now: trips as f64,
        wire: sum(|it| it.wire),
        proven: sum(|it| it.proven),
        floor: sum(|it| it.floor),
    }
}

fn said(label: Label) -> &'static str {
    match label {
        Label::Overlapped => "overlapped",
        Label::Folds => "protocol",
        Label::Pinned => "pinned",
        Label::Data(Link::Strong) => "value",
        Label::Data(Link::Control) => "control",
        Label::Data(Link::Independent { .. }) => "independent",
        Label::Data(Link::Unknown) => "unknown",
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Login => "login",
        Kind::Prepare => "prepare",
        Kind::Begin => "begin",
        Kind::Commit => "commit",
        Kind::Rollback => "rollback",
        Kind::Savepoint => "savepoint",
        Kind::Session => "session",
        Kind::Ping => "ping",
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Copy => "copy",
        Kind::Wait => "wait",
        Kind::Watch => "watch",
    }
}

fn word(why: Opaque) -> String {
    let word = match why {
        Opaque::Encrypted => "encrypted",
        Opaque::Unknown => "neither PostgreSQL nor Redis",
        Opaque::Incomplete => "begun in the middle, or with bytes missing",
        Opaque::Replication => "replication",
    };
    word.to_owned()
}
