//! The files, and reading them again.

use std::fs;

use onetrip_measure::report::{read, write_all};
use onetrip_measure::results::Results;

use crate::odd;
use crate::synthetic::{Synthetic, rich};
use tempfile::TempDir;

fn written(results: &Results) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_all(results, dir.path()).unwrap();
    dir
}

#[test]
fn what_was_written_is_read_again() {
    let dir = written(rich());
    assert_eq!(&read(&dir.path().join("results.json")).unwrap(), rich());
}

#[test]
fn what_lacks_something_is_written_and_read_too() {
    for (name, results) in odd::all() {
        let dir = written(results);
        assert_eq!(&read(&dir.path().join("results.json")).unwrap(), results, "{name}");
    }
}

#[test]
fn a_file_that_can_not_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.json");
    assert!(read(&path).unwrap_err().to_string().starts_with(path.to_str().unwrap()));
    fs::write(&path, r#"{"schema":"onetrip-bench","schema_version":99}"#).unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("version is 99 and this program reads version 1"), "{error}");
    assert!(error.starts_with(path.to_str().unwrap()), "{error}");
}

#[test]
fn the_csv_has_a_line_for_each_cell() {
    let results = rich();
    let dir = written(results);
    let mut reader = csv::Reader::from_path(dir.path().join("results.csv")).unwrap();
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), results.cells.len());
    let field = |row: usize, name: &str| {
        let column = header.iter().position(|it| it == name).unwrap();
        records[row][column].to_owned()
    };
    let cell = &results.cells[0];
    assert_eq!(field(0, "workload"), "simple_insert");
    assert_eq!(field(0, "isolation"), "read committed");
    assert_eq!(field(0, "tasks"), "100");
    assert_eq!(field(0, "latency_p99_us"), cell.latency.as_ref().unwrap().p99_us.to_string());
    let elapsed: f64 = field(0, "elapsed_ms_median").parse().unwrap();
    assert!((elapsed - cell.elapsed_ms().unwrap().median).abs() < 1e-5);
    assert_eq!(field(0, "rate_intended_per_s"), "");
}

#[test]
fn a_report_of_500_cells_is_smaller_than_3_mb() {
    let mut results = rich().clone();
    let mut more = Synthetic::new(2).concurrency(
        &onetrip_measure::results::Isolation::ALL,
        &[50, 150, 250, 300, 500, 600, 700],
    );
    results.cells.append(&mut more);
    assert!(results.cells.len() >= 500, "{}", results.cells.len());
    let dir = written(&results);
    let length = fs::metadata(dir.path().join("report.html")).unwrap().len();
    assert!(length < 3_000_000, "{length}");
}
