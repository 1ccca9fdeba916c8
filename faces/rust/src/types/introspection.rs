//! What the server knows of types that are not built in: the statement that asks for it, and reading
//! the answer.
//!
//! One statement answers for any depth: it follows domains to what they are based on, arrays to their
//! elements, ranges and multiranges to their subtype, and composites to their columns.

use std::collections::HashMap;

use postgres_types::{Field, Kind, Type};

use crate::oids::type_of;
use crate::{Error, RowRef, Rows};

/// Asks for types: its one parameter is `&[u32]` or `Vec<u32>`, their numbers. A row of the answer is
/// a type; those that take part in others are there too, and a number that no type has is a row of
/// NULLs. For [`TypeCache::learn`](super::TypeCache::learn).
///
/// It runs on PostgreSQL 9.6 and later.
///
/// A true array is what its element names as such, since other types have elements too (`name`,
/// `point`). The column `rngmultitypid` exists since PostgreSQL 14, so that it is asked for by way of
/// a JSON object, in which it may be missing.
pub(super) const INTROSPECTION_SQL: &str = "\
with recursive wanted (oid) as (
  select pg_catalog.unnest($1::pg_catalog.oid[])
  union
  select part.oid
  from wanted
  join pg_catalog.pg_type t on t.oid = wanted.oid
  cross join lateral (
    select t.typbasetype where t.typtype = 'd'
    union all
    select e.oid from pg_catalog.pg_type e where e.oid = t.typelem and e.typarray = t.oid
    union all
    select r.rngsubtype from pg_catalog.pg_range r
    where t.typtype = 'r' and r.rngtypid = t.oid
    union all
    select r.rngsubtype from pg_catalog.pg_range r
    where t.typtype = 'm'
      and (pg_catalog.to_jsonb(r) ->> 'rngmultitypid')::pg_catalog.oid = t.oid
    union all
    select a.atttypid from pg_catalog.pg_attribute a
    where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
  ) part (oid)
)
select
  wanted.oid as oid,
  n.nspname::pg_catalog.text as schema,
  t.typname::pg_catalog.text as name,
  case when e.oid is null then t.typtype::pg_catalog.text else 'a' end as kind,
  case t.typtype
    when 'd' then t.typbasetype
    when 'r' then (select r.rngsubtype from pg_catalog.pg_range r where r.rngtypid = t.oid)
    when 'm' then (
      select r.rngsubtype from pg_catalog.pg_range r
      where (pg_catalog.to_jsonb(r) ->> 'rngmultitypid')::pg_catalog.oid = t.oid
    )
    else e.oid
  end as part,
  case t.typtype
    when 'e' then array(
      select l.enumlabel::pg_catalog.text from pg_catalog.pg_enum l
      where l.enumtypid = t.oid order by l.enumsortorder
    )
    when 'c' then array(
      select a.attname::pg_catalog.text from pg_catalog.pg_attribute a
      where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped order by a.attnum
    )
  end as names,
  case when t.typtype = 'c' then array(
    select a.atttypid from pg_catalog.pg_attribute a
    where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped order by a.attnum
  ) end as parts
from wanted
left join pg_catalog.pg_type t on t.oid = wanted.oid
left join pg_catalog.pg_namespace n on n.oid = t.typnamespace
left join pg_catalog.pg_type e on e.oid = t.typelem and e.typarray = t.oid";

/// A type as a row describes it, with its parts by number.
#[derive(Clone, Debug)]
pub(super) struct Description {
    oid: u32,
    schema: String,
    name: String,
    kind: Parts,
}

#[derive(Clone, Debug)]
enum Parts {
    Simple,
    Pseudo,
    Enum(Vec<String>),
    Array(u32),
    Range(u32),
    Multirange(u32),
    Domain(u32),
    Composite(Vec<(String, u32)>),
}

/// Reads the rows of an answer.
pub(super) fn descriptions(rows: &Rows) -> Result<Vec<Description>, Error> {
    rows.iter().map(|row| description(&row)).collect()
}

fn description(row: &RowRef<'_>) -> Result<Description, Error> {
    let oid = row.try_get("oid")?;
    let Some(name) = row.try_get::<Option<String>>("name")? else {
        let type_ = type_of(oid);
        let (schema, name) = (type_.schema().to_owned(), type_.name().to_owned());
        return Ok(Description { oid, schema, name, kind: Parts::Simple });
    };
    let part = || row.try_get::<u32>("part");
    let names = || row.try_get::<Vec<String>>("names");
    let kind = match row.try_get::<&str>("kind")? {
        "a" => Parts::Array(part()?),
        "c" => {
            Parts::Composite(names()?.into_iter().zip(row.try_get::<Vec<u32>>("parts")?).collect())
        }
        "d" => Parts::Domain(part()?),
        "e" => Parts::Enum(names()?),
        "m" => Parts::Multirange(part()?),
        "p" => Parts::Pseudo,
        "r" => Parts::Range(part()?),
        _ => Parts::Simple,
    };
    let schema = row.try_get::<Option<String>>("schema")?.unwrap_or_default();
    Ok(Description { oid, schema, name, kind })
}

impl Description {
    /// The type, where all its parts can be found.
    fn build(&self, find: impl Fn(u32) -> Option<Learned>) -> Option<Learned> {
        let mut size = 1_usize;
        let mut part = |oid: u32| {
            let part = find(oid)?;
            size = size.saturating_add(part.size);
            Some(part.type_)
        };
        let kind = match &self.kind {
            Parts::Simple => Kind::Simple,
            Parts::Pseudo => Kind::Pseudo,
            Parts::Enum(labels) => {
                size = size.saturating_add(labels.len());
                Kind::Enum(labels.clone())
            }
            Parts::Array(of) => Kind::Array(part(*of)?),
            Parts::Range(of) => Kind::Range(part(*of)?),
            Parts::Multirange(of) => Kind::Multirange(part(*of)?),
            Parts::Domain(of) => Kind::Domain(part(*of)?),
            Parts::Composite(fields) => Kind::Composite(
                fields
                    .iter()
                    .map(|(name, oid)| Some(Field::new(name.clone(), part(*oid)?)))
                    .collect::<Option<_>>()?,
            ),
        };
        if size > SIZE_MAX {
            return Some(self.by_name());
        }
        let type_ = Type::new(self.name.clone(), self.oid, kind, self.schema.clone());
        Some(Learned { type_, size })
    }

    /// The type without what it is made of.
    fn by_name(&self) -> Learned {
        let (name, schema) = (self.name.clone(), self.schema.clone());
        Learned { type_: Type::new(name, self.oid, Kind::Simple, schema), size: 1 }
    }
}

/// A type and its size: one for itself, one for each label, and the sizes of its parts.
#[derive(Clone, Debug)]
pub(super) struct Learned {
    pub(super) type_: Type,
    pub(super) size: usize,
}

/// The largest type that is known by more than its name; a table of 1,600 columns, PostgreSQL's
/// limit, has 1,601. A type shares its parts with others, but whoever prints or compares it goes
/// through all of them, and in a hostile catalog that could be without end.
const SIZE_MAX: usize = 16_384;

/// How deep types are nested that are known by more than their name. Whoever reads a value may need
/// as many calls in one another.
const DEPTH_MAX: usize = 64;

/// Makes types out of their descriptions, those first that others are made of.
///
/// PostgreSQL refuses a type that contains itself, but for ways around that which some versions left
/// open. Such a type, and one that is nested too deeply, is known by its name alone where it is a
/// part of another.
pub(super) fn resolve(descriptions: &[Description]) -> Vec<Learned> {
    let is_new = |description: &&Description| builtin(description.oid).is_none();
    let mut rest: Vec<&Description> = descriptions.iter().filter(is_new).collect();
    let mut built = HashMap::new();
    let mut order = Vec::new();
    for _ in 0..DEPTH_MAX {
        let (found, next) = build(rest, |oid| find(&built, oid));
        rest = next;
        if found.is_empty() {
            break;
        }
        order.extend(found.iter().cloned());
        built.extend(found.into_iter().map(|learned| (learned.type_.oid(), learned)));
    }
    let names: HashMap<u32, Learned> =
        rest.iter().map(|description| (description.oid, description.by_name())).collect();
    let find_or_name = |oid: u32| {
        let known = find(&built, oid).or_else(|| names.get(&oid).cloned());
        Some(known.unwrap_or_else(|| Learned { type_: type_of(oid), size: 1 }))
    };
    order.extend(build(rest, find_or_name).0);
    order
}

/// Builds the types whose parts are all found; returns the others as they are.
fn build(
    descriptions: Vec<&Description>,
    find: impl Fn(u32) -> Option<Learned>,
) -> (Vec<Learned>, Vec<&Description>) {
    let mut found = Vec::new();
    let mut rest = Vec::new();
    for description in descriptions {
        match description.build(&find) {
            Some(learned) => found.push(learned),
            None => rest.push(description),
        }
    }
    (found, rest)
}

fn find(built: &HashMap<u32, Learned>, oid: u32) -> Option<Learned> {
    builtin(oid).or_else(|| built.get(&oid).cloned())
}

fn builtin(oid: u32) -> Option<Learned> {
    Some(Learned { type_: Type::from_oid(oid)?, size: 1 })
}

#[cfg(test)]
mod tests;
