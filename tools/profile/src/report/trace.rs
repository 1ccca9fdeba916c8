//! Trace events in Chrome's format, which <https://ui.perfetto.dev> opens.

use serde_json::{Value, json};

use super::{cut, name, turns, units};
use crate::profile::{LaneTrip, LaneUnit, Profile, Timeline};

/// Characters of a name; the whole text is an argument.
const WIDTH: usize = 80;

/// `trace.perfetto.json`: a thread for each connection, with units, in these trips, in these
/// statements, and flows where a statement took a value of an earlier one's result.
#[must_use]
pub fn trace(profile: &Profile) -> String {
    let (mut events, mut known) = (vec![named("process_name", 0, "onetrip profile")], Vec::new());
    let mut flow = 0_u64;
    for (timeline, lane, unit) in units(profile) {
        if !known.contains(&lane.connection) {
            known.push(lane.connection);
            let kind = if lane.is_redis { "Redis" } else { "PostgreSQL" };
            let name = format!("connection {}, {kind}", lane.connection);
            events.push(named("thread_name", lane.connection, &name));
        }
        let (Some(first), Some(last)) = (unit.trips.first(), unit.trips.last()) else { continue };
        let of = Track { connection: lane.connection };
        let arguments = json!({ "shape": unit.shape, "trips": unit.trips.len() });
        let whole = (first.begin_ms, last.end_ms);
        events.push(of.slice("unit", &cut(name(profile, unit), WIDTH), whole, arguments));
        trips(&of, unit, &mut events);
        statements(&of, timeline, unit, &mut events);
        flows(&of, unit, &mut flow, &mut events);
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events }).to_string()
}

struct Track {
    connection: u64,
}

impl Track {
    fn slice(&self, kind: &str, name: &str, (begin, end): (f64, f64), arguments: Value) -> Value {
        let (begin, end) = (micros(begin), micros(end));
        json!({
            "ph": "X", "cat": kind, "name": name, "pid": 1, "tid": self.connection,
            "ts": begin, "dur": (end - begin).max(0.0), "args": arguments,
        })
    }
}

fn trips(of: &Track, unit: &LaneUnit, events: &mut Vec<Value>) {
    for LaneTrip { begin_ms, end_ms, network_ms } in &unit.trips {
        let arguments = json!({
            "network_ms": network_ms, "server_ms": (end_ms - begin_ms - network_ms).max(0.0),
        });
        events.push(of.slice("trip", "trip", (*begin_ms, *end_ms), arguments));
    }
}

fn statements(of: &Track, timeline: &Timeline, unit: &LaneUnit, events: &mut Vec<Value>) {
    for (it, turn) in unit.statements.iter().zip(turns(unit)) {
        let text = timeline.texts.get(it.text as usize).map_or("", String::as_str);
        let arguments = json!({ "text": text, "rows": it.rows, "failed": it.has_failed });
        events.push(of.slice("statement", &cut(text, WIDTH), turn, arguments));
    }
}

/// From the end of one statement to the beginning of the other.
fn flows(of: &Track, unit: &LaneUnit, flow: &mut u64, events: &mut Vec<Value>) {
    let turns = turns(unit);
    for (from, to) in &unit.links {
        let (Some(from), Some(to)) = (turns.get(*from as usize), turns.get(*to as usize)) else {
            continue;
        };
        *flow += 1;
        let end = |phase: &str, at: f64| {
            json!({
                "ph": phase, "cat": "value", "name": "value", "id": *flow, "pid": 1,
                "tid": of.connection, "ts": at, "bp": "e",
            })
        };
        // A flow belongs to the slice that its moment is in.
        events.push(end("s", (micros(from.0) + micros(from.1)) / 2.0));
        events.push(end("f", (micros(to.0) + micros(to.1)) / 2.0));
    }
}

fn named(what: &str, thread: u64, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": 1, "tid": thread, "args": { "name": name } })
}

/// Microseconds, to the nanosecond.
fn micros(ms: f64) -> f64 {
    (ms * 1e6).round() / 1e3
}
