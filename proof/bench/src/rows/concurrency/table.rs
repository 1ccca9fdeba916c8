//! All medians: operations by isolation level.

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use onetrip_measure::concurrency::WORKLOADS;
use onetrip_measure::results::{Cell, Isolation};

use super::cells::{Cells, time_us};
use super::{CONNECTIONS, TASKS};

pub(super) fn text(cells: &Cells<'_>) -> Result<String> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    let mut header = vec!["µs per transaction (quartiles) · retries"];
    header.extend(Isolation::ALL.map(Isolation::name));
    table.set_header(header);
    for workload in WORKLOADS {
        let mut row = vec![workload.name.to_owned()];
        for level in Isolation::ALL {
            row.push(figure(cells.at(workload.name, level)?));
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Ok(format!("{TASKS} tasks over {CONNECTIONS} connections, one transaction each:\n{table}"))
}

/// The median, its quartiles, and how often each transaction was tried again.
fn figure(cell: &Cell) -> String {
    let time = time_us(cell);
    let retries = cell.retries.values().sum::<u64>() as f64 / cell.operations() as f64;
    let figure = format!("{:.0} ({:.0}–{:.0})", time.median, time.low, time.high);
    if retries > 0.0 { format!("{figure} · {retries:.2}") } else { figure }
}
