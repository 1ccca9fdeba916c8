//! Learns types from the rows that describe them.

use onetrip_postgres::client::types::catalog::{COLUMNS, Description};
use onetrip_postgres::client::types::resolve::resolve;
use postgres_types::{FromSql, Type};

use super::TypeCache;
use super::introspection::is_built_in;
use crate::{Error, RowRef, Rows};

impl TypeCache {
    /// Keeps the types that the rows describe, in place of older descriptions. Returns them, parts
    /// before the types that contain them; the caller gets all of them even if the cache has no
    /// room for all.
    ///
    /// A requested number that belongs to no type is kept as well, as a type without a name, so
    /// that it isn't requested again. A type that is nested more than 64 deep, contains itself, or
    /// has more than 16,384 parts is kept by its name alone.
    ///
    /// # Errors
    /// The rows are not those of the [statement](Self::introspection_sql). Then nothing is learned.
    pub fn learn(&self, rows: &Rows) -> Result<Vec<Type>, Error> {
        Ok(self.remember(&resolve(descriptions(rows)?, is_built_in)))
    }
}

/// Reads the rows of an answer.
pub(super) fn descriptions(rows: &Rows) -> Result<Vec<Description>, Error> {
    let find = |(name, oid): (&str, u32)| {
        let is_it =
            |it: &crate::Column| it.name() == name && it.type_().oid() == oid && !it.is_text();
        rows.columns().iter().position(is_it)
    };
    let places: Option<Vec<usize>> = COLUMNS.into_iter().map(find).collect();
    let read = |row: RowRef<'_>| {
        let values: Vec<Option<Raw<'_>>> =
            places.iter().flatten().map(|place| row.try_get(*place)).collect::<Result<_, _>>()?;
        let value = |number: usize| values.get(number)?.as_ref().map(|value| value.0);
        Description::read(value)
            .ok_or_else(|| Error::unreadable("the rows are not those that describe types"))
    };
    rows.iter().map(read).collect()
}

/// A value as it came.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(
        _: &Type,
        raw: &'a [u8],
    ) -> Result<Raw<'a>, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
