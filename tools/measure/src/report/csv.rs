//! `results.csv`: a header, then a line for each cell.

use super::flat::{FIELDS, Value, values};
use crate::error::{Error, Result};
use crate::results::Results;

/// As it stands in the file.
pub(super) fn bytes(results: &Results) -> Result<Vec<u8>> {
    let failed = |error: String| Error::new(format!("can't write the results as CSV: {error}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(FIELDS).map_err(|error| failed(error.to_string()))?;
    for cell in &results.cells {
        let fields = values(cell).into_iter().map(field);
        writer.write_record(fields).map_err(|error| failed(error.to_string()))?;
    }
    writer.into_inner().map_err(|error| failed(error.to_string()))
}

fn field(value: Value) -> String {
    match value {
        Value::Text(text) => text,
        Value::Number(number) => format!("{}", (number * 1e6).round() / 1e6),
        Value::Whole(number) => number.to_string(),
        Value::Nothing => String::new(),
    }
}
