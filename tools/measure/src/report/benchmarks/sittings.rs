//! Rows of several files as one list, each with the sitting in which it was measured: `NAME.json`
//! has rows, and `NAME-environment.json` beside it says where they were measured.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rows::Row;
use crate::error::{Error, Result};

/// Where and how rows were measured.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Sitting {
    /// All that `proof/bench` has written down.
    #[serde(flatten)]
    known: BTreeMap<String, Value>,
    /// The names of its rows, where the file has rows of several sittings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rows: Option<Vec<String>>,
}

/// What a page says of a sitting: where that is written, and what it is called. Peers are not among
/// it, since each row names its own.
const FACTS: [(&str, &str); 10] = [
    ("measured_at", "measured at"),
    ("cpu", "CPU"),
    ("cores", "cores"),
    ("kernel", "Linux"),
    ("postgres", "PostgreSQL"),
    ("settings", "its settings"),
    ("redis", "Redis"),
    ("onetrip", "onetrip"),
    ("commit", "commit"),
    ("rounds", "turns of a row, at most"),
];

impl Sitting {
    /// The day, as far as it is known.
    pub(super) fn day(&self) -> Option<String> {
        self.text("measured_at")?.get(..10).map(str::to_owned)
    }

    /// What is known of it, as pairs of a name and a text.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let fact = |(key, name): (&str, &'static str)| Some((name, self.text(key)?));
        FACTS.into_iter().filter_map(fact).collect()
    }

    /// Whether its figures mean nothing.
    fn is_of_a_debug_build(&self) -> bool {
        self.text("profile").is_some_and(|it| it.starts_with("debug"))
    }

    fn text(&self, key: &str) -> Option<String> {
        match self.known.get(key)? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

/// All rows, each once, and the sittings that have any of them.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) rows: Vec<Row>,
    pub(super) sittings: Vec<Sitting>,
}

impl Measured {
    /// Reads files of rows. A row takes the place of an earlier one of its name.
    ///
    /// # Errors
    /// A file can't be read or is none of `make bench`, nothing was measured, or a debug build was.
    pub(super) fn read(paths: &[PathBuf]) -> Result<Measured> {
        let mut all = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut sittings = Vec::new();
        for path in paths {
            let first = sittings.len();
            sittings.extend(read_sittings(path)?);
            for row in json::<Vec<Row>>(path)? {
                let own = sittings[first..].iter().position(|it: &Sitting| {
                    it.rows.as_ref().is_none_or(|rows| rows.contains(&row.name))
                });
                let own = own.ok_or_else(|| not_in_a_sitting(path, &row.name))? + first;
                match places.get(&row.name) {
                    Some(place) => all[*place] = (row, own),
                    None => {
                        places.insert(row.name.clone(), all.len());
                        all.push((row, own));
                    }
                }
            }
        }
        if all.is_empty() {
            return Err(Error::new("there are no rows; run make bench first"));
        }
        for (number, sitting) in sittings.iter_mut().enumerate() {
            let own = all.iter().filter(|(_, of)| *of == number);
            sitting.rows = Some(own.map(|(row, _)| row.name.clone()).collect());
        }
        sittings.retain(|it| it.rows.as_ref().is_some_and(|rows| !rows.is_empty()));
        Ok(Measured { rows: all.into_iter().map(|(row, _)| row).collect(), sittings })
    }
}

impl Measured {
    /// The day of the last sitting.
    pub(super) fn day(&self) -> Option<String> {
        self.sittings.iter().filter_map(Sitting::day).max()
    }

    /// As a file beside the rows has them.
    pub(super) fn environment(&self) -> Sittings {
        match &self.sittings[..] {
            [one] => Sittings::One(Sitting { rows: None, ..one.clone() }),
            several => Sittings::Several(several.to_vec()),
        }
    }
}

/// One sitting or several.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum Sittings {
    Several(Vec<Sitting>),
    One(Sitting),
}

/// Of the file beside the rows. Without one, nothing is known.
fn read_sittings(path: &Path) -> Result<Vec<Sitting>> {
    let beside = environment_of(path);
    if !beside.exists() {
        return Ok(vec![Sitting::default()]);
    }
    let sittings = match json(&beside)? {
        Sittings::Several(several) => several,
        Sittings::One(one) => vec![one],
    };
    if sittings.iter().any(Sitting::is_of_a_debug_build) {
        let path = path.display();
        return Err(Error::new(format!("{path} is of a debug build; run make bench for figures")));
    }
    Ok(sittings)
}

/// `bench-environment.json` for `bench.json`.
pub(super) fn environment_of(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-environment.json"))
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        Error::new(format!("can't read {shown}: {error}; run make bench first"))
    })?;
    serde_json::from_str(&text).map_err(|error| {
        Error::new(format!("{shown} is no file of make bench: {error}; name one that it wrote"))
    })
}

fn not_in_a_sitting(path: &Path, row: &str) -> Error {
    let beside = environment_of(path);
    Error::new(format!("{} does not name the row {row}; add it to a sitting", beside.display()))
}
