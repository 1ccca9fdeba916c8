//! The figures, as a table and as JSON.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use super::Measured;

/// Everything that the demo found out.
#[derive(Serialize)]
pub(super) struct Report {
    onetrip_version: &'static str,
    server_version: String,
    rtt_ms: f64,
    runs: u32,
    transfer: Vec<Measured>,
    selects: Vec<Measured>,
}

impl Report {
    pub(super) fn new(
        server_version: String,
        rtt: Duration,
        runs: u32,
        transfer: Vec<Measured>,
        selects: Vec<Measured>,
    ) -> Report {
        let onetrip_version = env!("CARGO_PKG_VERSION");
        let rtt_ms = rtt.as_secs_f64() * 1e3;
        Report { onetrip_version, server_version, rtt_ms, runs, transfer, selects }
    }

    pub(super) fn write_json(&self, file: File) -> io::Result<()> {
        let mut out = io::BufWriter::new(file);
        serde_json::to_writer_pretty(&mut out, self)?;
        writeln!(out)?;
        out.flush()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &self.server_version;
        match self.rtt_ms {
            0.0 => writeln!(f, "A money transfer, PostgreSQL {server}")?,
            rtt => writeln!(
                f,
                "A money transfer over a link of {} ms each way, PostgreSQL {server}",
                rtt / 2.0
            )?,
        }
        writeln!(f, "{}\n", table(&self.transfer, None))?;
        writeln!(f, "10,000 point selects by primary key, no latency added")?;
        writeln!(f, "{}\n", table(&self.selects, Some(10_000.0)))?;
        write!(
            f,
            "Medians of {} runs. A trip is a write of the client after bytes of the server, counted on \
             the wire by the proxy.",
            self.runs
        )
    }
}

/// `statements`: how many a run has, to show a rate.
fn table(rows: &[Measured], statements: Option<f64>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    let rate = if statements.is_some() { "per second" } else { "" };
    table.set_header(["", "trips", "median ms", "ratio", rate, ""]);
    let slowest = rows.iter().map(|row| row.median_ms).fold(0.0, f64::max);
    let first = rows.first().map_or(1.0, |row| row.median_ms);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    for row in rows {
        table.add_row([
            Cell::new(row.what),
            right(row.trips.to_string()),
            right(format!("{:.1}", row.median_ms)),
            right(format!("{:.2}", row.median_ms / first)),
            right(statements.map_or(String::new(), |it| thousands(it / row.median_ms * 1e3))),
            Cell::new(bar(row.median_ms / slowest)),
        ]);
    }
    table
}

/// The time as a length.
fn bar(part: f64) -> String {
    const WIDTH: f64 = 24.0;
    "█".repeat((part * WIDTH).round().max(1.0) as usize)
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
