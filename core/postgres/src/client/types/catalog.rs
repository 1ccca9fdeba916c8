//! The catalogue's description of types that are not built in: the query, and reading its answer.
//!
//! One query answers to any depth. It follows domains to their base types, arrays to their
//! elements, ranges and multiranges to their subtypes, and composites to their columns.

use bytes::{BufMut, BytesMut};

use crate::Expect;
use crate::message::{Describe, EncodeError, Formats, IsNull, SYNC, Target, bind, execute, parse};

/// The query for types. Its one parameter is an array of oids. Each row of the answer describes a
/// type. Types that take part in others are included, and an oid without a type gives a row of
/// NULLs.
///
/// It runs on PostgreSQL 9.6 and later.
///
/// A type is a true array only if its element type names it as such, since other types have
/// elements, too (`name`, `point`). The column `rngmultitypid` exists only since PostgreSQL 14, so
/// it is read through a JSON object, where it may be missing.
pub const CATALOG_SQL: &str = "\
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
  ) end as parts,
  t.typdelim::pg_catalog.text as delimiter
from wanted
left join pg_catalog.pg_type t on t.oid = wanted.oid
left join pg_catalog.pg_namespace n on n.oid = t.typnamespace
left join pg_catalog.pg_type e on e.oid = t.typelem and e.typarray = t.oid";

const OID: u32 = 26;
const OID_ARRAY: u32 = 1028;
const TEXT: u32 = 25;
const TEXT_ARRAY: u32 = 1009;

/// The columns of the answer, with the oids of their types.
pub const COLUMNS: [(&str, u32); 8] = [
    ("oid", OID),
    ("schema", TEXT),
    ("name", TEXT),
    ("kind", TEXT),
    ("part", OID),
    ("names", TEXT_ARRAY),
    ("parts", OID_ARRAY),
    ("delimiter", TEXT),
];

/// The messages that ask for these types, with all values in binary, and with or without a Sync.
///
/// # Errors
/// There are more oids than fit into a message.
pub fn question(oids: &[u32], with_sync: bool) -> Result<BytesMut, EncodeError> {
    let mut out = BytesMut::new();
    parse::write(&mut out, "", CATALOG_SQL, &[OID_ARRAY])?;
    let value = |_: usize, out: &mut BytesMut| {
        put_oids(out, oids);
        Ok::<_, EncodeError>(IsNull::No)
    };
    bind::write(&mut out, "", "", Formats::AllBinary, 1, value, Formats::AllBinary)?;
    Describe { target: Target::Portal("") }.encode(&mut out)?;
    out.extend_from_slice(&execute::UNNAMED_ALL);
    if with_sync {
        out.extend_from_slice(&SYNC);
    }
    Ok(out)
}

/// The reply to expect to the query.
pub fn expect() -> Expect {
    Expect::sync().parse().bind().describe_portal().execute().leaves_nothing()
}

/// The array in binary form: the number of dimensions, whether there are NULLs, the type of the
/// elements, their number, and the index of the first; then each element behind its length.
fn put_oids(out: &mut BytesMut, oids: &[u32]) {
    [1, 0, OID, oids.len() as u32, 1].into_iter().for_each(|it| out.put_u32(it));
    for oid in oids {
        out.put_u32(4);
        out.put_u32(*oid);
    }
}

/// A type as a row describes it. Its parts are given by their oids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its oid.
    pub oid: u32,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its kind and its parts.
    pub kind: Kind,
    /// What stands between its values in the text of an array of them.
    pub delimiter: u8,
}

/// The kind of a type, with its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No type has this oid, or none that the asking transaction can see.
    Unknown,
    /// A type without parts, or without known ones.
    Simple,
    /// A pseudo-type, which has no values.
    Pseudo,
    /// An enum, with its labels in order.
    Enum(Vec<String>),
    /// An array of elements of this type.
    Array(u32),
    /// A range with bounds of this type.
    Range(u32),
    /// A multirange with bounds of this type.
    Multirange(u32),
    /// A domain over this type.
    Domain(u32),
    /// A composite with these fields: names and types.
    Composite(Vec<(String, u32)>),
}

impl Description {
    /// Reads a row. `value` gives its binary values by their index in [`COLUMNS`]. `None` if they
    /// are not what the query returns.
    pub fn read<'a>(value: impl Fn(usize) -> Option<&'a [u8]>) -> Option<Description> {
        let oid = number(value(0)?)?;
        let Some(name) = value(2) else {
            let (schema, name) = ("pg_catalog".to_owned(), format!("with oid {oid}"));
            return Some(Description { oid, schema, name, kind: Kind::Unknown, delimiter: b',' });
        };
        let part = || number(value(4)?);
        let names = || elements(value(5)?, text);
        let kind = match value(3)? {
            b"a" => Kind::Array(part()?),
            b"c" => {
                Kind::Composite(names()?.into_iter().zip(elements(value(6)?, number)?).collect())
            }
            b"d" => Kind::Domain(part()?),
            b"e" => Kind::Enum(names()?),
            b"m" => Kind::Multirange(part()?),
            b"p" => Kind::Pseudo,
            b"r" => Kind::Range(part()?),
            _ => Kind::Simple,
        };
        let schema = value(1).map_or(Some(String::new()), text)?;
        let &[delimiter] = value(7)? else { return None };
        Some(Description { oid, schema, name: text(name)?, kind, delimiter })
    }

    pub(super) fn parts(&self) -> Vec<u32> {
        match &self.kind {
            Kind::Unknown | Kind::Simple | Kind::Pseudo | Kind::Enum(_) => Vec::new(),
            Kind::Array(of) | Kind::Range(of) | Kind::Multirange(of) | Kind::Domain(of) => {
                vec![*of]
            }
            Kind::Composite(fields) => fields.iter().map(|(_, oid)| *oid).collect(),
        }
    }
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(value.try_into().ok()?))
}

fn text(value: &[u8]) -> Option<String> {
    String::from_utf8(value.to_vec()).ok()
}

/// The elements of an array of one dimension, none of which is NULL.
fn elements<T>(value: &[u8], read: impl Fn(&[u8]) -> Option<T>) -> Option<Vec<T>> {
    // The number of dimensions, whether there are NULLs, and the type of the elements.
    let (head, mut rest) = value.split_at_checked(12)?;
    match number(&head[..4])? {
        0 => return rest.is_empty().then(Vec::new),
        1 => {}
        _ => return None,
    }
    let (count, _first) = (take_number(&mut rest)?, take_number(&mut rest)?);
    // `count` may be wrong, so nothing is reserved for it.
    let mut found = Vec::new();
    for _ in 0..count {
        let len = usize::try_from(take_number(&mut rest)?).ok()?;
        let (element, behind) = rest.split_at_checked(len)?;
        rest = behind;
        found.push(read(element)?);
    }
    rest.is_empty().then_some(found)
}

fn take_number(rest: &mut &[u8]) -> Option<u32> {
    let (found, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_be_bytes(*found))
}
