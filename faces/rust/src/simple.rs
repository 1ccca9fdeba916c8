//! Results of the simple protocol: several per text, with values as text.

use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{CommandComplete, DataRow, RowDescription};

use crate::Error;
use crate::rows::Blocks;

/// The result of one statement of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimpleResult {
    /// The names of the columns; empty for a statement that returns no rows.
    pub columns: Vec<String>,
    /// The rows, each with its values as text; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// The command tag: `SELECT 1`, `UPDATE 3`, `CREATE TABLE`; empty for an empty statement.
    pub tag: String,
}

/// Reads the reply to a simple query.
pub(crate) fn results(blocks: Blocks) -> Result<Vec<SimpleResult>, Error> {
    let unreadable = |_| Error::unreadable("a result of the batch can't be read");
    let mut results = Vec::new();
    let mut current = SimpleResult::default();
    for (tag, body) in blocks.messages() {
        match tag {
            backend::ROW_DESCRIPTION => {
                let fields = RowDescription::decode(body).map_err(unreadable)?.fields;
                current.columns = fields.map(|field| field.name.to_owned()).collect();
            }
            backend::DATA_ROW => {
                let values = DataRow::decode(body).map_err(unreadable)?.values;
                let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                current.rows.push(values.map(|value| value.map(text)).collect());
            }
            backend::COMMAND_COMPLETE => {
                current.tag = CommandComplete::decode(body).map_err(unreadable)?.tag.to_owned();
                results.push(std::mem::take(&mut current));
            }
            backend::EMPTY_QUERY_RESPONSE => results.push(std::mem::take(&mut current)),
            _ => {}
        }
    }
    Ok(results)
}
