//! What was found, as it is written to `profile.json`.

use serde::{Deserialize, Serialize};

/// The version of this schema.
pub const VERSION: u32 = 1;

/// All kinds of findings.
pub const KINDS: [&str; 10] = [
    "n+1",
    "loop",
    "independent",
    "redis-run",
    "read-then-write",
    "duplicate",
    "protocol",
    "parse",
    "idle",
    "connections",
];

/// Everything that was found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Profile {
    /// [`VERSION`].
    pub version: u32,
    /// When the first byte passed, in nanoseconds since 1970, where the source knows the time of
    /// day; otherwise since the moment that it counts from.
    pub began_unix_ns: u64,
    /// From the first byte to the last, in seconds.
    pub seconds: f64,
    /// Connections that were seen.
    pub connections: u64,
    /// Units of work, and exchanges in them: requests with their answers.
    pub units: u64,
    /// See `units`.
    pub exchanges: u64,
    /// Connections that could not be read, wholly or in part, by why.
    pub opaque: Vec<(String, u64)>,
    /// Pieces of traffic that were not analysed, since the analysis could not keep up.
    pub lossy: u64,
    /// One line about what was not analysed, and why.
    #[serde(default)]
    pub incomplete: Option<String>,
    /// The least round trip in milliseconds, where it is known.
    pub rtt_ms: Option<f64>,
    /// The least and the most that the round trip can be: a proxy in the path hides how far the
    /// server is behind it, and the shortest trip bounds that.
    pub rtt_range_ms: Option<[f64; 2]>,
    /// Where `rtt_ms` comes from: `handshake` (or what the system measured); `least cheap trip` or
    /// `least of many trips`, where a proxy hides the server; `least trip` where nobody measured.
    pub rtt_source: String,
    /// Trips of all units.
    pub trips: Trips,
    /// What can't be known of this run.
    pub notes: Vec<Note>,
    /// The share of pairs of statements, of those that waited, of which it is not known whether
    /// they had to: from 0 to 1.
    pub unknown: f64,
    /// Where the time of all units went.
    pub time: Time,
    /// Shapes of units, those with most trips first; at most 1,000.
    pub shapes: Vec<Shape>,
    /// Shapes that are not in `shapes`. Their trips and their time are in the sums.
    pub shapes_left_out: u64,
    /// What could be saved, the most first; at most 1,000.
    pub findings: Vec<Finding>,
    /// Findings that are not in `findings`.
    pub findings_left_out: u64,
    /// Units with their times, of two parts of the run.
    pub timelines: Vec<Timeline>,
}

/// What can't be known, beside the number that it concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The number: `units`, `unknown`, `proven`, `round trip`.
    pub about: String,
    /// A sentence or two.
    pub text: String,
}

/// Numbers of trips: of a whole run, or the mean of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trips {
    /// As it was.
    pub now: f64,
    /// With nothing but waits of the protocol folded.
    pub wire: f64,
    /// Also with statements that were seen to be independent.
    pub proven: f64,
    /// At best: with all that is unknown taken as independent.
    pub floor: f64,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// On the network.
    pub network_ms: f64,
    /// In the server and its queues, and in transferring.
    pub server_ms: f64,
    /// In the program, between two trips.
    pub program_ms: f64,
}

/// Units with the same statements in the same order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Shape {
    /// Its number, by which findings name it.
    pub id: u32,
    /// The endpoint where a comment says it, or else the first statement.
    pub name: String,
    /// Units of it.
    pub count: u64,
    /// Of Redis, or of PostgreSQL.
    pub is_redis: bool,
    /// The mean of a unit.
    pub trips: Trips,
    /// The most that a unit took.
    #[serde(default)]
    pub trips_max: u64,
    /// The sum of all units.
    pub time: Time,
    /// How units were told apart, and how often.
    pub boundaries: Vec<(String, u64)>,
    /// Where the time of `time` went, by statement: at most 64 of them, and the others.
    pub by_statement: Vec<StatementTime>,
    /// The statements of one unit: at most 200, and 20,000 of all shapes together.
    pub example: Vec<Statement>,
    /// Statements of that unit that are not in `example`.
    pub example_left_out: u64,
}

/// Where the time of a statement went, over all units of a shape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatementTime {
    /// Without literals; `(others)` for those that are not kept apart or could not be read.
    pub text: String,
    /// How often it ran.
    pub count: u64,
    /// Trips that began with it. The network's time of a trip and the program's time before it
    /// count for its first statement.
    pub trips: u64,
    /// The sums.
    pub time: Time,
}

/// A statement of an example.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Statement {
    /// Without literals.
    pub text: String,
    /// What it is for: `read`, `write`, `begin` and so on.
    pub kind: String,
    /// When it left and when its answer was whole, in milliseconds since the unit began.
    pub begin_ms: f64,
    /// See `begin_ms`.
    pub end_ms: f64,
    /// Rows of its answer.
    pub rows: u64,
    /// What stands between it and the statement before it: `overlapped`, `protocol`, `pinned`,
    /// `value`, `control`, `independent`, `unknown`, or nothing for the first.
    pub label: String,
    /// Units and classes of results in which it was seen to be independent.
    pub evidence: Option<(u32, u32)>,
    /// Its trip as it was, with what is proven folded, and at best.
    pub trip: [u32; 3],
    /// Statements before it, by their place in the example, of whose results it takes values.
    pub values_of: Vec<u32>,
}

/// What could be saved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind, one of [`KINDS`].
    pub kind: String,
    /// The shape of the units that it is found in.
    pub shape: Option<u32>,
    /// One line: what happens.
    pub title: String,
    /// Why that is said.
    pub evidence: String,
    /// What to mind when it is mended, if anything.
    pub note: String,
    /// How often, over the whole run.
    pub count: u64,
    /// Trips that the whole run would save. No trip is counted in two findings: those of all
    /// findings that fold trips come to `now − floor` at most. `duplicate`, `read-then-write` and
    /// `connections` need a change of the program, and save what no folding does.
    pub saves_trips: f64,
    /// The same in milliseconds, at the measured round trip.
    pub saves_ms: f64,
    /// The statements concerned, without literals.
    pub statements: Vec<String>,
    /// What to do with any driver.
    pub with_any_driver: String,
    /// What to do with onetrip.
    pub with_onetrip: String,
}

/// A part of the run, as it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// `first`, or `busiest` for the second with most trips of those behind the first part.
    pub what: String,
    /// From the first trip to the last, in milliseconds since the run began.
    pub begin_ms: f64,
    /// See `begin_ms`.
    pub end_ms: f64,
    /// Units of that time that are not in it: it has at most 48 connections, 1,000 trips and
    /// statements, and of a unit the first 200 statements.
    pub units_left_out: u64,
    /// The texts of statements, without literals.
    pub texts: Vec<String>,
    /// Connections.
    pub lanes: Vec<Lane>,
}

/// Units of one connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// Its number, as the source gave it.
    pub connection: u64,
    /// Of Redis, or of PostgreSQL.
    pub is_redis: bool,
    /// In the order of time.
    pub units: Vec<LaneUnit>,
}

/// A unit with its times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneUnit {
    /// Its shape, unless that was left out.
    pub shape: Option<u32>,
    /// In the order of time.
    pub trips: Vec<LaneTrip>,
    /// In the order in which they were sent.
    pub statements: Vec<LaneStatement>,
    /// Pairs of statements, by their places: the second one took a value of the first one's result.
    pub links: Vec<(u32, u32)>,
}

/// A trip, in milliseconds since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneTrip {
    /// When its first byte left, and when its last answer was whole.
    pub begin_ms: f64,
    /// See `begin_ms`.
    pub end_ms: f64,
    /// The part of it that is the network's.
    pub network_ms: f64,
}

/// A statement, in milliseconds since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneStatement {
    /// Its place in [`Timeline::texts`].
    pub text: u32,
    /// When it left, and when its answer was whole.
    pub begin_ms: f64,
    /// See `begin_ms`.
    pub end_ms: f64,
    /// Rows of its answer.
    pub rows: u64,
    /// The server refused it.
    pub has_failed: bool,
}
