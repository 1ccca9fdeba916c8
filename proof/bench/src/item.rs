//! The table that all selects read, its rows as Rust values, and what both sides decode them with.

use std::error::Error;
use std::time::SystemTime;

use postgres_types::{FromSql, Type};

/// Rows in the table.
pub const ROWS: i32 = 100_000;

pub const CREATE: &str = "
    create table item (
        id int primary key, name text not null, created timestamptz not null,
        price float8 not null, active bool not null, doc jsonb not null
    );
    insert into item
        select i, 'item number ' || i, timestamptz '2024-01-01 00:00Z' + i * interval '1 second',
            i * 0.25, i % 3 = 0,
            jsonb_build_object('shelf', i % 100, 'tags', jsonb_build_array('new', 'sale'))
        from generate_series(1, 100000) as i;";

pub const SELECT_ONE: &str = "select id, name, created, price, active, doc from item where id = $1";

pub const SELECT_ALL: &str = "select id, name, created, price, active, doc from item";

/// What a row of either client can do.
pub trait Get<'a> {
    fn get<T: FromSql<'a>>(&self, column: usize) -> T;
}

impl<'a> Get<'a> for onetrip::RowRef<'a> {
    #[inline]
    fn get<T: FromSql<'a>>(&self, column: usize) -> T {
        onetrip::RowRef::get(self, column)
    }
}

impl<'a> Get<'a> for &'a tokio_postgres::Row {
    #[inline]
    fn get<T: FromSql<'a>>(&self, column: usize) -> T {
        tokio_postgres::Row::get(self, column)
    }
}

/// A row whose text and jsonb are borrowed.
pub struct Item<'a> {
    id: i32,
    name: &'a str,
    created: Micros,
    price: f64,
    active: bool,
    doc: Json<'a>,
}

impl<'a> Item<'a> {
    #[inline]
    pub fn read(row: &impl Get<'a>) -> Item<'a> {
        Item {
            id: row.get(0),
            name: row.get(1),
            created: row.get(2),
            price: row.get(3),
            active: row.get(4),
            doc: row.get(5),
        }
    }

    /// Depends on every column, so that none can be left out. The C program computes the same.
    #[inline]
    pub fn checksum(&self) -> u64 {
        let first = |bytes: &[u8]| bytes.first().map_or(0, |&byte| u64::from(byte));
        (self.id as u64)
            .wrapping_add(self.name.len() as u64 + first(self.name.as_bytes()))
            .wrapping_add(self.created.0 as u64)
            .wrapping_add((self.price * 100.0) as u64 + u64::from(self.active))
            .wrapping_add(self.doc.0.len() as u64 + first(self.doc.0))
    }
}

/// A row that owns its values.
pub struct OwnedItem {
    id: i32,
    name: String,
    created: SystemTime,
    price: f64,
    active: bool,
    doc: serde_json::Value,
}

impl OwnedItem {
    #[inline]
    pub fn read<'a>(row: &impl Get<'a>) -> OwnedItem {
        OwnedItem {
            id: row.get(0),
            name: row.get(1),
            created: row.get(2),
            price: row.get(3),
            active: row.get(4),
            doc: row.get(5),
        }
    }

    #[inline]
    pub fn checksum(&self) -> u64 {
        let created = self.created.duration_since(SystemTime::UNIX_EPOCH);
        let shelf = self.doc.get("shelf").and_then(serde_json::Value::as_u64);
        (self.id as u64)
            .wrapping_add(self.name.len() as u64)
            .wrapping_add(created.map_or(0, |created| created.as_secs()))
            .wrapping_add((self.price * 100.0) as u64 + u64::from(self.active))
            .wrapping_add(shelf.unwrap_or_default())
    }
}

/// A timestamptz as it comes over the wire: microseconds since 2000.
struct Micros(i64);

impl<'a> FromSql<'a> for Micros {
    #[inline]
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Micros(i64::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(type_: &Type) -> bool {
        *type_ == Type::TIMESTAMPTZ
    }
}

/// The text of a jsonb, borrowed, behind the version that comes in front of it.
struct Json<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Json<'a> {
    #[inline]
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        match raw {
            [1, text @ ..] => Ok(Json(text)),
            _ => Err("a jsonb of another version".into()),
        }
    }

    fn accepts(type_: &Type) -> bool {
        *type_ == Type::JSONB
    }
}
