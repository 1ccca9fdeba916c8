//! Transfers as they would be recorded.

use onetrip_measure::results::{Cell, Key, Preset, Unit};
use onetrip_measure::timeline::{End, Message, Timeline};

use crate::synthetic::{Synthetic, key};

/// Of each way what its trips ask for.
pub(crate) const WAYS: [(&str, &[&[&str]]); 4] = [
    ("one by one", &[&["BEGIN"], &["UPDATE"], &["UPDATE"], &["COMMIT"]]),
    ("transaction", &[&["BEGIN", "UPDATE"], &["UPDATE"], &["COMMIT"]]),
    ("pipeline", &[&["UPDATE", "UPDATE"]]),
    ("procedure", &[&["CALL"]]),
];

/// A line, and how long the server works for the last command of a transfer, which is the commit; a
/// hundredth for each other.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    pub(crate) latency_ms: f64,
    pub(crate) work_ms: f64,
    pub(crate) is_encrypted: bool,
}

/// A transfer in each way, over this line.
pub(crate) fn cells(line: Line) -> Vec<Cell> {
    let mut synthetic = Synthetic::new(21);
    let mut cell = |(mode, trips): (&str, &[&[&str]])| {
        let timeline = timeline(line, trips);
        let us = timeline.ends_ms() * 1e3;
        let key = Key { mode: Some(mode.to_owned()), ..key(Preset::Trips, "transfer") };
        let key = Key { rtt_added_ms: 2.0 * line.latency_ms, ..key };
        let trips = trips.len() as f64;
        Cell { timeline: Some(timeline), ..synthetic.cell(key, Unit::Transaction, us, 2, trips) }
    };
    WAYS.into_iter().map(&mut cell).collect()
}

/// Several commands of one trip are answered one by one.
fn timeline(line: Line, trips: &[&[&str]]) -> Timeline {
    let mut messages = Vec::new();
    let mut now = 0.0;
    for (i, commands) in trips.iter().enumerate() {
        let mut server = now + line.latency_ms;
        messages.push(message(End::Client, now, line, &[]));
        for (j, command) in commands.iter().enumerate() {
            let is_last = (i + 1, j + 1) == (trips.len(), commands.len());
            server += line.work_ms * if is_last { 1.0 } else { 0.01 };
            messages.push(message(End::Server, server, line, &[command]));
        }
        now = server + line.latency_ms;
    }
    Timeline { trips: trips.len() as u64, messages }
}

fn message(from: End, left_ms: f64, line: Line, done: &[&str]) -> Message {
    let done = if line.is_encrypted { &[] } else { done };
    let done = done.iter().map(|it| (*it).to_owned()).collect();
    Message { from, left_ms, arrived_ms: left_ms + line.latency_ms, bytes: 78, done }
}
