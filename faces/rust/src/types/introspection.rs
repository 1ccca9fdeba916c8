//! Types out of what the server says of them.

use std::collections::HashMap;

use onetrip_postgres::client::types::catalog::{self, COLUMNS, Description};
use onetrip_postgres::client::types::resolve::Resolved;
use postgres_types::{Field, FromSql, Kind, Type};

use crate::oids::type_of;
use crate::{Error, RowRef, Rows};

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

pub(super) fn is_built_in(oid: u32) -> bool {
    Type::from_oid(oid).is_some()
}

/// The types, in the order of their descriptions.
pub(super) fn build(resolved: &[Resolved]) -> Vec<Type> {
    let by_name = resolved.iter().filter(|it| !it.is_part).map(|it| &it.description);
    let mut built: HashMap<u32, Type> = by_name.map(|it| (it.oid, new(it, Kind::Simple))).collect();
    let mut types = Vec::with_capacity(resolved.len());
    for Resolved { description, is_part, .. } in resolved {
        let part = |oid: u32| built.get(&oid).cloned().unwrap_or_else(|| type_of(oid));
        let type_ = new(description, kind(&description.kind, part));
        if *is_part {
            built.insert(description.oid, type_.clone());
        }
        types.push(type_);
    }
    types
}

fn new(description: &Description, kind: Kind) -> Type {
    Type::new(description.name.clone(), description.oid, kind, description.schema.clone())
}

fn kind(kind: &catalog::Kind, part: impl Fn(u32) -> Type) -> Kind {
    match kind {
        catalog::Kind::Unknown | catalog::Kind::Simple => Kind::Simple,
        catalog::Kind::Pseudo => Kind::Pseudo,
        catalog::Kind::Enum(labels) => Kind::Enum(labels.clone()),
        catalog::Kind::Array(of) => Kind::Array(part(*of)),
        catalog::Kind::Range(of) => Kind::Range(part(*of)),
        catalog::Kind::Multirange(of) => Kind::Multirange(part(*of)),
        catalog::Kind::Domain(of) => Kind::Domain(part(*of)),
        catalog::Kind::Composite(fields) => Kind::Composite(
            fields.iter().map(|(name, oid)| Field::new(name.clone(), part(*oid))).collect(),
        ),
    }
}

#[cfg(test)]
mod tests;
