//! Cells as rows of plain values: for `results.csv` and the spreadsheet's sheet of all cells.

use crate::results::Cell;
use crate::spread::Spread;

/// A value of a field.
pub(super) enum Value {
    Text(String),
    Number(f64),
    Whole(u64),
    Nothing,
}

/// The names of the fields, with their units.
pub(super) const FIELDS: [&str; 35] = [
    "preset",
    "workload",
    "mode",
    "isolation",
    "tasks",
    "connections",
    "depth",
    "rate_intended_per_s",
    "rtt_added_ms",
    "unit",
    "repetitions",
    "operations",
    "elapsed_ms_median",
    "elapsed_ms_low",
    "elapsed_ms_high",
    "rate_per_s_median",
    "rate_per_s_low",
    "rate_per_s_high",
    "latency_mean_us",
    "latency_p50_us",
    "latency_p90_us",
    "latency_p99_us",
    "latency_p999_us",
    "latency_max_us",
    "lag_p99_us",
    "trips_per_operation",
    "client_cpu_us_per_operation",
    "server_cpu_us_per_operation",
    "retries",
    "errors",
    "expected_errors",
    "retries_by_sqlstate",
    "errors_by_sqlstate",
    "expected_errors_by_sqlstate",
    "sessions_by_wait",
];

/// A cell's values, as in [`FIELDS`].
pub(super) fn values(cell: &Cell) -> Vec<Value> {
    let mut values = key(cell);
    values.extend(spread(cell.elapsed_ms()));
    values.extend(spread(cell.rate()));
    values.extend(latency(cell));
    let costs = [cell.trips_per_operation(), cell.client_cpu_us(), cell.server_cpu_us()];
    values.extend(costs.map(|it| number(it.map(|it| it.median))));
    let codes = [&cell.retries, &cell.errors, &cell.expected_errors];
    values.extend(codes.map(|it| Value::Whole(it.values().sum())));
    values.extend(codes.map(|it| text(&codes_in_words(it))));
    let waits = cell.waits.iter().map(|(what, sessions)| format!("{what}={sessions:.2}"));
    values.push(text(&waits.collect::<Vec<_>>().join(" ")));
    values
}

fn key(cell: &Cell) -> Vec<Value> {
    let key = &cell.key;
    vec![
        named(&key.preset),
        text(&key.workload),
        text(key.mode.as_deref().unwrap_or_default()),
        key.isolation.map_or(Value::Nothing, |it| text(it.name())),
        Value::Whole(key.tasks.into()),
        Value::Whole(key.connections.into()),
        key.depth.map_or(Value::Nothing, |it| Value::Whole(it.into())),
        number(key.rate),
        Value::Number(key.rtt_added_ms),
        named(&cell.unit),
        Value::Whole(cell.repetitions.len() as u64),
        Value::Whole(cell.operations()),
    ]
}

/// As it stands in results.json.
fn named(it: &impl serde::Serialize) -> Value {
    match serde_json::to_value(it) {
        Ok(serde_json::Value::String(name)) => text(&name),
        _ => Value::Nothing,
    }
}

fn text(text: &str) -> Value {
    if text.is_empty() { Value::Nothing } else { Value::Text(text.to_owned()) }
}

fn number(value: Option<f64>) -> Value {
    value.filter(|it| it.is_finite()).map_or(Value::Nothing, Value::Number)
}

fn spread(spread: Option<Spread>) -> [Value; 3] {
    [spread.map(|it| it.median), spread.map(|it| it.low), spread.map(|it| it.high)].map(number)
}

fn latency(cell: &Cell) -> [Value; 7] {
    let lag = cell.lag.as_ref().map_or(Value::Nothing, |it| Value::Whole(it.p99_us));
    let Some(latency) = &cell.latency else {
        return [
            Value::Nothing,
            Value::Nothing,
            Value::Nothing,
            Value::Nothing,
            Value::Nothing,
            Value::Nothing,
            lag,
        ];
    };
    [
        number(Some(latency.mean_us)),
        Value::Whole(latency.p50_us),
        Value::Whole(latency.p90_us),
        Value::Whole(latency.p99_us),
        Value::Whole(latency.p999_us),
        Value::Whole(latency.max_us),
        lag,
    ]
}

/// Without commas in numbers: for programs.
fn codes_in_words(codes: &std::collections::BTreeMap<String, u64>) -> String {
    let each = codes.iter().map(|(code, times)| format!("{code}:{times}"));
    each.collect::<Vec<_>>().join(" ")
}
