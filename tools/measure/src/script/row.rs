//! Results that become variables: as text, as the server writes it.

use std::error::Error as StdError;

use onetrip::types::{FromSql, Type};
use onetrip::{Rows, SimpleResult, Statement};

use super::command::Store;
use super::names::Names;
use super::value::Value;

/// Whether the columns of a statement are of types whose text is known here. Other results are asked
/// for as text, by the simple protocol.
pub(super) fn is_readable(statement: &Statement) -> bool {
    statement.columns().iter().all(|column| AsWritten::accepts(column.type_()))
}

/// Sets variables to a row of a result.
///
/// # Errors
/// `\gset` wants one row.
pub(super) fn store_rows(
    rows: &Rows,
    store: &Store,
    names: &Names,
    variables: &mut [Option<Value>],
) -> Result<(), String> {
    check_count(store, rows.len())?;
    let Some(row) = rows.iter().last() else { return Ok(()) };
    for (at, column) in rows.columns().iter().enumerate() {
        let value: Option<AsWritten> = row.try_get(at).map_err(|error| error.to_string())?;
        set(store, column.name(), value.map(|it| it.0), names, variables);
    }
    Ok(())
}

/// The same for what the simple protocol returns: `\gset` takes the last result, `\aset` all.
pub(super) fn store_results(
    results: &[SimpleResult],
    store: &Store,
    names: &Names,
    variables: &mut [Option<Value>],
) -> Result<(), String> {
    let taken = if store.all { results } else { &results[results.len().saturating_sub(1)..] };
    for result in taken {
        check_count(store, result.rows.len())?;
        let Some(row) = result.rows.last() else { continue };
        for (name, value) in result.columns.iter().zip(row) {
            set(store, name, value.clone(), names, variables);
        }
    }
    Ok(())
}

fn check_count(store: &Store, rows: usize) -> Result<(), String> {
    match rows {
        1 => Ok(()),
        _ if store.all => Ok(()),
        rows => Err(format!("\\gset: expected one row, got {rows}")),
    }
}

/// NULL becomes the empty text, as in pgbench. What no script looks at is not kept.
fn set(
    store: &Store,
    column: &str,
    value: Option<String>,
    names: &Names,
    variables: &mut [Option<Value>],
) {
    if let Some(number) = variable(store, column, names) {
        variables[number] = Some(Value::Text(value.unwrap_or_default().into()));
    }
}

/// The variable that a column is stored under, if a script looks at it.
pub(super) fn variable(store: &Store, column: &str, names: &Names) -> Option<usize> {
    match store.prefix.as_str() {
        "" => names.get(column),
        prefix => names.get(&format!("{prefix}{column}")),
    }
}

/// A value in the server's own words.
struct AsWritten(String);

impl<'a> FromSql<'a> for AsWritten {
    fn from_sql(type_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        let text = match *type_ {
            Type::BOOL => if bool::from_sql(type_, raw)? { "t" } else { "f" }.to_owned(),
            Type::INT2 => i16::from_sql(type_, raw)?.to_string(),
            Type::INT4 => i32::from_sql(type_, raw)?.to_string(),
            Type::INT8 => i64::from_sql(type_, raw)?.to_string(),
            Type::OID => u32::from_sql(type_, raw)?.to_string(),
            _ => String::from_sql(type_, raw)?,
        };
        Ok(AsWritten(text))
    }

    fn accepts(type_: &Type) -> bool {
        matches!(
            *type_,
            Type::BOOL
                | Type::INT2
                | Type::INT4
                | Type::INT8
                | Type::OID
                | Type::TEXT
                | Type::VARCHAR
                | Type::BPCHAR
                | Type::NAME
                | Type::UNKNOWN
        )
    }
}
