//! OpenTelemetry's traces as JSON, as `opentelemetry-proto` has them: what a collector's `otlpjson`
//! receiver reads, and what can be sent to `/v1/traces`.

use serde_json::{Value, json};

use super::{cut, name, turns, units};
use crate::profile::{Lane, LaneTrip, LaneUnit, Profile, Timeline};

/// Characters of a span's name; the whole text is an attribute.
const WIDTH: usize = 80;
/// `SPAN_KIND_INTERNAL` and `SPAN_KIND_CLIENT`.
const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;
/// `STATUS_CODE_UNSET` and `STATUS_CODE_ERROR`.
const UNSET: u8 = 0;
const ERROR: u8 = 2;

/// `otlp.json`: a trace for each unit, with spans of its trips, and in these of its statements. A
/// statement that took a value of an earlier result has a link to it.
#[must_use]
pub fn otlp(profile: &Profile) -> String {
    let mut spans = Vec::new();
    for (number, (timeline, lane, unit)) in units(profile).enumerate() {
        if !unit.trips.is_empty() {
            Trace::new(profile, number as u64, lane).unit(timeline, unit, &mut spans);
        }
    }
    let scope = json!({ "name": "onetrip.profile", "version": env!("CARGO_PKG_VERSION") });
    json!({ "resourceSpans": [{
        "resource": { "attributes": [text("service.name", "onetrip profile")] },
        "scopeSpans": [{ "scope": scope, "spans": spans }],
    }] })
    .to_string()
}

struct Trace<'a> {
    profile: &'a Profile,
    /// 32 hexadecimal digits: when the run began, and the number of the unit from 1.
    id: String,
    number: u64,
    system: &'static str,
    connection: u64,
}

impl<'a> Trace<'a> {
    fn new(profile: &'a Profile, number: u64, lane: &Lane) -> Trace<'a> {
        Trace {
            profile,
            id: format!("{:016x}{:016x}", profile.began_unix_ns, number + 1),
            number: number + 1,
            system: if lane.is_redis { "redis" } else { "postgresql" },
            connection: lane.connection,
        }
    }

    fn unit(&self, timeline: &Timeline, unit: &LaneUnit, spans: &mut Vec<Value>) {
        let whole = unit.trips.iter().fold((f64::MAX, 0.0_f64), |(begin, end), it| {
            (begin.min(it.begin_ms), end.max(it.end_ms))
        });
        let name = cut(name(self.profile, unit), WIDTH);
        let mut root = self.span(0, None, &name, whole);
        root["attributes"] = json!([
            text("db.system.name", self.system),
            int("onetrip.connection", self.connection),
            int("onetrip.trips", unit.trips.len() as u64),
        ]);
        spans.push(root);
        for (at, trip) in unit.trips.iter().enumerate() {
            let mut span = self.span(1 + at, Some(0), "trip", (trip.begin_ms, trip.end_ms));
            let server = (trip.end_ms - trip.begin_ms - trip.network_ms).max(0.0);
            span["attributes"] = json!([
                double("onetrip.network_ms", trip.network_ms),
                double("onetrip.server_ms", server),
            ]);
            spans.push(span);
        }
        self.statements(timeline, unit, spans);
    }

    fn statements(&self, timeline: &Timeline, unit: &LaneUnit, spans: &mut Vec<Value>) {
        let first = 1 + unit.trips.len();
        for (at, (it, turn)) in unit.statements.iter().zip(turns(unit)).enumerate() {
            let query = timeline.texts.get(it.text as usize).map_or("", String::as_str);
            let trip = 1 + trip_of(&unit.trips, it.begin_ms);
            let mut span = self.span(first + at, Some(trip), &cut(query, WIDTH), turn);
            span["kind"] = json!(CLIENT);
            span["attributes"] = json!([
                text("db.system.name", self.system),
                text("db.query.text", query),
                int("db.response.returned_rows", it.rows),
            ]);
            span["status"] = json!({ "code": if it.has_failed { ERROR } else { UNSET } });
            let sources = unit.links.iter().filter(|(_, to)| *to as usize == at);
            let links: Vec<_> = sources
                .map(|(from, _)| {
                    let id = self.span_id(first + *from as usize);
                    json!({ "traceId": self.id, "spanId": id })
                })
                .collect();
            span["links"] = json!(links);
            spans.push(span);
        }
    }

    fn span(&self, at: usize, parent: Option<usize>, name: &str, times: (f64, f64)) -> Value {
        json!({
            "traceId": self.id,
            "spanId": self.span_id(at),
            "parentSpanId": parent.map_or_else(String::new, |at| self.span_id(at)),
            "name": name,
            "kind": INTERNAL,
            "startTimeUnixNano": self.unix(times.0),
            "endTimeUnixNano": self.unix(times.1),
        })
    }

    /// 16 hexadecimal digits, not all of them 0.
    fn span_id(&self, at: usize) -> String {
        format!("{:08x}{:08x}", self.number as u32, at as u32 + 1)
    }

    /// 64-bit numbers are strings in JSON.
    fn unix(&self, ms: f64) -> String {
        let nanos = (ms.max(0.0) * 1e6).round() as u64;
        self.profile.began_unix_ns.saturating_add(nanos).to_string()
    }
}

/// The trip that a moment is in.
fn trip_of(trips: &[LaneTrip], at: f64) -> usize {
    trips.partition_point(|it| it.begin_ms <= at).saturating_sub(1)
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn int(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

fn double(key: &str, value: f64) -> Value {
    json!({ "key": key, "value": { "doubleValue": value } })
}
