//! Builds types from the server's descriptions.

use std::collections::HashMap;

use onetrip_postgres::client::types::catalog::{self, Description};
use onetrip_postgres::client::types::resolve::Resolved;
use postgres_types::{Field, Kind, Type};

use crate::oids::type_of;

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
