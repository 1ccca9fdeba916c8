//! `results.json`: written and read.

use std::path::Path;

use crate::error::{Error, Result};
use crate::results::{Results, SCHEMA, SCHEMA_VERSION};

/// As it stands in the file.
pub(super) fn bytes(results: &Results) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(results)
        .map_err(|error| Error::new(format!("can't write the results as JSON: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads a `results.json`.
///
/// # Errors
/// It can't be read; it is no JSON, or that of something else; its version is not
/// [`SCHEMA_VERSION`]; a field is missing.
pub fn read(path: &Path) -> Result<Results> {
    let at = |why: String| Error::new(format!("{}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| at(error.to_string()))?;
    parse(&bytes).map_err(|why| at(format!("{why}; give a results.json of onetrip bench")))
}

/// The reason alone if it fails.
fn parse(bytes: &[u8]) -> std::result::Result<Results, String> {
    let value: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON ({error})"))?;
    let schema = value.get("schema").and_then(|it| it.as_str());
    if schema != Some(SCHEMA) {
        return Err(format!("its schema is {}, not {SCHEMA}", schema.unwrap_or("not said")));
    }
    let version = value.get("schema_version").and_then(serde_json::Value::as_u64);
    if version != Some(SCHEMA_VERSION.into()) {
        let version = version.map_or("not said".to_owned(), |it| it.to_string());
        return Err(format!(
            "its schema's version is {version} and this program reads version {SCHEMA_VERSION}"
        ));
    }
    serde_json::from_value(value).map_err(|error| format!("it is not whole ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_schema_or_version_is_refused_in_words() {
        let refused = |text: &str| parse(text.as_bytes()).expect_err("it is refused");
        assert!(refused("{").starts_with("it is not JSON"));
        assert_eq!(refused("[]"), "its schema is not said, not onetrip-bench");
        assert_eq!(refused(r#"{"schema":"pgbench"}"#), "its schema is pgbench, not onetrip-bench");
        let newer = refused(r#"{"schema":"onetrip-bench","schema_version":2}"#);
        assert_eq!(newer, "its schema's version is 2 and this program reads version 1");
        assert!(
            refused(r#"{"schema":"onetrip-bench","schema_version":1}"#)
                .starts_with("it is not whole")
        );
    }
}
