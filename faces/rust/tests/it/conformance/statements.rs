//! A statement of a case, and the check of its answer.

use onetrip::types::{FromSql, Kind, ToSql, Type};
use std::time::Duration;

use onetrip::{Error, Isolation, RowRef, Rows, TransactionOptions};
use serde_json::Value as Json;

/// A statement with its parameters, and the expected answer.
pub(super) struct Asked {
    pub(super) text: String,
    parameters: Vec<Box<dyn ToSql + Sync>>,
    expected: Json,
}

/// The answer.
pub(super) enum Came {
    Rows(Rows),
    Count(u64),
}

impl Asked {
    pub(super) fn new(json: &Json, table: &str) -> Asked {
        let text = json["text"].as_str().unwrap();
        let parameters = json["parameters"].as_array().map_or(&[][..], Vec::as_slice);
        Asked {
            text: text.replace("{t}", table).replace("{spaces}", &" ".repeat(20_000)),
            parameters: parameters.iter().map(parameter).collect(),
            expected: json.clone(),
        }
    }

    pub(super) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.parameters.iter().map(|it| &**it).collect()
    }

    pub(super) fn is_counted(&self) -> bool {
        !self.expected["count"].is_null()
    }

    /// Whether the case marks it so: `repeatable`, `cancelled`.
    pub(super) fn is_marked(&self, mark: &str) -> bool {
        self.expected[mark] == true
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        self.expected["timeout_ms"].as_u64().map(Duration::from_millis)
    }

    /// Checks the answer. Returns whether rows came.
    pub(super) fn is_answered(&self, came: Result<Came, Error>) -> bool {
        matches!(came.unwrap(), Came::Rows(rows) if !rows.is_empty())
    }

    pub(super) fn check(&self, came: Result<Came, Error>, name: &str) {
        let (expected, text) = (&self.expected, &self.text);
        match came {
            Err(error) if expected["error"].is_null() => panic!("{name}: {text}: {error}"),
            Err(error) => super::check_error(&error, &expected["error"], name),
            Ok(_) if !expected["error"].is_null() => panic!("{name}: {text}: no error"),
            Ok(Came::Count(count)) => {
                assert_eq!(Some(count), expected["count"].as_u64(), "{name}: {text}");
            }
            Ok(Came::Rows(rows)) => {
                if let Some(columns) = expected["columns"].as_array() {
                    let names: Vec<&str> = rows.columns().iter().map(|it| it.name()).collect();
                    assert_eq!(*columns, names, "{name}: {text}");
                }
                let came: Vec<Json> = rows.iter().map(|row| json_of(&row)).collect();
                assert_eq!(Json::Array(came), expected["rows"], "{name}: {text}");
            }
        }
    }
}

fn parameter(json: &Json) -> Box<dyn ToSql + Sync> {
    match json {
        Json::Null => Box::new(None::<String>),
        Json::Bool(value) => Box::new(*value),
        Json::Number(value) => Box::new(value.as_i64().unwrap()),
        Json::String(value) => Box::new(value.clone()),
        other => panic!("{other} is no parameter"),
    }
}

fn json_of(row: &RowRef<'_>) -> Json {
    let columns = row.columns().iter().enumerate();
    let values = columns.map(|(i, column)| match *column.type_() {
        Type::BOOL => row.get::<Option<bool>>(i).into(),
        Type::INT8 => row.get::<Option<i64>>(i).into(),
        _ => row.get::<Option<Label>>(i).map(|it| it.0).into(),
    });
    Json::Array(values.collect())
}

/// A text, or the label of an enum: their bytes are the same.
struct Label(String);

impl FromSql<'_> for Label {
    fn from_sql(
        type_: &Type,
        raw: &[u8],
    ) -> Result<Label, Box<dyn std::error::Error + Sync + Send>> {
        String::from_sql(type_, raw).map(Label)
    }

    fn accepts(type_: &Type) -> bool {
        <String as FromSql>::accepts(type_) || matches!(type_.kind(), Kind::Enum(_))
    }
}

pub(super) fn transaction_options(json: &Json) -> TransactionOptions {
    let mut options = TransactionOptions::new();
    if let Some(isolation) = json["isolation"].as_str() {
        options = options.isolation(match isolation {
            "read committed" => Isolation::ReadCommitted,
            "repeatable read" => Isolation::RepeatableRead,
            "serializable" => Isolation::Serializable,
            other => panic!("no isolation is called {other}"),
        });
    }
    if let Some(read_only) = json["read_only"].as_bool() {
        options = options.read_only(read_only);
    }
    options
}
